"""IMPALA (Espeholt et al., 2018): RLlib's, with rollouts instead of episodes and its own V-trace.

RLlib's IMPALA transports data and weights; :mod:`nalu_ray.rl.rllib.env_runner` samples, and
:mod:`nalu_ray.rl.rllib.learner` updates. RLlib's loss does not bootstrap unfinished rollouts, see
docs/notes/rllib-vtrace-bootstrap.md.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ray
import torch
from ray.rllib.algorithms.impala import IMPALA as RLlibIMPALA
from ray.rllib.algorithms.impala import IMPALAConfig as RLlibIMPALAConfig
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics import (
    NUM_TRAINING_STEP_CALLS_SINCE_LAST_SYNCH_WORKER_WEIGHTS,
    WEIGHTS_SEQ_NO,
)
from torch import Tensor

from nalu_ray.rl.losses import LossConfig, Taken, actor_critic
from nalu_ray.rl.rllib.algorithm_config import ActorCriticConfig
from nalu_ray.rl.rllib.checkpoint import TrainedModule
from nalu_ray.rl.rllib.env_runner import Patience, wait_for_any
from nalu_ray.rl.rllib.learner import ActorCriticLearner

SAMPLE = "sample_get_state_and_metrics"


class IMPALALearner(ActorCriticLearner):
    """V-trace and Adam; each call of :meth:`update` makes one update before it returns.

    RLlib's IMPALA learner updates in a separate thread and hands out weights that are an update
    old; an error in that thread stops training silently.
    """

    def build_optimiser(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.Adam(groups, eps=1e-5)

    def loss(
        self, logits: Tensor, values: Tensor, taken: Taken, config: LossConfig
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """V-trace: importance weights correct for an older policy that acted."""
        actions, behaviour, rewards, done = taken
        return actor_critic(logits, values, actions, rewards, done, behaviour, config)

    def update(
        self, training_data: TrainingData, *, return_state: bool = False, **_: Any
    ) -> dict[str, Any]:
        """Makes one update; returns metrics and, with ``return_state``, the weights after it.

        Raises:
            RuntimeError: see :meth:`ActorCriticLearner.take_step`.
        """
        training_data.solve_refs()
        rollouts = training_data.episodes
        # None is left of those that died with their runner.
        if rollouts:
            gradients, parts = self.gradients(rollouts, self.progress["steps"])
            steps = sum(rollout.steps for rollout in rollouts)
            version = min(rollout.version for rollout in rollouts)
            self.take_step(gradients, parts, steps, version)
        results: dict[str, Any] = self.metrics.reduce()
        if return_state:
            state = self.get_state(components=f"{COMPONENT_RL_MODULE}/{DEFAULT_MODULE_ID}")
            results["_rl_module_state_after_update"] = {
                COMPONENT_RL_MODULE: ray.put(state[COMPONENT_RL_MODULE]),
                WEIGHTS_SEQ_NO: self._weights_seq_no,
            }
        return results


class IMPALAConfig(ActorCriticConfig, RLlibIMPALAConfig):
    """Configures :class:`IMPALA`; see :class:`ActorCriticConfig`, whose defaults hold.

    ``num_learners=1`` puts the learner into an actor; it drops samples that arrive while it is
    busy.
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or IMPALA)
        self.num_env_runners = 1
        self.use_env_runner_state_server = False  # see Outbox
        # How long to wait for a rollout; RLlib's 0 asks again and again, and the runners starve.
        self.timeout_s_sampler_manager = 0.2

    def get_default_learner_class(self) -> type[IMPALALearner]:
        return IMPALALearner

    def loss_config(self, steps: int) -> LossConfig:
        shared = super().loss_config(steps)
        return LossConfig(**{**vars(shared), "clip": self.vtrace_clip_rho_threshold})

    def validate(self) -> None:
        super().validate()
        if self.num_learners not in (0, 1):
            raise ValueError(f"num_learners={self.num_learners!r}: 0 and 1 are supported")
        if self.vtrace_clip_rho_threshold is None:
            raise ValueError("vtrace_clip_rho_threshold=None: a number is needed")
        if self.vtrace_clip_pg_rho_threshold != self.vtrace_clip_rho_threshold:
            raise ValueError(
                f"vtrace_clip_pg_rho_threshold={self.vtrace_clip_pg_rho_threshold!r}: the same "
                f"as vtrace_clip_rho_threshold={self.vtrace_clip_rho_threshold!r} is needed"
            )


