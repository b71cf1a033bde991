"""RLlib's environment runner around :class:`nalu_ray.rl.rollout.Collector`, and waiting for one."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection
from typing import Any

import ray
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.metrics import (
    EPISODE_LEN_MEAN,
    EPISODE_RETURN_MEAN,
    SAMPLE_TIMER,
)

from nalu_ray.envs import TimeGridworldVectorEnv
from nalu_ray.rl.rollout import Collector, Ended, Rollout

COLLECTOR = "collector"  # component of the state: environments, memory, random numbers
EXACT_MEAN, NEVER_MEAN = "episode_exact_mean", "episode_never_mean"


class VectorRunner(SingleAgentEnvRunner):
    """Samples rollouts of ``rollout_fragment_length`` steps from all environments at once.

    One forward pass a step, no episode objects, no connectors, no pictures: a sample is a list of
    one :class:`Rollout`, which RLlib's IMPALA passes on to the learner unopened, and the callback
    ``on_sample_end`` gets as ``samples``.
    """

    collector: Collector | None = None

    def make_env(self) -> None:
        config = self.config
        self.env = TimeGridworldVectorEnv(
            config.num_envs_per_env_runner,
            autoreset_mode=AutoresetMode.SAME_STEP,
            observation="frame",
            **config.env_config,
        )
        self.num_envs = self.env.num_envs
        context = EnvContext(
            config.env_config, self.worker_index or 0, num_workers=self.num_workers
        )
        self._tell("on_environment_created", env=self.env, env_context=context)
        length = config.get_rollout_fragment_length()
        self.collector = Collector(self.env, length, config.stream_seed, self._name())

    def _name(self) -> str:
        """Returns this runner's place among all; one that replaces another sees other episodes."""
        name = str(self.worker_index or 0)
        if _reconstructed():
            name += f" anew {secrets.token_hex(8)}"
        return name

    def sample(self, **arguments: Any) -> list[Rollout]:
        """Returns one rollout.

        Raises:
            ValueError: if another number of steps, or of episodes, is asked for, or there is no
                environment here.
        """
        if self.collector is None:
            raise ValueError(f"{self} has no environment")
        if any(value is not None for value in arguments.values()):
            raise ValueError(f"a sample is one rollout: {arguments} cannot be asked for")
        with self.metrics.log_time(SAMPLE_TIMER):
            rollout, ended = self.collector.collect(self.module.network, self._weights_seq_no)
            self._tell("on_sample_end", samples=[rollout])
        self.num_env_steps_sampled_lifetime += rollout.steps
        self._log(rollout, ended)
        return [rollout]

    def sample_get_state_and_metrics(
        self, weights: dict[str, Any] | None = None, version: int = 0
    ) -> tuple[Any, dict[str, Any], Any]:
        """Returns a reference of a sample with these weights, no connectors' state, and metrics."""
        if weights is not None and version != self._weights_seq_no:
            self.set_weights_and_version(weights[DEFAULT_MODULE_ID], version)
        # No connector has a state.
        return ray.put(self.sample()), {}, self.get_metrics()

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        state: dict[str, Any] = super().get_state(
            components, not_components=not_components, **kwargs
        )
        is_included = self._check_component(COLLECTOR, components, not_components)
        if self.collector is not None and is_included:
            state[COLLECTOR] = self.collector.state_dict()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        if COMPONENT_RL_MODULE in state:
            self._weights_seq_no = 0  # RLlib takes older weights' version, not the weights
        super().set_state(state)
        if self.collector is not None and COLLECTOR in state:
            self.collector.load_state_dict(state[COLLECTOR])

    def set_weights_and_version(self, weights: dict[str, Any], version: int) -> None:
        """Acts with these weights from now on, whatever the present ones are."""
        self.module.set_state(weights)
        self._weights_seq_no = version

    def _tell(self, event: str, **details: Any) -> None:
        """Calls the callbacks of an event, as RLlib's runner does."""
        make_callback(
            event,
            callbacks_objects=self._callbacks,
            callbacks_functions=getattr(self.config, f"callbacks_{event}"),
            kwargs={"env_runner": self, "metrics_logger": self.metrics, **details},
        )

    def _log(self, rollout: Rollout, ended: Ended) -> None:
        count = len(ended.returns)
        self._increase_sampled_metrics(rollout.steps, count)
        means: dict[str, NDArray[Any]] = {
            EPISODE_RETURN_MEAN: ended.returns,
            EPISODE_LEN_MEAN: ended.lengths,
            EXACT_MEAN: ended.exact,
            NEVER_MEAN: ended.never,
        }
        for name, values in means.items():
            if len(values):
                self.metrics.log_value(name, float(values.mean()), reduce="mean")


def _reconstructed() -> bool:
    """Whether this is an actor that Ray started again after its process died."""
    if not ray.is_initialized():
        return False
    context = ray.get_runtime_context()
    return context.get_actor_id() is not None and bool(context.was_current_actor_reconstructed)


def wait_for_any(group: Any, tag: str, timeout: float) -> None:
    """Waits until any request of an `EnvRunnerGroup` is answered, or for ``timeout`` seconds.

    RLlib waits for all requests, so that each runner would be as slow as the slowest.
    """
    requests = group._worker_manager._in_flight_req_to_actor_id.items()
    pending = [request for request, (name, _) in requests if name == tag]
    if pending:
        ray.wait(pending, num_returns=1, timeout=timeout)


class Patience:
    """Decides when to give up on environment runners that die again and again.

    Args:
        group: the `EnvRunnerGroup`.
        attempts: allowed training steps in a row without a living runner.
        restarts: allowed restarts per runner, on average, without any answer.
    """

    def __init__(self, group: Any, attempts: int = 60, restarts: int = 5) -> None:
        self.group, self.attempts, self.restarts = group, attempts, restarts
        self.failed = self.before = 0

    def answered(self) -> None:
        """Notes that a runner answered a request."""
        self.failed, self.before = 0, self.group.num_remote_worker_restarts()

    def check(self) -> None:
        """Waits a second if no runner is alive.

        Raises:
            RuntimeError: if no runner came back for too long, or runners kept dying.
        """
        died = self.group.num_remote_worker_restarts() - self.before
        if died > self.restarts * self.group.num_remote_env_runners():
            raise RuntimeError(
                f"environment runners died {died} times without one answer in between; Ray's logs "
                "of A3CRunner or VectorRunner say why"
            )
        if self.group.num_healthy_remote_workers():
            return
        self.failed += 1
        if self.failed > self.attempts:
            raise RuntimeError("all environment runners are gone, and none came back")
        time.sleep(1)
