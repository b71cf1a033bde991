"""The state of an algorithm as plain values and tensors, and a copy of its network."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModule

from nalu_ray.rl.agent.network import Network
from nalu_ray.rl.rllib.env_runner import VectorRunner
from nalu_ray.rl.rllib.learner import ActorCriticLearner, copied

FORMAT = "nalu_ray algorithm 1"


def save(algorithm: Algorithm) -> dict[str, Any]:
    """Returns the state for :func:`load`; it loads under ``torch.load(weights_only=True)``.

    It holds weights, optimiser and counters, and the environments, memory and random numbers of
    each runner. With ``num_env_runners=0`` that determines the rest of training; with runners in
    actors, samples that were not yet used for an update are left out.
    """
    learner = _of_learner(algorithm, ActorCriticLearner.state_dict)
    alive = algorithm.env_runner_group.foreach_env_runner(_collector_state)
    stats = algorithm.metrics.get_state()["stats"]
    lifetime = {
        name: copied(stat)
        for name, stat in stats.items()
        if stat["stats_cls_identifier"] == "lifetime_sum"
    }
    return {
        "format": FORMAT,
        "envs": algorithm.config.num_envs_per_env_runner,
        "learner": learner,
        "collectors": {index: state for index, state in alive if state is not None},
        "metrics": lifetime,
        "iteration": algorithm.training_iteration,
    }


def load(algorithm: Algorithm, state: dict[str, Any]) -> None:
    """Resumes an algorithm of the same configuration from a saved state.

    Raises:
        ValueError: if it is not such a state, or of another number of environments.
        RuntimeError: if it is of another network.
    """
    if state.get("format") != FORMAT:
        raise ValueError(f"not the state of an algorithm ({FORMAT})")
    count = algorithm.config.num_envs_per_env_runner
    if state["envs"] != count:
        raise ValueError(f"state of {state['envs']} environments per runner, not {count}")
    _of_learner(algorithm, partial(_load_learner, state=state["learner"]))
    group = algorithm.env_runner_group
    group.foreach_env_runner(partial(_load_runner, state=state))
    # Each request that was under way has been answered before; the answers are of other weights.
    group.fetch_ready_async_reqs(timeout_seconds=1.0)
    outbox = getattr(algorithm, "outbox", None)  # IMPALA's
    if outbox is not None:
        outbox.put({DEFAULT_MODULE_ID: _module_weights(state)}, state["learner"]["version"])
    algorithm.metrics.set_state({"stats": copied(state["metrics"])})
    algorithm._iteration = state["iteration"]


def network_of(algorithm: Algorithm) -> Network:
    """Returns a copy, on the CPU and in evaluation mode, of the network that the learner has."""
    return _of_learner(algorithm, _network_copy)  # type: ignore[no-any-return]


class TrainedModule:
    """Makes ``get_module()`` of an algorithm return the trained network."""

    def get_module(self, module_id: str = DEFAULT_MODULE_ID) -> RLModule | None:
        """Returns the module with the trained network, on the CPU; None for another name.

        RLlib would return the local runner's module, which keeps the initial weights if other
        runners sample.
        """
        if module_id != DEFAULT_MODULE_ID:
            return None
        module: RLModule = super().get_module(module_id)  # type: ignore[misc]
        module.set_state(_of_learner(self, _module_state))
        return module


def _module_state(learner: ActorCriticLearner) -> dict[str, Any]:
    state: dict[str, Any] = learner.module[DEFAULT_MODULE_ID].get_state()
    return state


def _of_learner(algorithm: Any, function: Any) -> Any:
    """Calls a function with the learner, here or in its actor, and returns the result."""
    (result,) = algorithm.learner_group.foreach_learner(function)
    value = result.get()
    if isinstance(value, Exception):
        raise value
    return value


def _network_copy(learner: ActorCriticLearner) -> Network:
    return copy.deepcopy(learner.network).cpu().eval()


def _load_learner(learner: ActorCriticLearner, state: dict[str, Any]) -> None:
    learner.load_state_dict(state)


def _collector_state(runner: VectorRunner) -> tuple[int, dict[str, Any] | None]:
    collector = runner.collector
    return runner.worker_index or 0, None if collector is None else collector.state_dict()


def _load_runner(runner: VectorRunner, state: dict[str, Any]) -> None:
    runner.set_weights_and_version(_module_weights(state), state["learner"]["version"])
    saved = state["collectors"].get(runner.worker_index or 0)
    if runner.collector is not None and saved is not None:
        runner.collector.load_state_dict(copied(saved))


def _module_weights(state: dict[str, Any]) -> dict[str, Any]:
    """Returns the weights under the names that they have in the `RLModule`."""
    return {f"network.{name}": value for name, value in state["learner"]["weights"].items()}
