"""The learner of both algorithms: gradients, updates, and how it handles non-finite ones."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    DIFF_NUM_GRAD_UPDATES_VS_SAMPLER_POLICY,
    NUM_ENV_STEPS_TRAINED,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
)
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from nalu_ray.rl.agent.network import Network
from nalu_ray.rl.losses import LossConfig, Taken, scheduled
from nalu_ray.rl.rollout import Rollout
from nalu_ray.training import members
from nalu_ray.training.recording import Repeated

PROGRESS = "progress"  # component of the state: counters
LR, UPDATES, DROPPED = "learning_rate", "updates_lifetime", "updates_dropped_lifetime"
STALENESS = DIFF_NUM_GRAD_UPDATES_VS_SAMPLER_POLICY

# Both optimisers square a gradient: beyond this, the mean of squares is infinite for good.
SQUARABLE = torch.finfo(torch.float32).max ** 0.5

logger = logging.getLogger(__name__)
Gradients = dict[str, Tensor]


class DivergedError(RuntimeError):
    """Too many updates in a row whose loss or gradient is not finite."""


class Loss(nn.Module):
    """The loss of a rollout, as a module, so that the parameters can be replaced for a call.

    Args:
        learner: has the network and the loss.
        config: weights of the loss; the entropy's is given at each call.
        sparse: whether the distance of the units' weights to -1, 0 and 1 is part of the loss.
    """

    def __init__(self, learner: ActorCriticLearner, config: LossConfig, sparse: bool) -> None:
        super().__init__()
        self.network, self.of_rollout = learner.network, learner.loss
        self.config, self.sparse = config, sparse

    def forward(self, *given: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the loss, a scalar, and its parts, detached.

        Args:
            given: features of pictures (R + 1, N, V), instructions and ``keep`` (R + 1, N), state
                (N, S); actions, log-probabilities, rewards and ``done`` (R, N); the weights of the
                entropy and of the sparsity.
        """
        vision, instruction, keep, state, *taken, entropy, weight = given
        logits, values, _ = self.network(vision, instruction, keep, state)
        config = dataclasses.replace(self.config, entropy=entropy)
        loss, parts = self.of_rollout(logits, values, Taken(*taken), config)
        if self.sparse:
            fractions = self.network.fractions()
            loss = loss + weight * fractions
            parts |= {"fractions": fractions.detach(), "total_loss": loss.detach()}
        return loss, parts


def differentiated(
    loss: Loss, names: Sequence[str], *given: Tensor
) -> tuple[Tensor, list[Tensor], dict[str, Tensor]]:
    """Returns the gradients of a loss by the features and by parameters, and its parts.

    Args:
        loss: the loss.
        names: names of the network's trained parameters, but for those of its vision.
        given: the loss's arguments, then the parameters.
    """
    inputs = len(given) - len(names)
    features, *leaves = (x.detach().requires_grad_() for x in (given[0], *given[inputs:]))
    state = {f"network.{name}": leaf for name, leaf in zip(names, leaves, strict=True)}
    with torch.enable_grad():
        value, parts = functional_call(loss, state, (features, *given[1:inputs]))
        slope, *slopes = torch.autograd.grad(value, [features, *leaves])
    return slope, slopes, parts


