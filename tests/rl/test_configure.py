"""A setting becomes a configuration of RLlib."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nalu_ray.rl.configure import configure
from nalu_ray.rl.losses import scheduled
from nalu_ray.rl.setting import GridworldSetting

CPU = torch.device("cpu")


def made(**values: Any) -> Any:
    return configure(GridworldSetting(**values), 3, CPU)


def test_the_learning_rate_rises_and_falls() -> None:
    lr = made(lr=1e-3, warmup=1000, steps=11_000, lr_end=0.1).lr
    at = [scheduled(lr, step) for step in (0, 1000, 6000, 11_000)]
    assert at == pytest.approx([1e-4, 1e-3, 5.5e-4, 1e-4])
    assert scheduled(made(lr=1e-3, warmup=0).lr, 0) == 1e-3


@pytest.mark.parametrize("seed", [2**31, 2**32, 2**32 + 3, 2**63 - 1])
def test_a_seed_of_any_size_is_one_of_numpys(seed: int) -> None:
    found = configure(GridworldSetting(), seed, CPU).seed
    assert 0 <= found < 2**31
    assert found == configure(GridworldSetting(), seed, CPU).seed
    assert found != configure(GridworldSetting(), seed - 1, CPU).seed
    assert configure(GridworldSetting(), 2**31 - 1, CPU).seed == 2**31 - 1


@pytest.mark.parametrize(("name", "gpus"), [("impala", 1), ("a3c", 0)])
def test_only_a_learner_that_computes_gradients_is_on_the_gpu(
    name: str, gpus: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert made(algorithm=name).num_gpus_per_learner == 0
    assert not caplog.records
    setting = GridworldSetting(algorithm=name)
    assert configure(setting, 3, torch.device("cuda")).num_gpus_per_learner == gpus
    said = [record.message for record in caplog.records if "GPU" in record.message]
    assert len(said) == (name == "a3c")


def test_scores_fall_on_whole_iterations() -> None:
    each = made(steps=4_000_000, evaluations=20).min_train_timesteps_per_iteration
    assert each <= 32_000
    assert -(-200_000 // each) * each == pytest.approx(200_000, abs=10)


@pytest.mark.parametrize("name", ["impala", "a3c"])
def test_every_field_reaches_the_configuration(name: str) -> None:
    config = made(
        algorithm=name,
        variant="lstm_nac",
        hidden=32,
        size=4,
        runners=3,
        envs=16,
        fragment=10,
        entropy=0.2,
        entropy_end=0.1,
        sparsity=2.0,
        steps=300_000,
        gamma=0.9,
        lam=0.8,
        value_weight=0.3,
        clip=0.7,
        nac_lr_factor=5.0,
        reward_scale=2.0,
    )
    config.validate()
    assert config.algo_class.__name__.lower() == name
    assert (config.world().size, config.model_config["hidden"]) == (4, 32)
    assert (config.num_env_runners, config.num_envs_per_env_runner) == (3, 16)
    assert config.get_rollout_fragment_length() == 10
    assert (config.gamma, config.lambda_, config.vf_loss_coeff) == (0.9, 0.8, 0.3)
    assert (config.grad_clip, config.nac_lr_factor, config.reward_scale) == (0.7, 5.0, 2.0)
    assert [scheduled(config.entropy_coeff, at) for at in (0, 300_000)] == [0.2, 0.1]
    assert [scheduled(config.sparsity, at) for at in (100_000, 200_000)] == [0.0, 2.0]
    assert config.seed == 3
