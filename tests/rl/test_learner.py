"""The learner: loss and gradients, the optimiser's step, what is not finite, its state."""

from __future__ import annotations

import dataclasses
import io
import math
from typing import Any

import numpy as np
import pytest
import torch

from nalu_ray.layers import NAC, NAU
from nalu_ray.rl.agent.network import Network
from nalu_ray.rl.agent.stored import build_network
from nalu_ray.rl.losses import actor_critic
from nalu_ray.rl.rllib import module
from nalu_ray.rl.rllib.env_runner import VectorRunner
from nalu_ray.rl.rllib.learner import ActorCriticLearner, Loss
from nalu_ray.rl.rollout import Rollout
from nalu_ray.training.recording import Repeated
from tests.rl.small import CONFIGS, NETWORK, STEPS, config

BOTH = pytest.mark.parametrize("kind", list(CONFIGS))


def learner(made: Any) -> ActorCriticLearner:
    runner = VectorRunner(config=made, worker_index=0)
    built: ActorCriticLearner = made.build_learner(spaces=runner.get_spaces())
    return built


def rollout(made: Any) -> Rollout:
    return VectorRunner(config=made, worker_index=0).sample()[0]


def weights(of: ActorCriticLearner) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in of.network.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def update(of: ActorCriticLearner, made: Rollout) -> dict[str, float]:
    gradients, parts = of.gradients([made], of.progress["steps"])
    of.take_step(gradients, parts, made.steps, made.version)
    return parts


@BOTH
def test_loss_by_hand(kind: str) -> None:
    """The parts are those of `actor_critic` on the rollout, and the sparsity of the weights."""
    made = config(kind).training(
        reward_scale=5.0, entropy_coeff=[[0, 0.5], [100, 0.0]], sparsity=[[0, 0], [100, 1.0]]
    )
    built, data = learner(made), rollout(made)
    # Behaviour that is not the policy's own shows whether importance weights are used.
    data = dataclasses.replace(data, log_probs=data.log_probs + np.float32(0.7))
    _, parts = built.gradients([data], steps=20)
    network = built.network
    with torch.no_grad():
        logits, values, _ = network(
            network.vision.numbered(torch.tensor(data.frames)),
            torch.tensor(data.instruction),
            torch.tensor(data.keep).float(),
            torch.tensor(data.state),
        )
        loss, expected = actor_critic(
            logits,
            values,
            torch.tensor(data.actions).long(),
            5 * torch.tensor(data.rewards),
            torch.tensor(data.done).float(),
            torch.tensor(data.log_probs) if kind == "impala" else None,
            dataclasses.replace(made.loss_config(0), entropy=0.4),
        )
        fractions = float(network.fractions())
    assert parts["policy_loss"] == pytest.approx(float(expected["policy_loss"]), abs=1e-6)
    assert parts["value_loss"] == pytest.approx(float(expected["value_loss"]))
    assert parts["fractions"] == pytest.approx(fractions)
    assert parts["total_loss"] == pytest.approx(float(loss) + 0.2 * fractions)


@BOTH
def test_gradients_are_of_the_loss(kind: str) -> None:
    made = config(kind).training(lambda_=0.9)
    built, data = learner(made), rollout(made)
    gradients, parts = built.gradients([data], 0)
    parameters = dict(built.network.named_parameters())
    assert gradients.keys() == parameters.keys()
    # Along the gradient the loss rises by the square of its norm; targets are constants, so only
    # parts without them are compared: the entropy and the distance of the NAC's weights.
    made = config(kind).training(vf_loss_coeff=0.0, reward_scale=1e-9, sparsity=1.0)
    built = learner(made)
    with torch.no_grad():
        built.network.value.weight.zero_()
    gradients, parts = built.gradients([data], 0)
    size, step = sum(float(g.square().sum()) for g in gradients.values()), 1e-2
    with torch.no_grad():
        for name, parameter in built.network.named_parameters():
            parameter.add_(gradients[name], alpha=step)
    _, after = built.gradients([data], 0)
    assert size > 1e-3
    assert after["total_loss"] - parts["total_loss"] == pytest.approx(step * size, rel=0.1)


