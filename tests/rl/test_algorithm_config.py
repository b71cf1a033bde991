"""Configurations: defaults that work, checks that name the field, schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.impala import IMPALAConfig as RLlibIMPALAConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from nalu_ray.rl.a3c import A3C, A3CConfig, A3CRunner
from nalu_ray.rl.impala import IMPALA, IMPALAConfig
from nalu_ray.rl.losses import scheduled
from nalu_ray.rl.rllib.env_runner import VectorRunner
from nalu_ray.rl.rllib.module import TimeModule
from nalu_ray.rl.unsupported import OF_IMPALA, OURS, SUPPORTED, refused
from tests.rl.small import CONFIGS, config


def keep(*arguments: Any, **named: Any) -> None:
    """A connector, or a callback."""


class Steps(RLlibCallback):
    def on_episode_step(self, **_: Any) -> None:
        raise AssertionError("never called")


BOTH = pytest.mark.parametrize("kind", list(CONFIGS))


@BOTH
def test_defaults_are_valid(kind: str) -> None:
    made = CONFIGS[kind]()
    made.validate()
    assert made.train_batch_size_per_learner == 64 * 20
    assert made.num_learners == 0
    assert made.world().instruction_range == (5, 12)


def test_defaults_of_each() -> None:
    impala, a3c = IMPALAConfig(), A3CConfig()
    assert (impala.algo_class, impala.env_runner_cls) == (IMPALA, VectorRunner)
    assert (a3c.algo_class, a3c.env_runner_cls) == (A3C, A3CRunner)
    assert (impala.num_env_runners, a3c.num_env_runners) == (1, 2)


def test_own_fields_survive_a_copy() -> None:
    made = config("a3c").training(lambda_=0.5, reward_scale=2.0, max_bad_updates=3).copy()
    assert (made.lambda_, made.reward_scale, made.max_bad_updates) == (0.5, 2.0, 3)
    again = A3CConfig.from_state(made.get_state())
    assert (again.lambda_, again.reward_scale, again.max_bad_updates) == (0.5, 2.0, 3)


@BOTH
@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**80 + 7])
def test_a_seed_of_any_size(kind: str, seed: int) -> None:
    """NumPy's generator takes 32 bits of it, the streams all."""
    made = config(kind).debugging(seed=seed)
    made.validate()
    np.random.RandomState(made.seed + 10**6)
    again = type(made).from_state(made.copy().get_state())
    for of in (made, again):
        assert of.stream_seed == seed
        assert of.get_default_rl_module_spec().model_config["seed"] == seed
    made.debugging(log_level="INFO")
    assert made.stream_seed == seed
    made.update_from_dict({"seed": 5})
    assert made.stream_seed == 5
    assert made.debugging(seed=None).stream_seed is None


def test_more_than_a_rollout_makes_an_update_where_asked_for() -> None:
    assert config("impala").train_batch_size_per_learner == 40
    assert config("impala").training(train_batch_size_per_learner=80).total_train_batch_size == 80


