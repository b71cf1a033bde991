"""Every check of a cell, over the chosen cells: ``pytest --pyargs nalu_ray.testing``."""

from __future__ import annotations

import pytest

from nalu_ray.testing import CELL_CHECKS, of_cell
from nalu_ray.testing.chosen import chosen_cells


@pytest.mark.parametrize("check", CELL_CHECKS)
@pytest.mark.parametrize("name", chosen_cells())
def test_cell(name: str, check: str) -> None:
    """Runs one check of one cell, or of one unit as a cell."""
    CELL_CHECKS[check](of_cell(name))