def test_two_rollouts_weigh_as_one_of_both() -> None:
    made = config("impala")
    built = learner(made)
    parts = [rollout(made.copy().debugging(seed=seed)) for seed in (1, 2)]
    single = [built.gradients([part], 0)[0] for part in parts]
    both, _ = built.gradients(parts, 0)
    for name, gradient in both.items():
        torch.testing.assert_close(gradient, (single[0][name] + single[1][name]) / 2)


@BOTH
def test_optimiser_and_learning_rates(kind: str) -> None:
    made = config(kind).training(lr=[[0, 1e-2], [2 * STEPS, 0]], nac_lr_factor=3.0)
    built = learner(made)
    expected = torch.optim.Adam if kind == "impala" else torch.optim.RMSprop
    assert type(built.optimiser) is expected
    assert built.optimiser.defaults["eps"] == 1e-5
    plain, nac = built.optimiser.param_groups
    own = [
        p for part in built.network.modules() if isinstance(part, NAC) for p in part.parameters()
    ]
    assert {id(p) for p in nac["params"]} == {id(p) for p in own}
    assert len(plain["params"]) + len(own) == len(list(built.network.parameters()))
    for lr in (1e-2, 5e-3, 0.0):
        update(built, rollout(made))
        assert plain["lr"] == pytest.approx(lr)
        assert nac["lr"] == pytest.approx(3 * lr)


def test_a_units_bounds_hold_after_a_step() -> None:
    network = {**NETWORK, "variant": "lstm_nau"}
    made = config("a3c").rl_module(model_config=network).training(lr=10.0, nac_lr_factor=1.0)
    built = learner(made)
    before = weights(built)
    update(built, rollout(made))
    (name,) = (name for name in before if name.endswith(".W"))
    after = built.network.state_dict()[name]
    assert (after.abs() == 1).any()
    assert after.abs().max() == 1
    assert not torch.equal(after, before[name])


def test_a_units_projection_comes_after_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in training with a teacher: what is projected is what the clamp gave."""
    seen: list[torch.Tensor] = []

    def projected(unit: NAU) -> dict[str, torch.Tensor]:
        seen.append(unit.W.clone())
        return {"W": 2 * unit.W.round()}

    monkeypatch.setattr(NAU, "projected", projected, raising=False)
    network = {**NETWORK, "variant": "lstm_nau"}
    made = config("a3c").rl_module(model_config=network).training(lr=10.0, nac_lr_factor=1.0)
    built = learner(made)
    update(built, rollout(made))
    (name,) = (name for name in built.network.state_dict() if name.endswith(".W"))
    assert seen[-1].abs().max() == 1
    after = built.network.state_dict()[name]
    assert torch.equal(after, 2 * seen[-1].round())
    assert after.abs().max() == 2


@BOTH
@pytest.mark.parametrize("name", ["core.part.layers.0.W", "policy.bias", "vision"])
def test_constants_stay(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one beyond the bounds of its unit, and the whole vision."""

    def built_with_constants(*given: Any) -> Network:
        network = build_network(*given)
        for parameter, value in network.named_parameters():
            if parameter.startswith(name):
                value.requires_grad_(False).add_(0.0 if name == "vision" else 3.0)
        return network

    monkeypatch.setattr(module, "build_network", built_with_constants)
    made = config(kind).rl_module(model_config={**NETWORK, "variant": "lstm_nau"})
    built = learner(made)
    before = weights(built)
    for _ in range(2):
        update(built, rollout(made))
    after = built.network.state_dict()
    still = {part for part in before if torch.equal(before[part], after[part])}
    assert still == {part for part in before if part.startswith(name)}


