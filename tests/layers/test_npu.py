"""Neural power units against powers of complex numbers, and what their gates do."""

from __future__ import annotations

import cmath
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nalu_ray.layers import NPU, ModifiedRealNPU, NaiveNPU, RealNPU, build, get
from nalu_ray.tasks.static import StaticSetting
from tests.layers.oracle import Array, assert_finite_at_corners, assert_follows, fill

UNITS: list[type[nn.Module]] = [NaiveNPU, NPU, RealNPU, ModifiedRealNPU]
GATED: list[type[NPU | RealNPU]] = [NPU, RealNPU]
EVERY_UNIT = pytest.mark.parametrize("unit", UNITS)


# Published code: no gradient of a gate outside [0, 1] in the torch ports (`gate_gradient`), and
# float32's epsilon in float64, too (`epsilon`).
def powers(x: Array, epsilon: float = 0.0, **p: Array) -> Array:
    """Re prod_i z_i^W_ji in complex numbers, with z = r e^ik of the gated inputs."""
    weight = p["W"] + 0j if "W" in p else p["W_r"] + 1j * p["W_i"]
    gates = np.clip(p.get("G", np.ones(x.shape[1])), 0, 1)
    y = np.zeros((len(x), len(weight)))
    for n, j in np.ndindex(y.shape):
        product = 1 + 0j
        for value, gate, w in zip(x[n], gates, weight[j], strict=True):
            r = gate * (abs(value) + epsilon) + 1 - gate
            k = math.pi * gate if value < 0 else 0.0
            product *= cmath.exp(w * complex(math.log(r), k))
        y[n, j] = product.real
    return y


@EVERY_UNIT
def test_products_of_complex_powers(unit: Any) -> None:
    layer = unit(3, 2, dtype=torch.float64)
    fill(layer, low=-1.5, high=1.5)
    if hasattr(layer, "G"):
        fill_gates(layer, [0.2, 0.6, 0.9])
    assert_follows(layer, powers)


def fill_gates(layer: Any, gates: list[float]) -> None:
    with torch.no_grad():
        layer.G.copy_(torch.tensor(gates))


@EVERY_UNIT
def test_epsilon_is_an_option(unit: Any) -> None:
    layer = unit(3, 2, epsilon=0.25, dtype=torch.float64)
    fill(layer, low=-1.5, high=1.5)
    if hasattr(layer, "G"):
        fill_gates(layer, [0.2, 0.6, 0.9])
    assert_follows(layer, partial(powers, epsilon=0.25))


@EVERY_UNIT
@pytest.mark.parametrize(
    ("dtype", "options", "added"),
    [
        (torch.float32, {}, 2.0**-23),
        (torch.float64, {}, 2.0**-52),
        (torch.float64, {"epsilon": None}, 2.0**-52),
        (torch.float32, {"epsilon": 0.0}, 0.0),
        (torch.float64, {"epsilon": 0}, 0.0),
    ],
)
def test_without_a_value_epsilon_is_the_types(
    unit: Any, dtype: torch.dtype, options: dict[str, Any], added: float
) -> None:
    layer = unit(1, 1, start=1.0, dtype=dtype, **options)
    if hasattr(layer, "G"):
        fill_gates(layer, [1.0])
    small = math.sqrt(torch.finfo(dtype).eps)
    y = layer(torch.tensor([-small], dtype=dtype)).item()
    rounding = 4 * abs(math.log(small)) * torch.finfo(dtype).eps
    assert rounding < added / small or not added
    assert y == pytest.approx(-(small + added), rel=rounding)


@pytest.mark.parametrize("name", ["npu", "real_npu", "naive_npu", "modified_real_npu", "nau_npu"])
def test_the_usual_epsilon_is_no_other_setting(name: str) -> None:
    ids = [
        StaticSetting.model_validate({"layer": name, "options": options}).id
        for options in ("", "epsilon:none", "epsilon:0", "epsilon:0.0", "epsilon:1e-7")
    ]
    assert ids[0] == ids[1]
    assert ids[2] == ids[3]
    assert len({*ids}) == 3