@BOTH
@pytest.mark.parametrize(
    ("group", "fields", "message"),
    [
        ("environment", {"env_config": {"size": 1}}, "env_config.*size=1"),
        ("environment", {"env_config": {"sise": 5}}, "env_config.*sise"),
        ("environment", {"env": "CartPole-v1"}, "env='CartPole-v1'"),
        ("rl_module", {"model_config": {"hidden": 0}}, "model_config.*hidden=0"),
        ("rl_module", {"model_config": {"hiden": 8}}, "model_config.*hiden: no such field"),
        ("rl_module", {"model_config": {"variant": "grue"}}, "variant='grue': unknown core"),
        ("env_runners", {"rollout_fragment_length": "auto"}, "rollout_fragment_length='auto'"),
        ("env_runners", {"env_runner_cls": SingleAgentEnvRunner}, "env_runner_cls"),
        ("env_runners", {"num_gpus_per_env_runner": 1}, "num_gpus_per_env_runner=1"),
        ("learners", {"num_learners": 2}, "num_learners=2"),
        ("training", {"lambda_": 1.5}, "lambda_=1.5"),
        ("training", {"gamma": -0.1}, "gamma=-0.1"),
        ("training", {"nac_lr_factor": 0}, "nac_lr_factor=0"),
        ("training", {"reward_scale": float("inf")}, "reward_scale=inf"),
        ("training", {"vf_loss_coeff": -1.0}, "vf_loss_coeff=-1.0"),
        ("training", {"max_bad_updates": 0}, "max_bad_updates=0"),
        ("training", {"sparsity": [[0, 1.0]]}, "sparsity"),
        ("training", {"sparsity": [[0, 1.0], [10, float("nan")]]}, "sparsity"),
        ("training", {"entropy_coeff": [[5, 1.0], [10, 0.0]]}, "entropy_coeff"),
        ("training", {"lr": [[0, 1.0], [10, 0.5], [5, 0.1]]}, "lr=.*steps may not fall"),
        ("training", {"lr": -1.0}, "lr=-1.0"),
        ("debugging", {"seed": -1}, "seed=-1"),
        ("training", {"grad_clip": -0.5}, "grad_clip=-0.5"),
        ("training", {"grad_clip": 0}, "grad_clip=0"),
        ("training", {"grad_clip_by": "value"}, "grad_clip_by='value'"),
        ("training", {"num_epochs": 2}, "num_epochs=2"),
        ("training", {"minibatch_size": 40}, "minibatch_size=40"),
        ("training", {"train_batch_size": 77}, "train_batch_size=77"),
        ("training", {"learner_class": TorchLearner}, "learner_class=TorchLearner"),
        ("training", {"learner_connector": keep}, "learner_connector=.*no connectors"),
        ("env_runners", {"env_to_module_connector": keep}, "env_to_module_connector=.*connectors"),
        ("env_runners", {"module_to_env_connector": keep}, "module_to_env_connector=.*connectors"),
        (
            "env_runners",
            {"add_default_connectors_to_env_to_module_pipeline": False},
            "add_default_connectors_to_env_to_module_pipeline=False",
        ),
        ("env_runners", {"observation_filter": "MeanStdFilter"}, "observation_filter='MeanStdF"),
        ("env_runners", {"batch_mode": "complete_episodes"}, "batch_mode='complete_episodes'"),
        ("env_runners", {"explore": False}, "explore=False"),
        ("env_runners", {"create_local_env_runner": False}, "create_local_env_runner=False"),
        ("evaluation", {"evaluation_duration": "auto"}, "evaluation_duration='auto'"),
        ("evaluation", {"evaluation_duration": 0}, "evaluation_duration"),
        ("evaluation", {"evaluation_duration_unit": "timesteps"}, "evaluation_duration_unit="),
        ("evaluation", {"evaluation_num_env_runners": 1}, "evaluation_num_env_runners=1"),
        ("evaluation", {"custom_evaluation_function": None}, "custom_evaluation_function=None"),
        ("evaluation", {"evaluation_config": {"gamma": 0.5}}, "evaluation_config: gamma=0.5"),
        ("callbacks", {"on_episode_created": keep}, "callbacks_on_episode_created=.*on_sample_end"),
        ("callbacks", {"on_episode_start": keep}, "callbacks_on_episode_start="),
        ("callbacks", {"on_episode_step": [keep]}, "callbacks_on_episode_step="),
        ("callbacks", {"on_episode_end": keep}, "callbacks_on_episode_end="),
        (
            "callbacks",
            {"callbacks_class": Steps},
            "callbacks_class=Steps: on_episode_step is never",
        ),
        (
            "callbacks",
            {"callbacks_class": [RLlibCallback, Steps]},
            "callbacks_class=Steps: on_episode_step is never",
        ),
        ("multi_agent", {"policies": {"a", "b"}}, r"policies=\['a', 'b'\]"),
        (
            "rl_module",
            {"rl_module_spec": RLModuleSpec(module_class=TimeModule)},
            "rl_module_spec=.*model_config",
        ),
    ],
)
def test_mistakes_are_named(kind: str, group: str, fields: dict[str, Any], message: str) -> None:
    made = config(kind)
    getattr(made, group)(**fields)
    with pytest.raises(ValueError, match=message):
        made.validate()


