"""How NAC and NALU are set up: initialisation, generators, refused arguments, repr."""

import math

import pytest
import torch

from nalu_ray.layers import NAC, NALU


@pytest.mark.parametrize(
    ("init", "m_hat_init", "gate_init"), [("kaiming", "normal", 0.5), (0.25, None, "linear")]
)
def test_initialisations_are_the_ones_named(
    init: str | float, m_hat_init: str | float | None, gate_init: str | float
) -> None:
    layer = NALU(300, 200, init=init, m_hat_init=m_hat_init, gate_init=gate_init)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    # Standard deviations of the uniform and normal laws that the names stand for.
    spread = {
        "kaiming": math.sqrt(2 / 300),
        "glorot": math.sqrt(2 / 500),
        "linear": math.sqrt(1 / 900),
        "normal": 0.02,
    }
    chosen = (init, init if m_hat_init is None else m_hat_init, gate_init)
    for parameter, how in zip((layer.W_hat, layer.M_hat, layer.G), chosen, strict=True):
        if isinstance(how, str):
            assert parameter.std().item() == pytest.approx(spread[how], rel=0.02)
            assert abs(parameter.mean().item()) < 0.02 * spread[how]
        else:
            assert (parameter == how).all()


@pytest.mark.parametrize(
    ("init", "low", "high"),
    [
        ("uniform", -0.5, 0.5),
        ("positive", 0.0, 0.5),
        ("middle", 0.25, 0.75),
        ("tiny", -1e-6, 1e-6),
        ("glorot_limited", -math.sqrt(6 / 500), math.sqrt(6 / 500)),
    ],
)
def test_uniform_initialisations_fill_their_range(init: str, low: float, high: float) -> None:
    layer = NALU(300, 200, init=init, gate_init=init)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    for parameter in layer.parameters():
        close = 1e-3 * (high - low)
        assert low <= parameter.min().item() < low + close
        assert high - close < parameter.max().item() <= high
        assert abs(parameter.mean().item() - (low + high) / 2) < 10 * close


@pytest.mark.parametrize("layer_class", [NAC, NALU])
def test_same_generator_same_parameters(layer_class: type[NAC | NALU]) -> None:
    first, second = layer_class(4, 3), layer_class(4, 3)
    state = torch.get_rng_state()
    for layer in (first, second):
        layer.reset_parameters(torch.Generator().manual_seed(5))
    assert torch.equal(torch.get_rng_state(), state)
    values = list(first.parameters())
    assert all(torch.equal(p, q) for p, q in zip(values, second.parameters(), strict=True))
    assert not torch.equal(values[0], values[1])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0, 1), {}, "in_features must be an integer of at least 1, got 0"),
        ((1, -2), {}, "out_features must be an integer of at least 1, got -2"),
        ((1, 1.5), {}, "out_features must be an integer of at least 1, got 1.5"),
        ((1, 1), {"epsilon": 0.0}, "epsilon must be a finite number above 0, got 0.0"),
        ((1, 1), {"epsilon": math.nan}, "epsilon must be a finite number above 0, got nan"),
        ((1, 1), {"init": "gloro"}, "init must be one of glorot, .*got 'gloro'"),
        ((1, 1), {"m_hat_init": math.inf}, "m_hat_init must be one of .*got inf"),
        ((1, 1), {"gate_init": "x"}, "gate_init must be one of .*got 'x'"),
    ],
)
def test_wrong_arguments(
    arguments: tuple[int, int], options: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        NALU(*arguments, **options)


def test_repr_tells_the_settings() -> None:
    text = repr(NALU(3, 2, epsilon=1e-5, gate_init=0.5))
    assert text == (
        "NALU(in_features=3, out_features=2, init='glorot', m_hat_init='glorot', "
        "gate_init=0.5, epsilon=1e-05)"
    )
