"""The loss against slow forms of the published equations."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nalu_ray.rl.losses import LossConfig, actor_critic, vtrace

R, N, ACTIONS = 8, 5, 4


def rollout(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns values, rewards, done (in the middle, at the end, and none) and log ratios."""
    drawn = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=drawn, dtype=torch.float64)

    done = torch.zeros(R, N, dtype=torch.float64)
    done[3, 0] = done[R - 1, 1] = done[0, 2] = done[1, 2] = done[6, 2] = 1
    return normal(R + 1, N), normal(R, N), done, 0.7 * normal(R, N)


def published(
    values: Tensor, rewards: Tensor, done: Tensor, ratio: Tensor, config: LossConfig
) -> Tensor:
    """Espeholt et al. (2018), equation 1, term by term, with remark 2's lambda."""
    targets = torch.empty_like(rewards)
    for n in range(N):
        for s in range(R):
            total, weight = values[s, n], 1.0
            for t in range(s, R):
                rho = min(config.clip, float(ratio[t, n]))
                follows = 0.0 if done[t, n] else config.gamma * values[t + 1, n]
                total = total + weight * rho * (rewards[t, n] + follows - values[t, n])
                if done[t, n]:
                    break
                weight *= config.gamma * config.lam * rho
            targets[s, n] = total
    return targets


