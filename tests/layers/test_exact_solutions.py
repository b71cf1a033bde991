"""Parameters set by hand with which a unit computes an operation exactly.

Every entry is a network of the registry, an operation and its parameters; the error in float64 is
below 1e-12. Inputs are x_0 to x_3, and x_3 is never used. A network of one layer computes on
a = x_0, b = x_1; one of two layers on a = x_0 + x_1, b = x_2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from nalu_ray.layers import build

Rows = list[list[float]]

OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "negate": lambda a, b: -a,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "square": lambda a, b: a * a,
    "sqrt": lambda a, b: a.sqrt(),
    "reciprocal": lambda a, b: 1 / a,
    "one": lambda a, b: torch.ones_like(a),
}
ANY, POSITIVE = (-5.0, 5.0), (0.5, 5.0)


class Solution(NamedTuple):
    """A network, an operation, and the parameters by name, one row per output."""

    layer: str
    operation: str
    parameters: dict[str, Rows]
    inputs: tuple[float, float] = ANY
    options: dict[str, Any] = {}  # noqa: RUF012


# -- what W stands for --------------------------------------------------------------------------

LARGE = 40.0  # its tanh and its sigmoid are 1 in float64, to the last bit


def hats(rows: Rows) -> dict[str, Rows]:
    """W_hat and M_hat of a NAC's weight, each element -1, 0, 1 or between."""
    w_hat = [[w * LARGE if abs(w) == 1 else math.atanh(w) for w in row] for row in rows]
    return {"W_hat": w_hat, "M_hat": [[LARGE] * len(row) for row in rows]}


def logits(rows: Rows) -> dict[str, Rows]:
    """W_hat of a weight sigmoid(W_hat), each element 0, 1/2 or 1."""
    return {"W_hat": [[{0: -800.0, 0.5: 0.0, 1: 800.0}[w] for w in row] for row in rows]}


def linear(rows: Rows) -> dict[str, Rows]:
    return {"W": rows}


def named(prefix: str, parameters: dict[str, Rows]) -> dict[str, Rows]:
    return {f"{prefix}.{name}": rows for name, rows in parameters.items()}


def gate(value: float, width: int) -> dict[str, Rows]:
    """G that opens (1) or shuts (-1) the gate to the sum for positive inputs."""
    return {"G": [[1000.0 * value] * width]}


# -- one layer ------------------------------------------------------------------------------------

SUMS: dict[str, Rows] = {
    "add": [[1, 1, 0, 0]], "sub": [[1, -1, 0, 0]], "negate": [[-1, 0, 0, 0]]
}  # fmt: skip
PRODUCTS: dict[str, Rows] = {"mul": [[1, 1, 0, 0]], "one": [[0, 0, 0, 0]]}
ROOTS: dict[str, Rows] = {"sqrt": [[0.5, 0, 0, 0]]}
QUOTIENTS: dict[str, Rows] = {"div": [[1, -1, 0, 0]], "reciprocal": [[-1, 0, 0, 0]]}
# log(|x| + epsilon) is log(|x|) to the last bit
EPSILON = {"epsilon": 1e-300}

single = [
    *(Solution("nac", op, named("0", hats(w))) for op, w in SUMS.items()),
    *(Solution("nau", op, named("0", linear(w))) for op, w in SUMS.items()),
    *(
        Solution("nau", op, named("0", linear(w)), options={"stochastic": True})
        for op, w in SUMS.items()
    ),
    *(
        Solution(name, op, named("0", linear(w)))
        for name in ("nmu", "snmu")
        for op, w in PRODUCTS.items()
    ),
    *(
        Solution("mnac", op, named("0", hats(w)), POSITIVE, EPSILON)
        for op, w in (PRODUCTS | ROOTS | QUOTIENTS).items()
    ),
    *(
        Solution("mnac_sigmoid", op, named("0", logits(w)), POSITIVE, EPSILON)
        for op, w in (PRODUCTS | ROOTS).items()
    ),
    *(
        Solution("mnac_linear", op, named("0", linear(w)), POSITIVE, EPSILON)
        for op, w in (PRODUCTS | ROOTS).items()
    ),
    *(Solution("snapping_power", op, named("0", hats(w)), POSITIVE) for op, w in ROOTS.items()),
]


def separate(op: str, weight: Rows, width: int) -> dict[str, Rows]:
    """Parameters of a NALU with separate weights; the path that is shut gets others."""
    other: Rows = [[1.0] * width]
    chosen, shut = hats(weight), hats(other)
    summing = op in SUMS
    return (
        named("sum", chosen if summing else shut)
        | named("product", shut if summing else chosen)
        | gate(1 if summing else -1, width)
    )


def gated(op: str, weight: Rows, width: int) -> dict[str, Rows]:
    other: Rows = [[1.0] * width]
    summing = op in SUMS
    return (
        named("nau", linear(weight if summing else other))
        | named("nmu", linear(other if summing else weight))
        | gate(1 if summing else -1, width)
    )


