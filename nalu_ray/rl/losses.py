"""The loss that IMPALA and A3C share, on time-major tensors of R steps and N environments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossConfig:
    """What the loss weighs.

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
    entropy: float = 0.01
    clip: float = 1.0


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
        log_ratio: (R, N), log of the policy's probability over the behaviour's; none where the
            rollout was made by the policy itself.
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
        behaviour: (R, N), log-probability the actions were drawn with; none for the policy's own.
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
