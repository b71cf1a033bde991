"""The RLlib configuration of a gridworld setting."""

from __future__ import annotations

import logging
import math
from dataclasses import asdict
from typing import Any

import ray
import torch

from nalu_ray.rl.a3c import A3CConfig
from nalu_ray.rl.impala import IMPALAConfig
from nalu_ray.rl.setting import GridworldSetting
from nalu_ray.seeding import entropy

log = logging.getLogger(__name__)

CONFIGS: dict[str, type[IMPALAConfig] | type[A3CConfig]] = {
    "impala": IMPALAConfig,
    "a3c": A3CConfig,
}
# an iteration lies between two looks at the progress: about a second
STEPS_OF_AN_ITERATION = 32_000
LARGEST_SEED = 2**31


def configure(setting: GridworldSetting, seed: int, device: torch.device) -> Any:
    """Returns the configuration of one seed, ready to be built or changed."""
    steps = setting.steps
    between = math.ceil(steps / setting.evaluations)
    iterations = math.ceil(between / STEPS_OF_AN_ITERATION)  # so that scores are taken on time
    return (
        CONFIGS[setting.algorithm]()
        .environment(env_config=asdict(setting.world()))
        .rl_module(model_config=setting.network().model_dump())
        .env_runners(
            num_env_runners=setting.runners,
            num_cpus_per_env_runner=_cpus_of_a_process(),
            num_envs_per_env_runner=setting.envs,
            rollout_fragment_length=setting.fragment,
        )
        .learners(num_learners=0, num_gpus_per_learner=_gpus_of_the_learner(setting, device))
        .training(
            lr=_learning_rate(setting),
            entropy_coeff=[[0, setting.entropy], [steps, setting.entropy_end]],
            sparsity=[[0, 0.0], [steps // 3, 0.0], [2 * steps // 3, setting.sparsity]],
            gamma=setting.gamma,
            lambda_=setting.lam,
            vf_loss_coeff=setting.value_weight,
            grad_clip=setting.clip,
            nac_lr_factor=setting.nac_lr_factor,
            reward_scale=setting.reward_scale,
        )
        .reporting(
            min_time_s_per_iteration=0,
            min_train_timesteps_per_iteration=math.ceil(between / iterations),
        )
        .debugging(seed=_rllib_seed(seed))
    )


def _gpus_of_the_learner(setting: GridworldSetting, device: torch.device) -> int:
    """Returns 1 for a learner on the GPU.

    A3C's runners compute gradients on CPUs. Its learner only applies them: on a GPU, each update
    would copy all gradients there and all weights back.
    """
    if device.type != "cuda":
        return 0
    if setting.algorithm == "a3c":
        log.warning("algorithm=a3c trains on CPUs: the GPU that this trial reserved is idle")
        return 0
    return 1


def _rllib_seed(seed: int) -> int:
    """A seed that NumPy's global generator takes, also once runners' numbers are added to it."""
    return seed if seed < LARGEST_SEED else entropy("gridworld", seed, "rllib") % LARGEST_SEED


def _learning_rate(setting: GridworldSetting) -> list[list[float]]:
    """A rise over the warm-up, then a fall to the end."""
    low, high = setting.lr * setting.lr_end, setting.lr
    rise = [[0, low], [setting.warmup, high]] if setting.warmup else [[0, high]]
    return [*rise, [setting.steps, low]]


def _cpus_of_a_process() -> float:
    """CPUs of this process: a trial's processes have equal shares."""
    if not ray.is_initialized() or ray.util.get_current_placement_group() is None:
        return 0
    return float(ray.get_runtime_context().get_assigned_resources().get("CPU", 0))


def build(setting: GridworldSetting, seed: int, device: torch.device) -> Any:
    """Returns the algorithm of one seed, ready to train.

    Raises:
        RuntimeError: Ray does not run. RLlib would start one that listens on every address.
    """
    if not ray.is_initialized():
        raise RuntimeError("RLlib needs a running Ray: call ray.init() first")
    return configure(setting, seed, device).build_algo()
