"""The loss that IMPALA and A3C share, on time-major tensors of R steps and N environments.

Its weights may follow schedules over the training's environment steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from ray.rllib.utils.schedules.scheduler import Scheduler
from torch import Tensor

Schedule = float | Sequence[Sequence[float]]
"""A number, or points [environment steps, value] with straight lines between them."""


@dataclass(frozen=True)
class LossConfig:
    """Weights of the loss.

    Attributes:
        gamma: discount of a step.
        lam: lambda of the returns; 1 is the n-step return up to the end of the rollout.
        value: weight of the squared error of the value (half of it is taken).
        entropy: weight of the policy's entropy.
        clip: upper end of the importance weights, V-trace's rho and c.
    """

    gamma: float = 0.99
    lam: float = 1.0
    value: float = 0.5
    entropy: float | Tensor = 0.01
    clip: float = 1.0


class Taken(NamedTuple):
    """The steps of a rollout, as tensors on the learner's device.

    Attributes:
        actions: (R, N) int64.
        log_probs: (R, N), of the actions, when they were drawn.
        rewards: (R, N).
        done: (R, N), 1 where the episode ended with that step.
    """

    actions: Tensor
    log_probs: Tensor
    rewards: Tensor
    done: Tensor


@torch.no_grad()
def vtrace(
    values: Tensor, rewards: Tensor, done: Tensor, log_ratio: Tensor | None, config: LossConfig
) -> tuple[Tensor, Tensor]:
    """V-trace targets and advantages (Espeholt et al., 2018, equations 1 and 2).

    Without importance weights these are the n-step returns of A3C (Mnih et al., 2016): the rollout
    ends in the value of the observation after its last step, unless the episode ended there.

    Args:
        values: (R + 1, N), the last for the observation after the rollout.
        rewards: (R, N).
        done: (R, N), 1 where the episode ended with that step.
        log_ratio: (R, N), log of the policy's probability over the behaviour's; None if the policy
            itself acted.
        config: gamma, lambda and the clip are read.

    Returns:
        Targets of the value (R, N) and advantages (R, N).
    """
    ratio = (
        torch.ones_like(rewards) if log_ratio is None else log_ratio.exp().clamp(max=config.clip)
    )
    over = done != 0

    def discounted(ahead: Tensor) -> Tensor:
        # not a product: what comes after an episode may be infinite, and times 0 it is NaN
        return (config.gamma * ahead).masked_fill(over, 0)

    errors = ratio * (rewards + discounted(values[1:]) - values[:-1])
    carry = config.gamma * config.lam * ratio
    targets = torch.empty_like(rewards)
    ahead = torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        ahead = torch.addcmul(errors[t], carry[t], ahead.masked_fill(over[t], 0))
        targets[t] = values[t] + ahead
    following = torch.cat([targets[1:], values[-1:]])
    if config.lam < 1.0:
        following = torch.lerp(values[1:], following, config.lam)
    advantages = ratio * (rewards + discounted(following) - values[:-1])
    return targets, advantages


def actor_critic(  # noqa: PLR0917 (the tensors of one rollout)
    logits: Tensor,
    values: Tensor,
    actions: Tensor,
    rewards: Tensor,
    done: Tensor,
    behaviour: Tensor | None,
    config: LossConfig,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy gradient, half the squared error of the value, and entropy; means over R and N.

    Args:
        logits: (R + 1, N, actions); the last step's are not used.
        values: (R + 1, N).
        actions: (R, N) int64.
        rewards: (R, N).
        done: (R, N).
        behaviour: (R, N), log-probabilities with which the actions were drawn; None if the policy
            itself acted.
        config: the weights.

    Returns:
        The loss, a scalar, and its parts by name, detached.
    """
    log_policy = torch.log_softmax(logits[:-1], -1)
    taken = log_policy.gather(-1, actions[..., None])[..., 0]
    ratio = None if behaviour is None else taken.detach() - behaviour
    targets, advantages = vtrace(values.detach(), rewards, done, ratio, config)
    policy = -(taken * advantages).mean()
    value = 0.5 * (values[:-1] - targets).square().mean()
    entropy = -(log_policy.exp() * log_policy).sum(-1).mean()
    loss = policy + config.value * value - config.entropy * entropy
    parts = {"policy_loss": policy, "value_loss": value, "entropy": entropy, "total_loss": loss}
    return loss, {name: part.detach() for name, part in parts.items()}


def scheduled(value: Schedule, steps: int) -> float:
    """Returns a schedule's value after ``steps`` env steps; the last one holds on."""
    if isinstance(value, int | float):
        return float(value)
    at, values = zip(*value, strict=True)
    return float(np.interp(steps, at, values))


def check_schedule(name: str, value: Any) -> None:
    """Raises ValueError, naming the field, unless ``value`` is a schedule of numbers from 0 on."""
    Scheduler.validate(fixed_value_or_schedule=value, setting_name=name, description=name)
    points = [(0, value)] if isinstance(value, int | float) else value
    if any(not (number >= 0 and math.isfinite(number)) for _, number in points):
        raise ValueError(f"{name}={value!r}: numbers of 0 or more are needed")
    if any(after < before for (before, _), (after, _) in itertools.pairwise(points)):
        raise ValueError(f"{name}={value!r}: steps may not fall")
