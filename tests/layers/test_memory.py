"""The NAC and the NALU that start by keeping what they have."""

from __future__ import annotations

import pytest
import torch

from nalu_ray.layers import build_cell


@pytest.mark.parametrize("name", ["nac", "nalu"])
def test_memory_init_sets_what_h_adds_to_itself(name: str) -> None:
    cell = build_cell(name, 3, 2, memory_init=20.0)
    cell.reset_parameters(torch.Generator().manual_seed(0))
    other = build_cell(name, 3, 2)
    other.reset_parameters(torch.Generator().manual_seed(0))
    wanted = {"W_hat": [[20.0, 0.0], [0.0, 20.0]], "M_hat": [[20.0, -20.0], [-20.0, 20.0]]}
    for parameter, rows in wanted.items():
        found, drawn = (getattr(each.unit, parameter) for each in (cell, other))
        assert found[:, 3:].tolist() == rows
        assert torch.equal(found[:, :3], drawn[:, :3])


@pytest.mark.parametrize("name", ["nac", "nalu"])
def test_a_memory_of_110_is_the_identity_for_ever(name: str) -> None:
    """Adam makes large steps of the smallest gradients: there must be none."""
    cell = build_cell(name, 3, 2, memory_init=110.0)
    cell.reset_parameters(torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(cell.parameters(), lr=0.1)
    x = torch.rand(16, 10, 3, generator=torch.Generator().manual_seed(1))
    for _ in range(30):
        optimiser.zero_grad()
        outputs, _ = cell(x)
        (outputs[:, -1] - x.sum(1)[:, :2].prod(1, keepdim=True)).square().mean().backward()
        optimiser.step()
    assert torch.equal(cell.unit.weight[:, 3:], torch.eye(2))
    assert not torch.equal(cell.unit.weight[:, :3], torch.zeros(2, 3))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_memory_is_a_finite_number(value: float) -> None:
    with pytest.raises(ValueError, match=r"^memory_init must be a finite number, got "):
        build_cell("nac", 3, 2, memory_init=value)


def test_a_memory_keeps_what_it_has() -> None:
    cell = build_cell("nac", 3, 2, memory_init=20.0)
    start = (torch.tensor([[3.0, -7.0]]),)
    outputs, _ = cell(torch.zeros(1, 1000, 3), start)
    torch.testing.assert_close(outputs[:, -1], start[0], rtol=1e-5, atol=0)
