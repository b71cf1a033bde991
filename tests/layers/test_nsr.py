"""The neural status register: values by hand, six exact comparisons, start, penalties."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import numpy as np
import pytest
import torch

from nalu_ray.layers.nsr import NSR
from tests.layers.oracle import Array, assert_follows

# w_sign, w_zero and b, in units large enough to saturate the sigmoid
EXACT: dict[str, tuple[Callable[[float, float], bool], tuple[int, int, int]]] = {
    "greater": (operator.gt, (2, -1, 0)),
    "less": (operator.lt, (-2, -1, 0)),
    "greater_equal": (operator.ge, (2, 1, 0)),
    "less_equal": (operator.le, (-2, 1, 0)),
    "equal": (operator.eq, (0, 1, 0)),
    "not_equal": (operator.ne, (0, -1, 0)),
}


def exact(weights: tuple[int, int, int]) -> NSR:
    unit = NSR(2, 1, zeta=3.0).double()
    with torch.no_grad():
        unit.V1.copy_(torch.tensor([[800.0, 0.0]]))
        unit.V2.copy_(torch.tensor([[0.0, 800.0]]))
        for parameter, value in zip((unit.w_sign, unit.w_zero, unit.b), weights, strict=True):
            parameter.fill_(800.0 * value)
    return unit


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("base", [1, 10**6, 9 * 10**15])
def test_every_comparison_is_exact(name: str, base: int) -> None:
    compare, weights = EXACT[name]
    pairs = [(base + a, base + b) for a, b in itertools.product(range(10), repeat=2)]
    found = exact(weights)(torch.tensor(pairs, dtype=torch.float64))[:, 0]
    wanted = torch.tensor([compare(a, b) for a, b in pairs], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_values_and_gradients() -> None:
    def nsr(x: Array, **p: Array) -> Array:
        y = np.zeros((len(x), 2))
        for row, column in np.ndindex(y.shape):
            total = p["b"][column]
            for register in range(4):
                first, second = (np.exp(p[v][4 * column + register]) for v in ("V1", "V2"))
                d = x[row] @ (first / first.sum() - second / second.sum())
                t = np.tanh(0.7 * d)
                total += p["w_sign"][column, register] * t
                total += p["w_zero"][column, register] * (1 - 2 * t**2)
            y[row, column] = 1 / (1 + np.exp(-total))
        return y

    x = torch.tensor([[1.0, -2.0, 0.5], [0.1, 0.2, 0.3]], dtype=torch.float64)
    assert_follows(NSR(3, 2, registers=4, zeta=0.7).double(), nsr, x)


def test_start() -> None:
    unit = NSR(6, 100, registers=10)
    unit.reset_parameters(torch.Generator().manual_seed(0))
    for parameter, variance in (
        (unit.V1, 2 / 16),
        (unit.V2, 2 / 16),
        (unit.w_sign, 2 / 11),
        (unit.w_zero, 2 / 11),
    ):
        assert parameter.var().item() == pytest.approx(variance, rel=0.1)
        assert abs(parameter.mean().item()) < 0.04
    assert not unit.b.any()
    assert not torch.equal(unit.V1, unit.V2)


def test_penalty_and_measure_look_at_the_selectors() -> None:
    unit = NSR(2, 1)
    with torch.no_grad():
        unit.V1.copy_(torch.tensor([[np.log(9.0), 0.0]]))  # 0.9 and 0.1
        unit.V2.copy_(torch.tensor([[0.0, np.log(4.0)]]))  # 0.2 and 0.8
    assert unit.penalty()["sparsity"].item() == pytest.approx(0.15)
    assert unit.measure()["sparsity_error"].item() == pytest.approx(0.2)
    assert exact((2, 1, 0)).measure()["sparsity_error"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"registers": 0}, r"^registers must be an integer of at least 1, got 0$"),
        ({"zeta": 0.0}, r"^zeta must be a finite number above 0, got 0.0$"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NSR(2, 1, **options)  # type: ignore[arg-type]