def test_one_step_is_torchs() -> None:
    """RMSProp by hand, with the gradient clipped by its norm over all parameters."""
    made = config("a3c").training(lr=1e-2, grad_clip=1e-3, nac_lr_factor=1.0)
    built, data = learner(made), rollout(made)
    before = weights(built)
    gradients, parts = built.gradients([data], 0)
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradients.values()))
    assert norm > 1e-3
    clipped = {name: g.clone() * 1e-3 / norm for name, g in gradients.items()}
    built.take_step(gradients, parts, data.steps, 0)
    for name, g in clipped.items():
        expected = before[name] - 1e-2 * g / ((0.01 * g.square()).sqrt() + 1e-5)
        torch.testing.assert_close(built.network.state_dict()[name], expected, rtol=1e-3, atol=1e-6)


def test_without_clipping() -> None:
    made = config("a3c").training(grad_clip=None)
    built = learner(made)
    gradients, parts = built.gradients([rollout(made)], 0)
    kept = {name: g.clone() for name, g in gradients.items()}
    built.take_step(gradients, parts, STEPS, 0)
    assert all(torch.equal(p.grad, kept[n]) for n, p in built.network.named_parameters())


@BOTH
def test_counters(kind: str) -> None:
    built, data = learner(config(kind)), rollout(config(kind))
    for _ in range(3):
        update(built, data)
    assert built.progress == {"steps": 3 * STEPS, "updates": 3, "bad": 0, "dropped": 0}


def poisoned(made: Rollout) -> Rollout:
    rewards = made.rewards.copy()
    rewards[0, 0] = math.nan
    return dataclasses.replace(made, rewards=rewards)


@BOTH
def test_what_is_not_finite_is_dropped(kind: str) -> None:
    """The loss: weights, optimiser and counters are as before."""
    made = config(kind).training(max_bad_updates=3)
    built, data = learner(made), rollout(made)
    update(built, data)
    before, saved = weights(built), built.state_dict()
    for _ in range(2):
        update(built, poisoned(data))
    after = built.state_dict()
    assert same(before, weights(built))
    assert after["version"] == saved["version"] == 1
    assert after["progress"] == {**saved["progress"], "bad": 2, "dropped": 2}
    state, old = after["optimiser"]["state"], saved["optimiser"]["state"]
    assert all(torch.equal(state[i][name], old[i][name]) for i in old for name in old[i])
    update(built, data)
    assert built.progress["bad"] == 0
    assert not same(before, weights(built))


def test_a_gradient_that_is_not_finite_is_dropped() -> None:
    built, data = learner(config("a3c")), rollout(config("a3c"))
    before = weights(built)
    gradients, parts = built.gradients([data], 0)
    gradients["value.bias"][0] = math.inf
    built.take_step(gradients, parts, STEPS, 0)
    assert same(before, weights(built))
    assert built.progress["dropped"] == 1


@BOTH
@pytest.mark.parametrize("size", [1e18, 1e20, 1e30, 1e37])
def test_a_gradient_whose_square_overflows_is_clipped(kind: str, size: float) -> None:
    """By its norm, which float32 cannot compute, and not to zero."""
    made = config(kind).training(grad_clip=0.5)
    data, steps = rollout(made), []
    for factor in (1.0, size):
        built = learner(made)
        gradients, parts = built.gradients([data], 0)
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients.values()))
        built.take_step({n: g / norm * factor for n, g in gradients.items()}, parts, STEPS, 0)
        assert built.progress["dropped"] == 0
        total = sum(float(p.grad.double().square().sum()) for p in built.network.parameters())
        assert math.sqrt(total) == pytest.approx(0.5, rel=1e-4)
        steps.append(weights(built))
    for name, value in steps[0].items():
        torch.testing.assert_close(steps[1][name], value, rtol=1e-3, atol=1e-6)


