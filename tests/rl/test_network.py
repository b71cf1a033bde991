"""The network as a whole: heads, state, settings, how far its NACs are from whole numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from envs import World
from nalu_ray.layers import NAC
from nalu_ray.rl.agent.cores import BesideLSTMCore
from nalu_ray.rl.agent.network import Network, NetworkConfig

WORLD = World(size=3, cell_pixels=2, instructions=(3, 5))
SMALL = {"channels": 4, "vision": 8, "hidden": 6, "bank": 5}
VARIANTS = [
    {"variant": "lstm"},
    {"variant": "lstm_nac", "wiring": "instruction"},
    {"variant": "lstm_nac", "wiring": "feedback"},
    {"variant": "lstm_nac", "wiring": "accumulator"},
    {"variant": "nac_core"},
    {"variant": "nalu_lstm"},
    {"variant": "lstm_mcfc"},
]


def network(seed: int = 0, **settings: Any) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = NetworkConfig.model_validate({**SMALL, **settings})
        return Network(config, WORLD.frames, WORLD.cell_pixels)


@pytest.mark.parametrize("settings", VARIANTS)
def test_policy_value_and_state(settings: dict[str, Any]) -> None:
    made = network(**settings)
    seen = made.vision.table()[torch.arange(12)].reshape(4, 3, 8)
    told, keep = torch.full((4, 3), 5.0), torch.ones(4, 3)
    state = made.initial_state(3)
    assert state.shape == (3, made.core.state_size)
    assert (state == 0).all()
    logits, values, after = made(seen, told, keep, state)
    assert (logits.shape, values.shape, after.shape) == ((4, 3, 5), (4, 3), state.shape)
    features, _ = made.core(seen, told, keep, state)
    torch.testing.assert_close(logits, features @ made.policy.weight.mT + made.policy.bias)
    torch.testing.assert_close(values, (features @ made.value.weight.mT + made.value.bias)[..., 0])
    (logits.square().sum() + values.sum()).backward()
    without = [name for name, value in made.named_parameters() if value.grad is None]
    assert without == []


def test_the_first_policy_is_nearly_uniform() -> None:
    made = network()
    seen = made.vision.table()[None]
    n = seen.shape[1]
    logits, _, _ = made(seen, torch.full((1, n), 12.0), torch.ones(1, n), made.initial_state(n))
    assert (logits.softmax(-1) - 0.2).abs().max() < 0.01


@pytest.mark.parametrize("settings", VARIANTS)
def test_weights_load_elsewhere_and_leave_the_pictures_out(settings: dict[str, Any]) -> None:
    made, other = network(**settings), network(1, **settings)
    weights = made.state_dict()
    assert not any("cells" in name or "kinds" in name for name in weights)
    other.load_state_dict(weights)
    assert torch.equal(other.vision.table(), made.vision.table())


def set_weights(nac: NAC, values: list[list[float]]) -> None:
    """W = W_hat's tanh, with M_hat far in its flat part."""
    with torch.no_grad():
        nac.W_hat.copy_(torch.atanh(torch.tensor(values)))
        nac.M_hat.fill_(40.0)


def test_fractions() -> None:
    """Of W = 0.9, -0.8, 0.5, -0.25, 0, 0.4: the mean of 0.1, 0.2, 0.5, 0.25, 0, 0.4."""
    made = network(variant="nac_core", nac_units=2)
    set_weights(made.core.elapsed, [[0.9, -0.8]])
    set_weights(made.core.remaining, [[0.5, -0.25], [0.0, 0.4]])
    found = made.fractions()
    assert found.shape == ()
    torch.testing.assert_close(found, torch.tensor(1.45 / 6))
    found.backward()
    slopes = made.core.elapsed.W_hat.grad
    assert slopes is not None
    # 0.9 and -0.8 are drawn outwards
    assert (slopes.sign() == torch.tensor([[-1.0, 1.0]])).all()


def test_fractions_of_whole_numbers_and_of_none() -> None:
    made = network(variant="nac_core")
    for nac in (made.core.elapsed, made.core.remaining):
        nn.init.constant_(nac.W_hat, -20.0)
        nn.init.constant_(nac.M_hat, 20.0)
    assert made.fractions() == 0
    assert network(variant="lstm").fractions() == 0
    assert network(variant="lstm_nsr").fractions() == 0


def test_fractions_of_another_unit() -> None:
    made = network(variant="lstm_snapping_nac", wiring="instruction", nac_units=2)
    assert isinstance(made.core, BesideLSTMCore)
    set_weights(made.core.part[0], [[0.9], [-0.25]])
    torch.testing.assert_close(made.fractions(), torch.tensor(0.35 / 2))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"variant": "gnu"}, "variant"),
        ({"wiring": "none"}, "wiring"),
        ({"hidden": 0}, "hidden"),
        ({"instruction_scale": 0.0}, "instruction_scale"),
        ({"units": 3}, "units"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        NetworkConfig(**wrong)


def test_an_unknown_initialisation() -> None:
    with pytest.raises(ValueError, match="init"):
        network(variant="lstm_nac", nac_init="zufall")
