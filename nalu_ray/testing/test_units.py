"""Every check of a unit, over the chosen layers: ``pytest --pyargs nalu_ray.testing``."""

from __future__ import annotations

import pytest

from nalu_ray.testing import UNIT_CHECKS, of_layer
from nalu_ray.testing.chosen import chosen_layers


@pytest.mark.parametrize("check", UNIT_CHECKS)
@pytest.mark.parametrize("name", chosen_layers())
def test_layer(name: str, check: str) -> None:
    """Runs one check of one layer."""
    UNIT_CHECKS[check](of_layer(name))