def test_a_naive_npu_is_numpys_complex_power() -> None:
    layer = NaiveNPU(3, 2, dtype=torch.float64)
    fill(layer, low=-1.5, high=1.5)
    x = np.array([[-1.3, 0.4, 2.0], [3.0, -0.7, -1.1]])
    weight = layer.W_r.detach().numpy() + 1j * layer.W_i.detach().numpy()
    wanted = np.prod(x[:, None].astype(complex) ** weight, -1).real
    np.testing.assert_allclose(layer(torch.from_numpy(x)).detach().numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("unit", GATED)
@pytest.mark.parametrize("gate_gradient", ["through", "clamp"])
def test_gate_gradient_outside_its_limits(unit: Any, gate_gradient: str) -> None:
    outside = unit(3, 2, gate_gradient=gate_gradient, dtype=torch.float64)
    fill(outside)
    inside = unit(3, 2, gate_gradient=gate_gradient, dtype=torch.float64)
    inside.load_state_dict(outside.state_dict())
    fill_gates(outside, [-0.5, 0.5, 1000.123])
    fill_gates(inside, [0.0, 0.5, 1.0])
    x = torch.tensor([[2.0, -3.0, 0.5], [-1.5, 0.3, -2.0]], dtype=torch.float64)
    for layer in outside, inside:
        layer(x).sum().backward()
    assert torch.equal(outside(x), inside(x))
    through = torch.ones(3) if gate_gradient == "through" else torch.tensor([0.0, 1.0, 0.0])
    torch.testing.assert_close(outside.G.grad, inside.G.grad * through)
    assert (inside.G.grad != 0).all()


@pytest.mark.parametrize("unit", [NPU, RealNPU, ModifiedRealNPU])
def test_a_closed_gate_leaves_an_input_out(unit: Any) -> None:
    layer = unit(3, 2, dtype=torch.float64)
    fill(layer)
    fill_gates(layer, [1.0, 0.0, 1.0])
    x = torch.tensor([[-2.0, 5.0, 3.0], [-2.0, -7.0, 3.0], [-2.0, 0.0, 3.0]], dtype=torch.float64)
    y = layer(x)
    assert torch.equal(y[0], y[1])
    assert torch.equal(y[0], y[2])


@EVERY_UNIT
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_corners(unit: Any, dtype: torch.dtype) -> None:
    layer = unit(3, 2, dtype=dtype)
    fill(layer, low=-3.0, high=3.0)
    assert_finite_at_corners(layer)


@EVERY_UNIT
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_stays_finite(unit: Any, half: torch.dtype) -> None:
    layer = unit(2, 1, dtype=half)
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(1.0)
    x = torch.full((2,), 3e4 if half is torch.bfloat16 else 90.0, dtype=half, requires_grad=True)
    assert layer(torch.full((2,), 3e4, dtype=half)).isfinite().all()
    y = layer(x)
    slopes = torch.autograd.grad(y, [x, *layer.parameters()])
    assert all(value.isfinite().all() for value in (y, *slopes))


@pytest.mark.parametrize("name", ["npu", "naive_npu", "real_npu"])
def test_starts(name: str) -> None:
    layer = build(name, 50, 9, 150, 0)[0]
    layer.reset_parameters(torch.Generator().manual_seed(0))
    weight = layer.W if name == "real_npu" else layer.W_r
    bound = math.sqrt(6 / 200)
    assert 0.99 * bound < weight.abs().max() <= bound
    assert weight.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    if hasattr(layer, "W_i"):
        assert (layer.W_i == 0).all()
    if hasattr(layer, "G"):
        assert (layer.G == 0.5).all()
    smaller = build(name, 50, 9, 150, 0, gain=0.1)[0]
    smaller.reset_parameters(torch.Generator().manual_seed(0))
    torch.testing.assert_close(next(smaller.parameters()), 0.1 * next(layer.parameters()))
    assert (next(build(name, 2, 9, 1, 0, start=0.25).parameters()) == 0.25).all()


@pytest.mark.parametrize(("inputs", "bound"), [(2, 0.5), (99, math.sqrt(6 / 100))])
def test_start_of_the_modified_unit(inputs: int, bound: float) -> None:
    layer = ModifiedRealNPU(inputs, 1)
    draws = []
    for seed in range(20_000 // inputs):
        layer.reset_parameters(torch.Generator().manual_seed(seed))
        draws.append(layer.W.detach().clone())
    weight = torch.cat(draws)
    assert 0.99 * bound < weight.abs().max() <= bound
    assert weight.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    assert layer.bounds == {"W": (-1.0, 1.0), "G": (0.0, 1.0)}
    assert (layer.G == 0.5).all()


def test_penalties_and_figures_by_hand() -> None:
    rows = torch.tensor([[0.2, -0.9], [-0.4, 1.0]])
    real, modified = RealNPU(2, 2), ModifiedRealNPU(2, 2)
    nearest = ModifiedRealNPU(2, 2, sparsity="nearest")
    for layer in real, modified, nearest:
        with torch.no_grad():
            layer.W.copy_(rows)
        fill_gates(layer, [0.3, 0.9])
    # min(|W|, |1 - |W||): 0.2, 0.1, 0.4, 0; |1 - |W||: 0.8, 0.1, 0.6, 0; gates: 0.3, 0.1
    for layer, sparsity in (real, 0.175), (modified, 0.375), (nearest, 0.175):
        assert layer.penalty()["sparsity"].item() == pytest.approx(sparsity)
        assert layer.penalty()["gate"].item() == pytest.approx(0.2)
        assert layer.measure()["sparsity_error"].item() == pytest.approx(0.4)
        assert layer.measure()["gate_error"].item() == pytest.approx(0.3)
    npu = NPU(2, 2)
    with torch.no_grad():
        npu.W_r.copy_(rows)
        npu.W_i[0, 1] = 0.45
    fill_gates(npu, [-0.2, 0.9])
    assert npu.penalty()["sparsity"].item() == pytest.approx(1.15 / 8)
    assert npu.penalty()["gate"].item() == pytest.approx(0.15)
    assert npu.measure()["sparsity_error"].item() == pytest.approx(0.45)
    # a gate below 0 is closed
    assert npu.measure()["gate_error"].item() == pytest.approx(0.1)


def test_gradient_of_the_modified_penalty() -> None:
    layer = ModifiedRealNPU(2, 1)
    with torch.no_grad():
        layer.W.copy_(torch.tensor([[0.2, -0.9]]))
    fill_gates(layer, [0.3, 0.9])
    penalties = layer.penalty()
    (penalties["sparsity"] + penalties["gate"]).backward()
    assert layer.W.grad is not None
    assert layer.G.grad is not None
    assert layer.W.grad.tolist() == [[-0.5, 0.5]]
    assert layer.G.grad.tolist() == [0.5, -0.5]


def test_only_the_modified_unit_has_bounds() -> None:
    assert [bool(getattr(unit, "bounds", {})) for unit in UNITS] == [False, False, False, True]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"^gate_gradient must be one of through, clamp, got 'no'"):
        build("real_npu", 2, 2, 1, gate_gradient="no")
    with pytest.raises(ValueError, match=r"^gate_gradient must be one of through, clamp, got 'no'"):
        build("npu", 2, 2, 1, gate_gradient="no")
    with pytest.raises(ValueError, match=r"^sparsity must be one of one, nearest, got 'all'$"):
        build("modified_real_npu", 2, 2, 1, sparsity="all")
    with pytest.raises(ValueError, match=r"^start must be one of glorot, .*, got 'big'$"):
        build("naive_npu", 2, 2, 1, start="big")
    with pytest.raises(ValueError, match=r"^gain must be a finite number, got nan$"):
        build("npu", 2, 2, 1, gain=math.nan)
    for unit in UNITS:
        for epsilon in (-1e-9, math.nan, math.inf, "small"):
            with pytest.raises(ValueError, match=r"^epsilon must be a finite number of at least 0"):
                unit(2, 1, epsilon=epsilon)
    # the tasks pass these to units that have them
    for name in "npu", "real_npu", "naive_npu", "modified_real_npu":
        assert not {"init", "gate_init"} & set(get(name).options)