single += [
    Solution("nalu_separate", op, named("0", separate(op, w, 4)), POSITIVE, EPSILON)
    for op, w in (SUMS | PRODUCTS | ROOTS | QUOTIENTS).items()
]
single += [
    Solution("gated_nau_nmu", op, named("0", gated(op, w, 4)), POSITIVE)
    for op, w in (SUMS | PRODUCTS).items()
]

# -- two layers: the first selects a and b, or adds them up ---------------------------------------

A, B = [1.0, 1, 0, 0], [0.0, 0, 1, 0]
SUM, DIFFERENCE = [1.0, 1, 1, 0], [1.0, 1, -1, 0]
# operation -> the first layer's rows and the second layer's row
CHOSEN: dict[str, tuple[Rows, Rows]] = {
    "mul": ([A, B], [[1, 1]]),
    "square": ([A, A], [[1, 1]]),
    "add": ([SUM, B], [[1, 0]]),
}
SIGNED: dict[str, tuple[Rows, Rows]] = {"sub": ([DIFFERENCE, B], [[1, 0]])}
DIVIDED: dict[str, tuple[Rows, Rows]] = {"div": ([A, B], [[1, -1]]), "sqrt": ([A, B], [[0.5, 0]])}

GATED: dict[str, Rows] = {"add": [[1, 1]], "sub": [[1, -1]], "mul": [[1, 1]]}


def both(first: dict[str, Rows], second: dict[str, Rows]) -> dict[str, Rows]:
    return named("0", first) | named("1", second)


double = [
    *(
        Solution(name, op, both(linear(first), linear(second)))
        for name in ("nau_nmu", "nau_snmu")
        for op, (first, second) in (CHOSEN | SIGNED).items()
    ),
    *(
        Solution("nac_mnac", op, both(hats(first), hats(second)), POSITIVE, EPSILON)
        for op, (first, second) in (CHOSEN | DIVIDED).items()
    ),
    *(
        Solution("nac_mnac_sigmoid", op, both(hats(first), logits(second)), POSITIVE, EPSILON)
        for op, (first, second) in CHOSEN.items()
    ),
    *(
        Solution("nau_mnac_linear", op, both(linear(first), linear(second)), POSITIVE, EPSILON)
        for op, (first, second) in CHOSEN.items()
    ),
    *(
        Solution("nac_nalu_separate", op, both(hats([A, B]), separate(op, w, 2)), POSITIVE, EPSILON)
        for op, w in (GATED | {"div": [[1.0, -1]]}).items()
    ),
    *(
        Solution("nac_gated_nau_nmu", op, both(hats([A, B]), gated(op, w, 2)), POSITIVE)
        for op, w in GATED.items()
    ),
]


def shares(places: Sequence[int], outputs: int) -> dict[str, Any]:
    """A mass-conserving layer that gives each input to one output, all of it."""
    return {
        "r": [[800.0 * (place == output) for output in range(outputs)] for place in places],
        "w": [LARGE] * outputs,
        "b": [0.0] * outputs,
    }


# what is not asked for goes to the spare output, the last
MASS: dict[str, tuple[list[int], list[int]]] = {
    "mul": ([0, 0, 1, 2], [0, 0]),
    "add": ([0, 0, 0, 1], [0, 1]),
}
double += [
    Solution(
        "mcfc_mul_mcfc",
        op,
        both(shares(first, 3), shares(second, 2) | {"c": [0.0]}),
        POSITIVE,
        EPSILON | {"spare": 1},
    )
    for op, (first, second) in MASS.items()
]
# half of an input's logarithm passes the output gate
single.append(
    Solution(
        "mul_mcfc",
        "sqrt",
        named("0", shares([0, 1, 1, 1], 2) | {"w": [0.0, 0.0], "c": [0.0]}),
        POSITIVE,
        EPSILON,
    )
)
double += [
    Solution("snapping_nac_power", op, both(hats(first), hats(second)), ANY, EPSILON)
    for op, (first, second) in (CHOSEN | SIGNED | {"div": DIVIDED["div"]}).items()
]

SOLUTIONS = [*single, *double]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "solution", SOLUTIONS, ids=[f"{n}-{s.layer}-{s.operation}" for n, s in enumerate(SOLUTIONS)]
)
def test_hand_set_units_are_exact(solution: Solution, training: bool) -> None:
    deep = any(name.startswith("1.") for name in solution.parameters)
    network = build(solution.layer, 4, 2, 1, int(deep), dtype=torch.float64, **solution.options)
    network.train(training)
    values = dict(network.named_parameters())
    assert values.keys() == solution.parameters.keys()
    with torch.no_grad():
        for name, rows in solution.parameters.items():
            values[name].copy_(torch.tensor(rows, dtype=torch.float64))
    low, high = solution.inputs
    uniform = torch.rand(64, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = low + (high - low) * uniform
    a, b = (x[:, 0] + x[:, 1], x[:, 2]) if deep else (x[:, 0], x[:, 1])
    target = OPERATIONS[solution.operation](a, b)
    error = (network(x)[:, 0] - target).abs() / target.abs().clamp(min=1)
    assert error.max() < 1e-12