def fields(kind: str) -> dict[str, Any]:
    """RLlib's own fields of a configuration, with their defaults."""
    return vars({"impala": RLlibIMPALAConfig, "a3c": AlgorithmConfig}[kind]())


@BOTH
def test_every_field_of_rllibs_is_supported_or_refused(kind: str) -> None:
    known = SUPPORTED | OF_IMPALA if kind == "impala" else SUPPORTED
    assert known <= fields("impala").keys() | fields("a3c").keys()
    for name, default in fields(kind).items():
        if name not in known:
            made = config(kind)
            value = not default if isinstance(default, bool) else "another"
            setattr(made, name, value if OURS.get(name, default) == default else default)
            (line,) = refused(made)
            assert line.startswith(f"{name.removeprefix('_').removesuffix('_str')}=")
            assert "\n" not in line


@BOTH
def test_what_is_as_it_is_anyway_may_be_said(kind: str) -> None:
    made = (
        config(kind)
        .env_runners(explore=True, batch_mode="truncate_episodes", observation_filter="NoFilter")
        .evaluation(evaluation_duration=3, evaluation_interval=2)
        .evaluation(evaluation_config=AlgorithmConfig.overrides(explore=False))
        .callbacks(RLlibCallback, on_train_result=keep, on_sample_end=keep)
        .callbacks(on_environment_created=keep, on_evaluate_end=keep)
    )
    made.environment(clip_rewards=False)
    made.validate()


@BOTH
def test_all_mistakes_at_once(kind: str) -> None:
    made = config(kind).env_runners(batch_mode="complete_episodes").callbacks(on_episode_end=keep)
    with pytest.raises(
        ValueError, match=r"^[^\n]*batch_mode[^\n]*; callbacks_on_episode_end[^\n]*$"
    ):
        made.validate()


def test_mistakes_of_one_algorithm() -> None:
    with pytest.raises(ValueError, match="train_batch_size_per_learner=80"):
        config("a3c").training(train_batch_size_per_learner=80).validate()
    with pytest.raises(ValueError, match="max_requests_in_flight_per_env_runner=2"):
        config("a3c").env_runners(max_requests_in_flight_per_env_runner=2).validate()
    config("impala").env_runners(max_requests_in_flight_per_env_runner=2).validate()
    with pytest.raises(ValueError, match="num_learners=1"):
        config("a3c").learners(num_learners=1).validate()
    config("impala").learners(num_learners=1).validate()
    with pytest.raises(ValueError, match="broadcast_interval=2: only 1 is supported"):
        config("impala").training(broadcast_interval=2).validate()
    with pytest.raises(ValueError, match="use_env_runner_state_server=True"):
        config("impala").env_runners(use_env_runner_state_server=True).validate()
    with pytest.raises(ValueError, match="vtrace_clip_pg_rho_threshold=2"):
        config("impala").training(vtrace_clip_pg_rho_threshold=2.0).validate()


def test_what_the_loss_weighs() -> None:
    made = config("impala").training(
        gamma=0.9,
        lambda_=0.8,
        vf_loss_coeff=0.3,
        entropy_coeff=[[0, 0.1], [100, 0.0]],
        vtrace_clip_rho_threshold=2.0,
        vtrace_clip_pg_rho_threshold=2.0,
    )
    weights = made.loss_config(25)
    assert (weights.gamma, weights.lam, weights.value) == (0.9, 0.8, 0.3)
    assert (weights.entropy, weights.clip) == (pytest.approx(0.075), 2.0)


def test_schedules() -> None:
    assert scheduled(3, 10) == 3.0
    points = [[0, 1.0], [10, 1.0], [20, 0.0]]
    assert [scheduled(points, at) for at in (0, 5, 10, 15, 20, 99)] == [1, 1, 1, 0.5, 0, 0]
