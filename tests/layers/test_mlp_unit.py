"""The MLP in the place of a unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nalu_ray.layers import build
from nalu_ray.layers.mlp_unit import MLPUnit

from .oracle import Array, assert_follows


def mlp(x: Array, **p: Array) -> Array:
    """Two affine layers, row by row, in NumPy."""
    (to_hidden, hidden_bias, to_out, out_bias) = p.values()
    rows = []
    for row in x:
        hidden = [np.tanh(w @ row + b) for w, b in zip(to_hidden, hidden_bias, strict=True)]
        rows.append([w @ hidden + b for w, b in zip(to_out, out_bias, strict=True)])
    return np.array(rows)


def test_values_and_gradients() -> None:
    unit = MLPUnit(3, 2, width=5, activation="tanh").double()
    assert [tuple(p.shape) for p in unit.parameters()] == [(5, 3), (5,), (2, 5), (2,)]
    assert_follows(unit, mlp)


def test_an_absolute_value_is_exact_with_two_units() -> None:
    """What an affine layer cannot do."""
    network = build("mlp_bias", 1, 1, 1, hidden_layers=0, width=2)
    values = ([[1.0], [-1.0]], [0.0, 0.0], [[1.0, 1.0]], [0.0])
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), values, strict=True):
            parameter.copy_(torch.tensor(value))
    x = torch.tensor([[-3.5], [0.0], [2e6]])
    assert torch.equal(network(x), x.abs())


def test_start() -> None:
    unit = MLPUnit(4, 30, width=100)
    unit.reset_parameters(torch.Generator().manual_seed(0))
    for value, bound in zip(unit.parameters(), (0.5, 0.5, 0.1, 0.1), strict=True):
        assert value.abs().max() <= bound
        assert value.var().item() == pytest.approx(bound**2 / 3, rel=0.3)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"^width must be an integer of at least 1, got 0$"):
        MLPUnit(2, 1, width=0)
    with pytest.raises(ValueError, match=r"^activation must be one of crelu, .*, got 'wavy'$"):
        MLPUnit(2, 1, activation="wavy")
