"""A3C (Mnih et al., 2016) on RLlib's new API stack, which does not have it.

Each environment runner samples a rollout with the weights it was sent and returns the gradient of
its loss. The driver applies gradients as they arrive, by an RMSProp with shared statistics, and
sends the new weights to the runner that the gradient came from.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS
from torch import Tensor

from nalu_ray.rl.losses import LossConfig, Taken, actor_critic
from nalu_ray.rl.rllib.algorithm_config import ActorCriticConfig
from nalu_ray.rl.rllib.checkpoint import TrainedModule
from nalu_ray.rl.rllib.env_runner import Patience, VectorRunner, wait_for_any
from nalu_ray.rl.rllib.learner import ActorCriticLearner

GRADIENTS = "sample_and_grads"
TIMEOUT = 0.2  # seconds that a step of training waits for a gradient

Answer = tuple[dict[str, NDArray[Any]], dict[str, float], int, int, Any]


class A3CLearner(ActorCriticLearner):
    """n-step returns and RMSProp, whose mean of squared gradients all runners share."""

    def build_optimiser(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(groups, alpha=0.99, eps=1e-5)

    def loss(
        self, logits: Tensor, values: Tensor, taken: Taken, config: LossConfig
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """n-step returns, without importance weights: the policy itself acted."""
        actions, _, rewards, done = taken
        return actor_critic(logits, values, actions, rewards, done, None, config)


class A3CRunner(VectorRunner):
    """An environment runner with a learner, which computes the gradient of its loss."""

    def make_module(self) -> None:
        if self.env is None:
            super().make_module()
            return
        config = self.config.copy(copy_frozen=False).learners(num_gpus_per_learner=0)
        self.learner: A3CLearner = config.build_learner(spaces=self.get_spaces())
        self.module = self.learner.module[DEFAULT_MODULE_ID]

    def sample_and_grads(self, weights: dict[str, Any], version: int, steps: int) -> Answer:
        """Samples a rollout; returns gradients, parts of the loss, steps, version and metrics.

        Args:
            weights: weights of the acting policy.
            version: number of updates that made them.
            steps: environment steps trained so far, by all runners together.
        """
        self.set_weights_and_version(weights, version)
        rollouts = self.sample()
        gradients, parts = self.learner.gradients(rollouts, steps)
        named = {name: gradient.numpy() for name, gradient in gradients.items()}
        return named, parts, rollouts[0].steps, version, self.get_metrics()


class A3CConfig(ActorCriticConfig):
    """Configures :class:`A3C`; see :class:`ActorCriticConfig`, whose defaults hold."""

    runner_class = A3CRunner

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or A3C)
        self.num_env_runners = 2
        # Weights go out with each request for a gradient.
        self._dont_auto_sync_env_runner_states = True
        self.exploration_config: dict[str, Any] = {}

    def get_default_learner_class(self) -> type[A3CLearner]:
        return A3CLearner

    def validate(self) -> None:
        super().validate()
        if self.num_learners != 0:
            raise ValueError(
                f"num_learners={self.num_learners!r}: 0 is needed, the driver applies gradients"
            )


class A3C(TrainedModule, Algorithm):
    """Asynchronous advantage actor-critic; the module's docstring describes it."""

    @classmethod
    def get_default_config(cls) -> A3CConfig:
        return A3CConfig()

    def setup(self, config: A3CConfig) -> None:
        super().setup(config)
        self.patience = Patience(self.env_runner_group)

    @property
    def learner(self) -> A3CLearner:
        """The learner that applies gradients."""
        learner: A3CLearner = self.learner_group._learner
        return learner

    def training_step(self) -> None:
        """Applies the gradients that have arrived; waits for one if there are none."""
        if not self.config.num_env_runners:
            self._apply(self.env_runner.sample_and_grads(**self._request()))
            return
        self.patience.check()
        group = self.env_runner_group
        wait_for_any(group, GRADIENTS, TIMEOUT)
        for actor, answer in group.fetch_ready_async_reqs(tags=GRADIENTS):
            self.patience.answered()
            self._apply(answer)
            self._ask([actor])
        # Those never asked, and those that came back.
        self._ask(group.healthy_env_runner_ids())

    def restore_from_path(self, *arguments: Any, **named: Any) -> None:
        """Resumes from a checkpoint, which may be older than the present state."""
        super().restore_from_path(*arguments, **named)
        # Requests that were under way have been answered before, with other weights.
        self.env_runner_group.fetch_ready_async_reqs(timeout_seconds=1.0)

    def _request(self) -> dict[str, Any]:
        state = self.learner.get_state(components=f"{COMPONENT_RL_MODULE}/{DEFAULT_MODULE_ID}")
        return {
            "weights": state[COMPONENT_RL_MODULE][DEFAULT_MODULE_ID],
            "version": self.learner.progress["updates"],
            "steps": self.learner.progress["steps"],
        }

    def _ask(self, actors: list[int]) -> None:
        manager = self.env_runner_group._worker_manager
        busy = {
            actor for tag, actor in manager._in_flight_req_to_actor_id.values() if tag == GRADIENTS
        }
        idle = [actor for actor in actors if actor not in busy]
        if idle:
            self.env_runner_group.foreach_env_runner_async(
                GRADIENTS, tag=GRADIENTS, kwargs=self._request(), remote_worker_ids=idle
            )

    def _apply(self, answer: Answer) -> None:
        named, parts, steps, version, metrics = answer
        device = self.learner.device
        gradients = {
            # A copy, since what arrives cannot be written to and is clipped in place.
            name: torch.tensor(gradient, device=device)
            for name, gradient in named.items()
        }
        self.learner.take_step(gradients, parts, steps, version)
        self.metrics.aggregate([metrics], key=ENV_RUNNER_RESULTS)
        self.metrics.aggregate([self.learner.metrics.reduce()], key=LEARNER_RESULTS)
