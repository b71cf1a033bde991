"""The NAC and the NALU that start by keeping what they have."""

from __future__ import annotations

import pytest
import torch

from nalu_ray.layers import build_cell


@pytest.mark.parametrize("name", ["nac", "nalu", "nac_nalu"])
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


def test_a_memory_keeps_what_it_has() -> None:
    cell = build_cell("nac", 3, 2, memory_init=20.0)
    start = (torch.tensor([[3.0, -7.0]]),)
    outputs, _ = cell(torch.zeros(1, 1000, 3), start)
    torch.testing.assert_close(outputs[:, -1], start[0], rtol=1e-5, atol=0)