class Outbox:
    """The newest weights, which are sent with each request for a sample.

    RLlib has a server for them, a process more, which each runner asks before it samples: a quarter
    of a small network's processor time (docs/performance.md).

    Attributes:
        request: arguments of :meth:`VectorRunner.sample_get_state_and_metrics`.
    """

    def __init__(self) -> None:
        self.request: dict[str, Any] = {}

    def put(self, weights: dict[str, Any], version: int) -> None:
        """Takes weights, by module, and how many updates had made them."""
        self.request = {"weights": ray.put(weights), "version": version}

    def take(self, state: dict[str, Any]) -> None:
        """Takes what RLlib would push to its server: a reference of weights, and their version."""
        self.request = {"weights": state[COMPONENT_RL_MODULE], "version": state[WEIGHTS_SEQ_NO]}

    @property
    def version(self) -> int:
        """Of the weights that are there; 0 for none: the runners act with those they began with."""
        return int(self.request.get("version", 0))


class IMPALA(TrainedModule, RLlibIMPALA):
    """RLlib's IMPALA whose runners get the weights of every update."""

    @classmethod
    def get_default_config(cls) -> IMPALAConfig:
        return IMPALAConfig()

    def setup(self, config: IMPALAConfig) -> None:
        super().setup(config)
        self.patience = Patience(self.env_runner_group)
        self.outbox = Outbox()
        if config.num_learners and config.num_env_runners:
            push = SimpleNamespace(remote=self.outbox.take)
            self._env_runner_state_server = SimpleNamespace(push=push)

    def training_step(self) -> None:
        # RLlib asks the learner for weights when this many calls went by without: one in an actor
        # at each call, one that is here never.
        asking = self.config.broadcast_interval if self.config.num_learners else 0
        self._counters[NUM_TRAINING_STEP_CALLS_SINCE_LAST_SYNCH_WORKER_WEIGHTS] = asking
        super().training_step()
        if not self.config.num_learners:
            self._post()

    def _post(self) -> None:
        """Sends the weights of a learner that is here on their way."""
        learner = self.learner_group._learner
        if self.outbox.version == learner._weights_seq_no:
            return
        weights, version = _weights(learner)
        self.outbox.put(weights, version)
        if not self.config.num_env_runners:
            self.env_runner.set_weights_and_version(weights[DEFAULT_MODULE_ID], version)

    def restore_from_path(self, *arguments: Any, **named: Any) -> None:
        """Resumes from a checkpoint, which may be older than the present state."""
        super().restore_from_path(*arguments, **named)
        # Requests that were under way have been answered before, with other weights.
        self.env_runner_group.fetch_ready_async_reqs(timeout_seconds=1.0)
        (result,) = self.learner_group.foreach_learner(_weights)
        self.outbox.put(*result.get())

    def restore_env_runners(self, env_runner_group: Any) -> list[int]:
        # RLlib's own would give them the server's handle.
        restored: list[int] = super(RLlibIMPALA, self).restore_env_runners(env_runner_group)
        return restored

    def _sample_and_get_connector_states(self) -> tuple[list[Any], list[Any], list[Any], set[int]]:
        """As RLlib's, but waits for the first rollout and not for the last."""
        if not self.config.num_env_runners:
            rollouts, _, metrics = self.env_runner.sample_get_state_and_metrics()
            return [rollouts], [], [metrics], set()
        self.patience.check()
        group = self.env_runner_group
        wait_for_any(group, SAMPLE, self.config.timeout_s_sampler_manager)
        ready = group.foreach_env_runner_async_fetch_ready(
            func=SAMPLE, tag=SAMPLE, kwargs=self.outbox.request, return_actor_ids=True
        )
        if ready:
            self.patience.answered()
        refs, metrics = [r[0] for _, r in ready], [r[2] for _, r in ready]
        return refs, [], metrics, {actor for actor, _ in ready}


def _weights(learner: IMPALALearner) -> tuple[dict[str, Any], int]:
    """Returns a learner's weights, by module, and their version."""
    state = learner.get_state(components=f"{COMPONENT_RL_MODULE}/{DEFAULT_MODULE_ID}")
    return state[COMPONENT_RL_MODULE], learner._weights_seq_no
