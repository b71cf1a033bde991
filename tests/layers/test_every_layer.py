"""What every network of the registry must do; a new layer is tested by being registered."""

from __future__ import annotations

import pytest

from nalu_ray.layers import get, names
from nalu_ray.testing import UNIT_CHECKS, of_layer
from tests import distinct

SLOW = ("compiles", "scripts", "exports", "autocast")
every_layer = pytest.mark.parametrize("name", names())


def checks() -> list[tuple[str, str]]:
    """Every check of every layer, but the slow ones of pairs: both of their layers have them."""
    return [
        (name, check)
        for name in names()
        for check in UNIT_CHECKS
        if not (distinct.is_pair(name) and check in SLOW)
    ]


@pytest.mark.parametrize(("name", "check"), checks())
def test_layer(name: str, check: str) -> None:
    UNIT_CHECKS[check](of_layer(name))


@every_layer
def test_label_is_for_print(name: str) -> None:
    assert get(name).label
    assert get(name).citation
