"""What every network of the registry must do; a new layer is tested by being registered."""

from __future__ import annotations

import pytest

from nalu_ray.layers import get, names
from nalu_ray.testing import UNIT_CHECKS, of_layer
from tests import distinct

SLOW = ("compiles", "scripts", "exports", "autocast", "block", "resume", "kept_in_bounds")
ALSO = ("nac_nalu", "relu")  # one of the pairs, one of the activations
every_layer = pytest.mark.parametrize("name", names())


def is_made_of_others(name: str) -> bool:
    return distinct.is_pair(name) or distinct.is_torchs_activation(name)


def checks() -> list[tuple[str, str]]:
    """Every check of every layer, but the slow ones only where a layer has code of its own.

    Both layers of a pair have them, and an activation of PyTorch's adds none of ours.
    """
    return [
        (name, check)
        for name in names()
        for check in UNIT_CHECKS
        if check not in SLOW or name in ALSO or not is_made_of_others(name)
    ]


@pytest.mark.parametrize(("name", "check"), checks())
def test_layer(name: str, check: str) -> None:
    UNIT_CHECKS[check](of_layer(name))


@every_layer
def test_label_is_for_print(name: str) -> None:
    assert get(name).label
    assert get(name).citation