class ActorCriticLearner(TorchLearner):
    """Updates a network by the gradient of a loss on rollouts, which go straight in.

    An update whose loss or gradient is not finite, or too large to be squared after clipping, is
    dropped before the optimiser sees it. A subclass gives the loss and the optimiser.

    Attributes:
        progress: ``steps`` trained and ``updates`` applied, which the schedules follow, ``bad``
            updates in a row, ``dropped`` ones.
    """

    progress: dict[str, int]

    def build(self) -> None:
        super().build()
        self.progress = {"steps": 0, "updates": 0, "bad": 0, "dropped": 0}
        self._passes: dict[tuple[LossConfig, bool], Repeated] = {}

    @property
    def network(self) -> Network:
        """The network in training."""
        network: Network = self.module[DEFAULT_MODULE_ID].network
        return network

    @property
    def optimiser(self) -> torch.optim.Optimizer:
        """The optimiser of the trained parameters."""
        optimiser: torch.optim.Optimizer = self.get_optimizer()
        return optimiser

    def build_optimiser(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """Returns the optimiser of parameter groups; learning rates are set at each update."""
        raise NotImplementedError

    def loss(
        self, logits: Tensor, values: Tensor, taken: Taken, config: LossConfig
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the loss of a rollout, a scalar, and its parts by name, detached.

        Args:
            logits: (R + 1, N, actions), of the policy that learns.
            values: (R + 1, N), the last for the observation after the rollout.
            taken: the rollout's steps.
            config: weights of the parts.
        """
        raise NotImplementedError

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        nac = [part for unit in self.network.core.arithmetic_units for part in unit.parameters()]
        nac_ids = set(map(id, nac))
        others = [part for part in self._trained().values() if id(part) not in nac_ids]
        nac = [part for part in nac if part.requires_grad]
        groups = [
            {"params": params, "factor": factor}
            for params, factor in ((others, 1.0), (nac, self.config.nac_lr_factor))
            if params
        ]
        self.register_optimizer(
            module_id=module_id, optimizer=self.build_optimiser(groups), params=[*others, *nac]
        )

    def compute_loss_for_module(self, **_: Any) -> Tensor:
        raise NotImplementedError("rollouts are not batches of RLlib; call `gradients`")

    def gradients(
        self, rollouts: Sequence[Rollout], steps: int
    ) -> tuple[Gradients, dict[str, float]]:
        """Returns the gradients by name of each trained parameter, and the parts of the loss.

        Args:
            rollouts: rollouts of equal length.
            steps: environment steps trained so far, for the loss's schedules.
        """
        vision, *data, weight = self._given(Rollout.joined(rollouts), steps)
        trained = self._trained()
        sight = {name: p for name, p in trained.items() if name.startswith("vision.")}
        others = {name: p for name, p in trained.items() if name not in sight}
        key = (
            dataclasses.replace(self.config.loss_config(steps), entropy=0.0),
            bool(scheduled(self.config.sparsity, steps)),
        )
        if key not in self._passes:
            self._passes[key] = Repeated(partial(differentiated, Loss(self, *key), [*others]))
        with torch.no_grad():
            arguments = vision.detach(), *data, weight, *others.values()
            slope, slopes, parts = self._passes[key](*arguments)
        sight_slopes = torch.autograd.grad(vision, list(sight.values()), slope) if sight else ()
        slope_by_name = dict(zip([*sight, *others], [*sight_slopes, *slopes], strict=True))
        values = torch.stack(list(parts.values())).tolist()
        gradients = {name: slope_by_name[name] for name in trained}
        return gradients, dict(zip(parts, values, strict=True))

    def take_step(
        self, gradients: Gradients, parts: dict[str, float], steps: int, version: int
    ) -> None:
        """Makes an update, or drops it.

        Args:
            gradients: gradients by parameter name; clipped in place.
            parts: parts of the loss, ``total_loss`` among them.
            steps: environment steps behind the gradient.
            version: number of updates that had made the acting weights.

        Raises:
            DivergedError: after too many dropped updates in a row.
        """
        clip = self.config.grad_clip
        norm = _norm(list(gradients.values()), exact=clip is not None)
        size = float(norm)
        parts = {**parts, "gradient_norm": size}
        self._log((DEFAULT_MODULE_ID, STALENESS), self._weights_seq_no - version, "mean")
        largest = size if clip is None else min(size, clip)
        if not (math.isfinite(size) and largest < SQUARABLE and math.isfinite(parts["total_loss"])):
            self._drop(parts)
            return
        for name, parameter in self._trained().items():
            parameter.grad = gradients[name]
        if clip is not None:
            clip_grads_with_norm_(self.network.parameters(), clip, norm)
        lr = scheduled(self.config.lr, self.progress["steps"])
        for group in self.optimiser.param_groups:
            group["lr"] = lr * group["factor"]
        self.optimiser.step()
        self._confine()
        self._count(parts, steps, lr)

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
        if self._check_component(PROGRESS, components, not_components):
            state[PROGRESS] = dict(self.progress)
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self.progress |= state.get(PROGRESS, {})

    def state_dict(self) -> dict[str, Any]:
        """Returns tensors on the CPU and plain values, all copies."""
        weights = self.network.state_dict()
        saved = {
            "weights": weights,
            "optimiser": self.optimiser.state_dict(),
            "progress": self.progress,
            "version": self._weights_seq_no,
        }
        return copied(saved)  # type: ignore[no-any-return]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes from a saved state.

        Raises:
            RuntimeError: if it belongs to another network.
        """
        self.network.load_state_dict(state["weights"])
        self.optimiser.load_state_dict(copied(state["optimiser"]))
        self.progress = dict(state["progress"])
        self._weights_seq_no = state["version"]

    def _trained(self) -> dict[str, nn.Parameter]:
        """Returns the parameters that are trained; those without a gradient are constants."""
        named = self.network.named_parameters()
        return {name: parameter for name, parameter in named if parameter.requires_grad}

    def _given(self, rollout: Rollout, steps: int) -> tuple[Tensor, ...]:
        """Returns the arguments of :class:`Loss`; the features of pictures have a gradient."""
        config = self.config

        def on_device(array: Any) -> Tensor:
            # A copy: what comes through the object store cannot be written to, as torch wants.
            return torch.tensor(array, device=self.device)

        keep = on_device(rollout.keep).float()
        return (
            # how many pictures differ, and so the sizes of what is computed, changes every time
            self.network.vision.numbered(on_device(rollout.frames)),
            on_device(rollout.instruction),
            keep,
            on_device(rollout.state),
            on_device(rollout.actions).long(),
            on_device(rollout.log_probs),
            on_device(rollout.rewards) * config.reward_scale,
            1 - keep[1:],
            on_device(config.loss_config(steps).entropy),
            on_device(scheduled(config.sparsity, steps)),
        )

    @torch.no_grad()
    def _confine(self) -> None:
        """Moves trained parameters to where their units want them: bounds, then projections."""
        for name, (low, high) in members.bounds(self.network).items():  # of trained ones
            self.network.get_parameter(name).clamp_(low, high)
        for module in members.units_with(self.network, "projected").values():
            unit: Any = module
            for name, value in unit.projected().items():
                if (parameter := unit.get_parameter(name)).requires_grad:
                    parameter.copy_(value)

    def _drop(self, parts: dict[str, float]) -> None:
        self.progress["bad"] += 1
        self.progress["dropped"] += 1
        self._log((DEFAULT_MODULE_ID, DROPPED), 1, "lifetime_sum")
        shown = ", ".join(f"{name} {value:g}" for name, value in parts.items())
        logger.warning("update dropped, its loss or gradient is not finite: %s", shown)
        if self.progress["bad"] >= self.config.max_bad_updates:
            raise DivergedError(
                f"training diverged: {self.progress['bad']} updates in a row with a loss or "
                f"gradient that is not finite (max_bad_updates); the last: {shown}"
            )

    def _count(self, parts: dict[str, float], steps: int, lr: float) -> None:
        self.progress["bad"] = 0
        self.progress["steps"] += steps
        self.progress["updates"] += 1
        self._weights_seq_no += 1
        for name, value in {**parts, LR: lr}.items():
            self._log((DEFAULT_MODULE_ID, name), value, "mean")
        self._log((DEFAULT_MODULE_ID, UPDATES), 1, "lifetime_sum")
        self._log((ALL_MODULES, NUM_ENV_STEPS_TRAINED), steps, "sum")
        self.metrics.log_value(
            (ALL_MODULES, NUM_ENV_STEPS_TRAINED_LIFETIME),
            steps,
            reduce="lifetime_sum",
            with_throughput=True,
        )

    def _log(self, key: tuple[str, str], value: float, reduce: str) -> None:
        self.metrics.log_value(key, value, reduce=reduce)


def _norm(gradients: list[Tensor], *, exact: bool) -> Tensor:
    """Returns the norm of all gradients together; if ``exact``, also where squares overflow."""
    norm: Tensor = get_total_norm(gradients)
    if not exact or math.isfinite(norm):
        return norm
    each = [torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients]
    total: Tensor = torch.linalg.vector_norm(torch.stack(each))
    return total


def copied(value: Any) -> Any:
    """Copies nested dictionaries and lists; their tensors are copied to the CPU."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
