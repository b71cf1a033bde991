"""What every network of the registry must do; a new layer is tested by being registered."""

from __future__ import annotations

import pytest

from nalu_ray.layers import get, names
from nalu_ray.testing import UNIT_CHECKS, of_layer

every_layer = pytest.mark.parametrize("name", names())


@every_layer
@pytest.mark.parametrize("check", UNIT_CHECKS)
def test_layer(name: str, check: str) -> None:
    UNIT_CHECKS[check](of_layer(name))


@every_layer
def test_label_is_for_print(name: str) -> None:
    assert get(name).label
    assert get(name).citation
