"""Settings of RLlib that IMPALA and A3C would ignore; they are refused by name instead."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils import force_list

# Of RLlib's own fields: those that it or we read, or that hold whatever they say. Every other one
# keeps RLlib's default.
_SUPPORTED = """
    algo_class env env_config env_runner_cls num_env_runners num_envs_per_env_runner
    rollout_fragment_length create_env_on_local_worker gamma lr grad_clip entropy_coeff
    vf_loss_coeff vtrace_clip_rho_threshold vtrace_clip_pg_rho_threshold seed

    num_cpus_per_env_runner custom_resources_per_env_runner num_cpus_for_main_process
    custom_resources_for_main_process placement_strategy num_learners num_cpus_per_learner
    num_gpus_per_learner custom_resources_per_learner local_gpu_idx

    restart_failed_env_runners ignore_env_runner_failures max_num_env_runner_restarts
    delay_between_env_runner_restarts_s env_runner_health_probe_timeout_s
    env_runner_restore_timeout_s num_consecutive_env_runner_failures_tolerance
    validate_env_runners_after_construction

    min_time_s_per_iteration min_train_timesteps_per_iteration min_sample_timesteps_per_iteration
    stats_cls_lookup log_level

    evaluation_interval evaluation_duration evaluation_config custom_evaluation_function
    callbacks_class callbacks_on_algorithm_init callbacks_on_train_result
    callbacks_on_evaluate_start callbacks_on_evaluate_end callbacks_on_env_runners_recreated
    callbacks_on_checkpoint_loaded callbacks_on_environment_created callbacks_on_sample_end

    clip_actions normalize_actions disable_env_checking merge_env_runner_states
    broadcast_env_runner_states

    policies exploration_config learner_config_dict in_evaluation simple_optimizer
    _learner_class _model_config _is_frozen _is_atari _validate_config _use_msgpack_checkpoints
    _dont_auto_sync_env_runner_states _prior_exploration_config
"""
# Read by RLlib's IMPALA. A3C requests one rollout at a time from each runner.
_OF_IMPALA = """
    _train_batch_size_per_learner max_requests_in_flight_per_env_runner
    max_requests_in_flight_per_learner timeout_s_sampler_manager
"""
SUPPORTED = frozenset(_SUPPORTED.split())
OF_IMPALA = frozenset(_OF_IMPALA.split())
# Where our default is another than RLlib's.
OURS = {"use_env_runner_state_server": False}  # see impala.Outbox
_CONNECTORS = "the runner and the learner have no connectors"
_EPISODES = "the runner has no episode objects; on_sample_end gets its rollouts"
_PLAYED_HERE = "evaluation plays its episodes at once, in the algorithm's process"
WHY = {
    "add_default_connectors_to_env_to_module_pipeline": _CONNECTORS,
    "add_default_connectors_to_learner_pipeline": _CONNECTORS,
    "add_default_connectors_to_module_to_env_pipeline": _CONNECTORS,
    "batch_mode": "a sample is rollout_fragment_length steps of each environment",
    "callbacks_on_episode_created": _EPISODES,
    "callbacks_on_episode_end": _EPISODES,
    "callbacks_on_episode_start": _EPISODES,
    "callbacks_on_episode_step": _EPISODES,
    "env_to_module_connector": _CONNECTORS,
    "evaluation_duration_unit": _PLAYED_HERE,
    "evaluation_num_env_runners": _PLAYED_HERE,
    "evaluation_parallel_to_training": _PLAYED_HERE,
    "explore": "training draws its actions; evaluation_config={'explore': ...} is evaluation's",
    "gym_env_vectorize_mode": "the runner steps all environments as arrays",
    "learner_connector": _CONNECTORS,
    "module_to_env_connector": _CONNECTORS,
    "observation_filter": _CONNECTORS,
    "rl_module_spec": "rl_module(model_config=...) configures the network",
}


def refused(config: AlgorithmConfig) -> Iterator[str]:
    """Yields a line for each setting of RLlib that a configuration changes without effect."""
    if config.in_evaluation:  # made by RLlib of one that was checked
        return
    base: type[AlgorithmConfig] = next(
        ancestor
        for ancestor in type(config).__mro__
        if ancestor.__module__.startswith("ray.rllib.")
    )
    supported = SUPPORTED if base is AlgorithmConfig else SUPPORTED | OF_IMPALA
    for name, default in {**vars(base()), **OURS}.items():
        value = getattr(config, name, default)
        if name not in supported and not _same(value, default):
            yield _line(name.removeprefix("_").removesuffix("_str"), value, default)
    if config.is_multi_agent:
        yield f"policies={_short(sorted(config.policies))}: only one policy is supported"
    yield from _callbacks(config)
    yield from _evaluation(config)


def _callbacks(config: AlgorithmConfig) -> Iterator[str]:
    names = [name for name in vars(RLlibCallback) if name.startswith("on_")]
    for callback in force_list(config.callbacks_class):
        callback_type = callback if isinstance(callback, type) else type(callback())
        for name in names:
            overridden = getattr(callback_type, name) is not getattr(RLlibCallback, name)
            if overridden and f"callbacks_{name}" not in SUPPORTED:
                reason = WHY.get(f"callbacks_{name}", "these algorithms have no use for it")
                yield (
                    f"callbacks_class={callback_type.__name__}: {name} is never called, "
                    f"since {reason}"
                )


def _evaluation(config: AlgorithmConfig) -> Iterator[str]:
    if config.custom_evaluation_function is None:
        yield "custom_evaluation_function=None: a function is needed, since runners sample rollouts"
    duration = config.evaluation_duration
    if not isinstance(duration, int) or duration < 1:
        yield f"evaluation_duration={duration!r}: a number of episodes, from 1 on, is needed"
    changed = config.evaluation_config or {}
    if isinstance(changed, AlgorithmConfig):
        yield "evaluation_config: a dictionary is needed, not a whole configuration"
        return
    for name, value in changed.items():
        if name != "explore" and not (name == "env" and value == config.env):
            yield f"evaluation_config: {name}={_short(value)}: only explore can be changed"


def _line(name: str, value: Any, default: Any) -> str:
    line = f"{name}={_short(value)}: only {_short(default)} is supported"
    return f"{line}, since {WHY[name]}" if name in WHY else line


def _same(value: Any, default: Any) -> bool:
    return bool(value == default) or (not value and not default)


def _short(value: Any) -> str:
    return " ".join(reprlib.repr(value).split())