@pytest.mark.parametrize("clip", [0.8, 1.0, 2.0])
@pytest.mark.parametrize("lam", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_published_recursion(seed: int, lam: float, clip: float) -> None:
    values, rewards, done, log_ratio = rollout(seed)
    config = LossConfig(gamma=0.9, lam=lam, clip=clip)
    assert (log_ratio.exp() > clip).any()
    assert (log_ratio.exp() < clip).any()
    targets, advantages = vtrace(values, rewards, done, log_ratio, config)
    wanted = published(values, rewards, done, log_ratio.exp(), config)
    torch.testing.assert_close(targets, wanted)
    # what follows a step: of V and v there, (1 - lambda) and lambda; after the last, V alone
    after = torch.cat([(1 - lam) * values[1:-1] + lam * wanted[1:], values[-1:]])
    rho = log_ratio.exp().clamp(max=clip)
    torch.testing.assert_close(advantages, rho * (rewards + 0.9 * (1 - done) * after - values[:-1]))


@pytest.mark.parametrize("lam", [1.0, 0.95, 0.5, 0.0])
def test_generalised_advantages_without_ratios(lam: float) -> None:
    """Schulman et al. (2016), equation 16: the sum of (gamma lambda)^l delta."""
    values, rewards, done, _ = rollout()
    config = LossConfig(gamma=0.9, lam=lam)
    targets, advantages = vtrace(values, rewards, done, None, config)
    wanted = torch.zeros_like(rewards)
    for s in range(R):
        running = torch.ones(N, dtype=torch.float64)
        for t in range(s, R):
            delta = rewards[t] + 0.9 * (1 - done[t]) * values[t + 1] - values[t]
            wanted[s] += running * (0.9 * lam) ** (t - s) * delta
            running = running * (1 - done[t])
    torch.testing.assert_close(advantages, wanted)
    torch.testing.assert_close(targets, wanted + values[:-1])


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def test_n_step_returns_by_hand() -> None:
    """An episode ends with the second step; the third begins one that goes on (V = 8)."""
    values, rewards, done = column(1, 2, 3, 4, 8), column(1, 10, 2, 4), column(0, 1, 0, 0)
    targets, advantages = vtrace(values, rewards, done, None, LossConfig(gamma=0.5))
    torch.testing.assert_close(targets, column(6, 10, 6, 8))
    torch.testing.assert_close(advantages, column(5, 8, 3, 4))


@pytest.mark.parametrize("log_ratio", [None, torch.zeros(4, 1), torch.full((4, 1), 2.0)])
def test_bootstrap(log_ratio: Tensor | None) -> None:
    """V = 1, r = 0, gamma = 1: 1 where the rollout goes on; what an end leaves is 0."""
    values, rewards, done = torch.ones(5, 1), torch.zeros(4, 1), torch.zeros(4, 1)
    config = LossConfig(gamma=1.0)
    targets, advantages = vtrace(values, rewards, done, log_ratio, config)
    assert torch.equal(targets, torch.ones(4, 1))
    assert torch.equal(advantages, torch.zeros(4, 1))
    done[-1] = 1
    targets, advantages = vtrace(values, rewards, done, log_ratio, config)
    assert torch.equal(targets, torch.zeros(4, 1))
    assert torch.equal(advantages, -torch.ones(4, 1))


def test_an_end_keeps_what_follows_out() -> None:
    values, rewards, done, log_ratio = rollout()
    other = (values.clone(), rewards.clone(), log_ratio.clone())
    other[0][4:, 0] += 5
    other[1][4:, 0] += 5
    other[2][4:, 0] += 1
    config = LossConfig(lam=0.9)
    before = vtrace(values, rewards, done, log_ratio, config)
    after = vtrace(other[0], other[1], done, other[2], config)
    for found, wanted in zip(after, before, strict=True):
        assert torch.equal(found[:4, 0], wanted[:4, 0])
        assert (found[4:, 0] != wanted[4:, 0]).all()


def test_an_impossible_action_s_ratio_is_clipped() -> None:
    values, rewards, done, _ = rollout()
    far = torch.full_like(rewards, 1e4)  # exp is infinite
    found = vtrace(values, rewards, done, far, LossConfig())
    for one, wanted in zip(found, vtrace(values, rewards, done, None, LossConfig()), strict=True):
        torch.testing.assert_close(one, wanted)


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    values, rewards, done, noise = rollout(seed)
    drawn = torch.Generator().manual_seed(seed + 100)
    logits = torch.randn(R + 1, N, ACTIONS, generator=drawn, dtype=torch.float64)
    actions = torch.randint(ACTIONS, (R, N), generator=drawn)
    taken = logits[:-1].log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    return logits, values, actions, rewards, done, taken - noise


def naive(*rollout: Tensor, behaviour: Tensor | None, config: LossConfig) -> dict[str, Tensor]:
    """Step by step and environment by environment."""
    logits, values, actions, rewards, done = rollout
    policy = torch.softmax(logits, -1)
    chance = torch.stack(
        [torch.stack([policy[t, n, actions[t, n]] for n in range(N)]) for t in range(R)]
    )
    ratio = None if behaviour is None else (chance.log() - behaviour).detach()
    targets, advantages = vtrace(values.detach(), rewards, done, ratio, config)
    parts = dict.fromkeys(("policy_loss", "value_loss", "entropy"), torch.zeros(()).double())
    for t in range(R):
        for n in range(N):
            spread = -sum(p * p.log() for p in policy[t, n])
            parts = {
                "policy_loss": parts["policy_loss"] - chance[t, n].log() * advantages[t, n],
                "value_loss": parts["value_loss"] + (values[t, n] - targets[t, n]) ** 2 / 2,
                "entropy": parts["entropy"] + spread,
            }
    return {name: value / (R * N) for name, value in parts.items()}


@pytest.mark.parametrize("off_policy", [False, True])
def test_gradients_of_the_loss(off_policy: bool) -> None:
    logits, values, actions, rewards, done, drawn_with = batch()
    behaviour = drawn_with if off_policy else None
    config = LossConfig(gamma=0.9, lam=0.8, value=0.7, entropy=0.3)
    own = [value.clone().requires_grad_() for value in (logits, values)]
    loss, parts = actor_critic(own[0], own[1], actions, rewards, done, behaviour, config)
    loss.backward()
    other = [value.clone().requires_grad_() for value in (logits, values)]
    wanted = naive(*other, actions, rewards, done, behaviour=behaviour, config=config)
    total = wanted["policy_loss"] + 0.7 * wanted["value_loss"] - 0.3 * wanted["entropy"]
    total.backward()
    torch.testing.assert_close(loss, total)
    for name, part in parts.items():
        torch.testing.assert_close(part, {**wanted, "total_loss": total}[name].detach())
        assert not part.requires_grad
    for found, expected in zip(own, other, strict=True):
        torch.testing.assert_close(found.grad, expected.grad)
        assert found.grad is not None
        # the observation after the rollout lends its value alone
        assert (found.grad[-1] == 0).all()


def test_policy_gradient_by_hand() -> None:
    """(pi - chosen) * advantage / (R N), for two actions of log-odds 0."""
    logits = torch.zeros(2, 1, 2, dtype=torch.float64, requires_grad=True)
    config = LossConfig(gamma=1.0, value=0.0, entropy=0.0)
    one = torch.ones(1, 1, dtype=torch.float64)
    actions, values = torch.tensor([[1]]), column(0.5, 7.0)
    loss, _ = actor_critic(logits, values, actions, 3 * one, one, None, config)
    loss.backward()
    assert logits.grad is not None
    # advantage 3 - 0.5 = 2.5; a step downhill makes action 1 likelier
    torch.testing.assert_close(logits.grad[0, 0], column(1.25, -1.25)[:, 0])


def test_entropy_is_wanted() -> None:
    """Nothing else in the loss: a step downhill levels the policy."""
    logits = torch.tensor([[[2.0, 0.0]], [[0.0, 0.0]]], requires_grad=True)
    zero = torch.zeros(1, 1)
    config = LossConfig(value=0.0, entropy=1.0)
    args = (torch.zeros(2, 1), zero.long(), zero, zero, None, config)
    loss, parts = actor_critic(logits, *args)
    loss.backward()
    p = 1 / (1 + math.exp(-2))
    bits = -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert float(parts["entropy"]) == pytest.approx(bits)
    assert logits.grad is not None
    assert logits.grad[0, 0, 0] > 0 > logits.grad[0, 0, 1]


@pytest.mark.parametrize("lost", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("lam", [1.0, 0.9])
def test_what_follows_an_episode_does_not_matter_whatever_it_is(lam: float, lost: float) -> None:
    values, rewards, done, log_ratio = rollout()
    config = LossConfig(gamma=0.9, lam=lam)
    wanted = vtrace(values, rewards, done, log_ratio, config)
    values[4, 0] = values[R, 1] = lost  # the episode ended at the step before
    found = vtrace(values, rewards, done, log_ratio, config)
    for now, before in zip(found, wanted, strict=True):
        torch.testing.assert_close(now[:4, 0], before[:4, 0], rtol=0, atol=0)
        torch.testing.assert_close(now[:, 1:], before[:, 1:], rtol=0, atol=0)
