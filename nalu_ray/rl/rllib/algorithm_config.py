"""Fields, defaults and checks that the configurations of IMPALA and A3C share."""

from __future__ import annotations

import math
from typing import Any

from pydantic import ValidationError
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from typing_extensions import Self

from nalu_ray.envs import ID, World
from nalu_ray.errors import explain
from nalu_ray.rl.losses import LossConfig, Schedule, check_schedule, scheduled
from nalu_ray.rl.rllib.env_runner import VectorRunner
from nalu_ray.rl.rllib.learner import ActorCriticLearner
from nalu_ray.rl.rllib.metrics import evaluate
from nalu_ray.rl.rllib.module import TimeModule, network_config
from nalu_ray.rl.unsupported import refused

RLLIB_SEEDS = 2**31


class ActorCriticConfig(AlgorithmConfig):
    """Fields of both algorithms; :meth:`training` describes them.

    ``environment(env_config=...)`` takes the fields of :class:`envs.World`, and
    ``rl_module(model_config=...)`` those of :class:`nalu_ray.rl.agent.network.NetworkConfig`.
    An iteration, one ``train()``, is at least ``min_train_timesteps_per_iteration`` steps.
    ``evaluation(evaluation_duration=...)`` is the episodes of an evaluation, spread over the T's of
    training; they are greedy, unless ``evaluation_config`` has ``explore=True``.

    :meth:`validate` refuses settings of RLlib that have no effect here, see
    :mod:`nalu_ray.rl.unsupported`.
    """

    runner_class: type[VectorRunner] = VectorRunner
    _stream_seed: int | None = None  # as debugging() was given it; none in older checkpoints

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class)
        self.env = ID
        self.env_runner_cls = self.runner_class
        self.num_envs_per_env_runner = 64
        self.rollout_fragment_length: int | str = 20
        self.num_learners = 0
        self.gamma = 0.99
        self.lr = 5e-4
        self.grad_clip = 0.5
        self.min_time_s_per_iteration = None
        self.min_train_timesteps_per_iteration = 25_600
        self.lambda_ = 1.0
        self.vf_loss_coeff = 0.5
        self.entropy_coeff: Schedule = 0.01
        self.nac_lr_factor = 1.0
        self.reward_scale = 1.0
        self.sparsity: Schedule = 0.0
        self.max_bad_updates = 10
        self.custom_evaluation_function = evaluate
        self.evaluation_duration = 800  # episodes; 100 of each T in the paper's range
        # A mistake in the runner shows at once, not after a minute each time.
        self.delay_between_env_runner_restarts_s = 1.0

    def training(
        self,
        *,
        lambda_: float = NotProvided,
        vf_loss_coeff: float = NotProvided,
        entropy_coeff: Schedule = NotProvided,
        nac_lr_factor: float = NotProvided,
        reward_scale: float = NotProvided,
        sparsity: Schedule = NotProvided,
        max_bad_updates: int = NotProvided,
        **kwargs: Any,
    ) -> Self:
        """Sets how to train.

        A schedule is ``[[0, first value], ..., [env steps, value]]``; steps are those trained.

        Args:
            lambda_: lambda of the returns, of [0, 1]; 1 is the n-step return.
            vf_loss_coeff: weight of half the mean squared error of the value.
            entropy_coeff: weight of the policy's mean entropy; a number or a schedule.
            nac_lr_factor: learning rate of the NACs' parameters as a multiple of ``lr``.
            reward_scale: factor on rewards in the loss; reported returns are unscaled.
            sparsity: weight in the loss of the NAC weights' mean distance to the nearest of -1, 0
                and 1; a number or a schedule.
            max_bad_updates: updates in a row whose loss or gradient is not finite, at which
                training fails; fewer are dropped and counted.
            kwargs: RLlib's own, such as ``lr``, ``gamma``, ``grad_clip``.
        """
        super().training(**kwargs)
        options = {
            "lambda_": lambda_,
            "vf_loss_coeff": vf_loss_coeff,
            "entropy_coeff": entropy_coeff,
            "nac_lr_factor": nac_lr_factor,
            "reward_scale": reward_scale,
            "sparsity": sparsity,
            "max_bad_updates": max_bad_updates,
        }
        for name, value in options.items():
            if value is not NotProvided:
                setattr(self, name, value)
        return self

    def debugging(self, *, seed: int | None = NotProvided, **kwargs: Any) -> Self:
        """Sets RLlib's own fields, and a seed of any size: see :attr:`stream_seed`."""
        folded = seed % RLLIB_SEEDS if isinstance(seed, int) and seed >= 0 else seed
        super().debugging(seed=folded, **kwargs)
        if seed is not NotProvided:
            self._stream_seed = seed
        return self

    @property
    def stream_seed(self) -> int | None:
        """The seed of weights, starts and actions; ``seed`` is what NumPy's global generator takes.

        RLlib adds a runner's number to ``seed``, and NumPy refuses one above 32 bits.
        """
        seed = self._stream_seed
        follows = seed is not None and seed % RLLIB_SEEDS == self.seed
        return seed if follows else self.seed

    @property
    def train_batch_size_per_learner(self) -> int:
        """One rollout makes one update, unless more is asked for."""
        batch_size: int | None = self._train_batch_size_per_learner
        return batch_size or self.num_envs_per_env_runner * self.get_rollout_fragment_length()

    @train_batch_size_per_learner.setter
    def train_batch_size_per_learner(self, value: int) -> None:
        self._train_batch_size_per_learner = value

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        config = {
            "world": dict(self.env_config),
            "seed": self.stream_seed,
            "max_seq_len": self.get_rollout_fragment_length(),
        }
        return RLModuleSpec(module_class=TimeModule, model_config=config)

    def loss_config(self, steps: int) -> LossConfig:
        """Returns the weights of the loss after ``steps`` trained environment steps."""
        return LossConfig(
            gamma=self.gamma,
            lam=self.lambda_,
            value=self.vf_loss_coeff,
            entropy=scheduled(self.entropy_coeff, steps),
        )

    def world(self) -> World:
        """Returns the world of the environments.

        Raises:
            ValueError: if a field of it is unknown, or its value not allowed.
        """
        try:
            return World(**self.env_config)
        except (ValueError, TypeError) as error:
            reason = str(error).removeprefix("World.__init__() ")
            raise ValueError(f"environment(env_config=...): {reason}") from error

    def validate(self) -> None:
        if self.rollout_fragment_length == "auto":
            raise ValueError("rollout_fragment_length='auto': a number of steps is needed")
        if mistakes := list(refused(self)):
            raise ValueError("; ".join(mistakes))
        super().validate()
        if self.env != ID:
            raise ValueError(f"env={self.env!r}: {ID} is needed")
        self.world()
        try:
            network_config(self.model_config)
        except ValidationError as error:
            lines = "; ".join(explain(error))
            raise ValueError(f"rl_module(model_config=...): {lines}") from error
        self._validate_numbers()
        self._validate_parts()

    def _validate_numbers(self) -> None:
        if not 0 <= self.lambda_ <= 1:
            raise ValueError(f"lambda_={self.lambda_!r}: 0 to 1 are allowed")
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma={self.gamma!r}: 0 to 1 are allowed")
        for name in ("nac_lr_factor", "reward_scale"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name}={value!r}: a number above 0 is needed")
        if not (self.vf_loss_coeff >= 0 and math.isfinite(self.vf_loss_coeff)):
            raise ValueError(f"vf_loss_coeff={self.vf_loss_coeff!r}: 0 or more is needed")
        if self.seed is not None and not 0 <= self.seed < RLLIB_SEEDS:
            raise ValueError(f"seed={self.seed!r}: 0 to {RLLIB_SEEDS - 1}, or any by debugging()")
        clip = self.grad_clip
        if clip is not None and not (clip > 0 and math.isfinite(clip)):
            raise ValueError(f"grad_clip={clip!r}: a number above 0, or none, is needed")
        if not (isinstance(self.max_bad_updates, int) and self.max_bad_updates >= 1):
            raise ValueError(f"max_bad_updates={self.max_bad_updates!r}: 1 or more is needed")
        for name in ("lr", "entropy_coeff", "sparsity"):
            check_schedule(name, getattr(self, name))

    def _validate_parts(self) -> None:
        """Refuses a learner or an environment runner that these algorithms cannot use."""
        if not issubclass(self.env_runner_cls, self.runner_class):
            raise ValueError(
                f"env_runner_cls={self.env_runner_cls.__name__}: the loss needs the rollouts of "
                f"{self.runner_class.__name__}"
            )
        if self._learner_class and not issubclass(self._learner_class, ActorCriticLearner):
            raise ValueError(
                f"learner_class={self._learner_class.__name__}: a subclass of "
                f"{self.get_default_learner_class().__name__} is needed"
            )