@BOTH
@pytest.mark.parametrize("clip", [None, 1e25])
def test_what_cannot_be_squared_is_dropped(kind: str, clip: float | None) -> None:
    """The optimiser's mean of squares would stay infinite, and the parameter where it is."""
    made = config(kind).training(grad_clip=clip)
    built, data = learner(made), rollout(made)
    gradients, parts = built.gradients([data], 0)
    before = weights(built)
    built.take_step({n: g.sign() * 1e22 for n, g in gradients.items()}, parts, STEPS, 0)
    assert built.progress["dropped"] == 1
    assert same(before, weights(built))


@BOTH
def test_too_many_in_a_row(kind: str) -> None:
    made = config(kind).training(max_bad_updates=3)
    built, data = learner(made), rollout(made)
    update(built, data)
    with torch.no_grad():
        next(built.network.parameters())[0] = math.nan
    update(built, data)
    update(built, data)
    with pytest.raises(RuntimeError, match=r"3 updates in a row .*total_loss nan"):
        update(built, data)


def test_state_through_a_file() -> None:
    made = config("impala")
    one, data = learner(made), rollout(made)
    update(one, data)
    buffer = io.BytesIO()
    torch.save(one.state_dict(), buffer)
    buffer.seek(0)
    other = learner(made)
    update(other, rollout(config("impala", seed=7)))
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for _ in range(2):
        update(one, data)
        update(other, data)
    assert same(weights(one), weights(other))
    assert one.progress == other.progress


def test_a_saved_state_does_not_change() -> None:
    built, data = learner(config("impala")), rollout(config("impala"))
    update(built, data)
    saved = built.state_dict()
    before = weights(built)
    update(built, data)
    assert same(saved["weights"], before)
    assert int(saved["optimiser"]["state"][0]["step"]) == 1


@BOTH
def test_batches_move_to_the_device(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor of the loss is made on the learner's device; here one without numbers."""
    built, data = learner(config(kind)), rollout(config(kind))
    built.network.to("meta")
    built._device = torch.device("meta")
    made: list[str] = []
    plain = torch.tensor

    def noting(*values: Any, device: Any = None, **options: Any) -> torch.Tensor:
        made.append(str(device))
        return plain(*values, device=device, **options)

    def seen(frames: torch.Tensor) -> torch.Tensor:  # torch.unique has no rule for it
        return torch.empty(*frames.shape, built.network.vision.features, device=frames.device)

    monkeypatch.setattr(torch, "tensor", noting)
    monkeypatch.setattr(built.network.vision, "numbered", seen)
    loss, _ = Loss(built, built.config.loss_config(0), True)(*built._given(data, 0))
    assert made == ["meta"] * 9
    assert loss.device == built._device


@pytest.mark.parametrize(
    ("kind", "variant"), [("impala", "lstm_nac"), ("a3c", "nac_core"), ("a3c", "lstm")]
)
def test_recorded_gradients_are_the_plain_ones(
    kind: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, from rollout to rollout, while the entropy's weight follows its schedule."""
    made = config(kind).rl_module(model_config={**NETWORK, "variant": variant})
    made = made.training(entropy_coeff=[[0, 0.5], [6 * STEPS, 0.0]], sparsity=[[0, 0.5], [99, 1.0]])
    monkeypatch.setattr(Repeated, "plain_calls", 1)
    built, plain = learner(made), learner(made)
    plain.network.load_state_dict(built.network.state_dict())
    runner = VectorRunner(config=made, worker_index=0)
    for number in range(4):
        data = runner.sample()[0]
        got, parts = built.gradients([data], number * STEPS)
        plain._passes.clear()
        wanted, expected = plain.gradients([data], number * STEPS)
        assert parts == expected
        assert list(got) == list(wanted)
        assert all(torch.equal(got[name], wanted[name]) for name in wanted)
    (repeated,) = built._passes.values()
    assert None not in repeated._known.values()
    assert len(repeated._known) == 1
