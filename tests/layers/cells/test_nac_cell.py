"""NAC and NALU over time: the unit's own values, and what they can represent exactly."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from nalu_ray.layers import NAC, NALU, NACCell, NALUCell, UnitCell, build_cell

LARGE = 20.0  # saturates tanh and sigmoid, float32 and float64 alike
CELLS = [(NACCell, NAC), (NALUCell, NALU)]


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def set_unit(cell: Any, signs: list[list[float]], gate: list[list[float]] | None = None) -> None:
    """Sets W = signs exactly, each -1, 0 or 1, and the gate's weights."""
    with torch.no_grad():
        cell.unit.W_hat.copy_(LARGE * torch.tensor(signs))
        cell.unit.M_hat.fill_(2 * LARGE)
        if gate is not None:
            cell.unit.G.copy_(torch.tensor(gate))


@pytest.mark.parametrize(("own", "unit"), CELLS)
@pytest.mark.parametrize("lengths", [None, torch.tensor([6, 0, 2])])
def test_equal_to_the_unit_of_input_and_state(
    own: type[NACCell], unit: type[NAC], lengths: Tensor | None
) -> None:
    cell, plain = own(4, 5, init="uniform").double(), UnitCell(4, 5, unit).double()
    cell.reset_parameters(torch.Generator().manual_seed(1))
    plain.load_state_dict(cell.state_dict())
    x, h = drawn(3, 6, 4), drawn(3, 5, seed=1)
    found = []
    for each in (cell, plain):
        outputs, (last,) = each(x, (h,), lengths)
        slopes = torch.autograd.grad(outputs.square().sum(), list(each.parameters()))
        found.append((outputs, last, *slopes))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(("own", "unit"), CELLS)
def test_options_are_the_units(own: type[NACCell], unit: type[NAC]) -> None:
    options = {"init": 0.5, "m_hat_init": 0.25, "dtype": torch.float64, "device": "cpu"}
    extra = {"gate_init": 0.125, "epsilon": 1e-3} if unit is NALU else {}
    cell = build_cell("nalu" if unit is NALU else "nac", 4, 5, **options, **extra)
    assert type(cell) is own
    values = {name: set(value.flatten().tolist()) for name, value in cell.unit.named_parameters()}
    gate = {"G": {0.125}} if unit is NALU else {}
    assert values == {"W_hat": {0.5}, "M_hat": {0.25}, **gate}
    assert all(parameter.dtype == torch.float64 for parameter in cell.parameters())
    if unit is NALU:
        assert cell.unit.epsilon == 1e-3
        x, h = drawn(3, 6, 4), drawn(3, 5)
        plain = UnitCell(4, 5, NALU, epsilon=1e-3).double()
        torch.testing.assert_close(
            cell(x, (h,))[0], functional_call(plain, cell.state_dict(), (x, (h,)))[0]
        )


@pytest.mark.parametrize("field", ["init", "m_hat_init"])
def test_a_bad_option_is_named(field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must be one of"):
        build_cell("nac", 4, 5, **{field: "no such"})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nac_accumulates_without_drift(dtype: torch.dtype) -> None:
    """Whole numbers, so that each of a thousand sums is exact."""
    cell = NACCell(3, 2).to(dtype)
    set_unit(cell, [[1, 0, -1, 1, 0], [0, 1, 0, 0, 1]])
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-9, 10, (4, 1000, 3), generator=generator).to(dtype)
    outputs, (last,) = cell(x)
    sums = x.cumsum(1)
    wanted = torch.stack([sums[..., 0] - sums[..., 2], sums[..., 1]], -1)
    assert torch.equal(outputs, wanted)
    assert torch.equal(last, wanted[:, -1])


def test_nalu_multiplies() -> None:
    """h_t = h_{t-1} x_t; what enters the gate is positive, so that negative weights shut it."""
    cell = NALUCell(2, 1).double()
    set_unit(cell, [[1, 0, 1]], [[-1e4, 0, -1e4]])
    generator = torch.Generator().manual_seed(0)
    x = 0.5 + torch.rand(4, 30, 2, generator=generator, dtype=torch.float64)
    outputs, _ = cell(x, (torch.ones(4, 1, dtype=torch.float64),))
    # epsilon, 1e-7, beside the least product, 1e-3
    torch.testing.assert_close(outputs, x[..., :1].cumprod(1), rtol=1e-3, atol=0)


@pytest.mark.parametrize("steps", [10, 1000])
def test_two_units_and_a_nalu_on_top_are_exact(steps: int) -> None:
    """Sums a and b over time in a NALU of two, then a NALU for a + b, a - b, a b or a / b."""
    cell = NALUCell(4, 2).double()
    rows = [[1, 0, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]]
    set_unit(cell, rows, [[1e3 * each for each in row] for row in rows])
    generator = torch.Generator().manual_seed(0)
    x = 0.1 + torch.rand(8, steps, 4, generator=generator, dtype=torch.float64)
    _, (h,) = cell(x)
    a, b = x[..., :1].sum(1), x[..., 2:3].sum(1)
    torch.testing.assert_close(h, torch.cat([a, b], -1), rtol=1e-12, atol=0)
    last = NALU(2, 1).double()
    for signs, gate, wanted in [
        ([1.0, 1.0], 1e3, a + b), ([1.0, -1.0], 1e3, a - b),
        ([1.0, 1.0], -1e3, a * b), ([1.0, -1.0], -1e3, a / b),
    ]:  # fmt: skip
        with torch.no_grad():
            last.W_hat.copy_(LARGE * torch.tensor([signs]))
            last.M_hat.fill_(2 * LARGE)
            last.G.fill_(gate)
        torch.testing.assert_close(last(h), wanted, rtol=1e-6, atol=1e-9)


def test_a_hook_hears_the_whole_input_and_changes_nothing() -> None:
    cell, x = NACCell(2, 3, init="uniform").double(), drawn(4, 5, 2)
    outputs, _ = cell(x)
    heard: list[Tensor] = []
    with torch.no_grad():
        cell.unit.register_forward_pre_hook(lambda unit, given: heard.append(given[0]))
        again, _ = cell(x)
    torch.testing.assert_close(again, outputs)
    before = torch.cat([torch.zeros(4, 1, 3), outputs[:, :-1]], 1)
    torch.testing.assert_close(torch.stack(heard, 1), torch.cat([x, before], -1))


def test_the_penalty_of_inputs_is_zero_where_each_is_used() -> None:
    """R_z by hand: W is (1, 0), the means are 3 and 2: ((1 - 1) 9 + (1 - 0) 4) / 2."""
    unit = NAC(2, 1)
    with torch.no_grad():
        unit.W_hat.copy_(torch.tensor([[LARGE, 0.0]]))
        unit.M_hat.fill_(2 * LARGE)
    penalties = unit.penalty(torch.tensor([[2.0, 1.0], [4.0, 3.0]]))
    assert penalties["inputs"].item() == 2
    assert set(unit.penalty()) == {"sparsity"}
