"""The scripts of examples/ run; tests/test_plugins.py has the package."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_unit_in_a_loop_of_ones_own_learns_the_product() -> None:
    script = runpy.run_path(str(EXAMPLES / "own_loop.py"))
    unit = script["train"]()
    assert torch.equal(unit.W, torch.tensor([[1.0, 0.0, 1.0, 0.0]]))
    assert script["error"](unit) == 0.0
