"""Units that multiply and divide solve their operations exactly, with parameters set by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers import build, build_cell, get

LARGE = 40.0  # its tanh and its sigmoid are 1 in float64, to the last bit

# a, b, and an input that no operation reads; no sum is near 0, so that the gate of a G-NALU is open
X = torch.tensor(
    [[2, 3, 5], [-2, 3, 4], [3, -2, 0.5], [-2, -3, -7], [0.01, -40, 0], [-250, 0.3, 1e3]],
    dtype=torch.float64,
)
OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "reciprocal": lambda a, b: 1 / b,
    "copy": lambda a, b: a,
    "square": lambda a, b: a * a,
    "cube": lambda a, b: a**3,
    "sqrt": lambda a, b: a.sqrt(),
    "quotient of roots": lambda a, b: (a / b).sqrt(),
    "cosine of logarithm": lambda a, b: a.log().cos(),
}

Rows = list[float]
ADD: dict[str, Rows] = {"add": [1, 1, 0], "sub": [1, -1, 0], "copy": [1, 0, 0]}
MULTIPLY: dict[str, Rows] = {"mul": [1, 1, 0], "div": [1, -1, 0], "reciprocal": [0, -1, 0]}
ROOT: dict[str, Rows] = {"sqrt": [0.5, 0, 0], "quotient of roots": [0.5, -0.5, 0]}
POWER: dict[str, Rows] = {"square": [2, 0, 0], "cube": [3, 0, 0]}


def squashed(row: Rows, gate: float, scale: float = 1.0) -> dict[str, Any]:
    """W_hat, M_hat and G of a weight tanh * sigmoid."""
    hat = [[math.copysign(LARGE, w) if abs(w) == 1 else math.atanh(w) for w in row]]
    w_hat = scale * torch.tensor(hat, dtype=torch.float64)
    return {"W_hat": w_hat, "M_hat": scale * LARGE, "G": gate}


def rows() -> list[Any]:
    cases: list[tuple[str, str, bool, dict[str, Any], dict[str, Any]]] = []

    def add(unit: str, op: str, values: dict[str, Any], signs: bool, **options: Any) -> None:
        cases.append((unit, op, signs, values, options))

    for op, row in (ADD | MULTIPLY | ROOT).items():
        gate, signs = (LARGE if op in ADD else -LARGE), op not in ROOT
        values = squashed(row, gate)
        add("inalu", op, values, signs, shared=True)
        if op in ADD:
            own = values | {"W_hat_m": 0.3, "M_hat_m": -0.2}
        else:
            own = {"W_hat": 0.3, "M_hat": -0.2, "G": gate}
            own |= {"W_hat_m": values["W_hat"], "M_hat_m": values["M_hat"]}
        add("inalu", op, own, signs)
        # the gate of a G-NALU reads the inputs, and its product loses their sign
        scaled = squashed(row, 25 * gate, scale=1 / math.log((1 + math.sqrt(5)) / 2))
        add("gnalu", op, scaled, False, epsilon=1e-15)
    for op, row in (MULTIPLY | ROOT | POWER).items():
        signs = op not in ROOT
        gates = [float(w != 0) for w in row]
        # the weight of an input with a closed gate does not matter
        free = [w if g else 0.7 for w, g in zip(row, gates, strict=True)]
        add("naive_npu", op, {"W_r": [row], "W_i": 0.0}, signs)
        for gate_gradient in ("through", "clamp"):
            chosen = {"gate_gradient": gate_gradient}
            add("npu", op, {"W_r": [free], "W_i": 0.0, "G": gates}, signs, **chosen)
            add("real_npu", op, {"W": [free], "G": gates}, signs, **chosen)
        if op not in POWER:  # whose weights are beyond 1
            add("modified_real_npu", op, {"W": [free], "G": gates}, signs)
    for unit, gates in ("naive_npu", {}), ("npu", {"G": [1.0, 0, 0]}):
        values = {"W_r": 0.0, "W_i": [[1.0, 0, 0]], **gates}
        add(unit, "cosine of logarithm", values, False)
    for op, row in (MULTIPLY | {"copy": [1, 0, 0]}).items():
        for separate_sign in (False, True):
            add("nru", op, {"W": [row]}, True, separate_sign=separate_sign)
        both = [[float(w == 1) for w in row] + [float(w == -1) for w in row]]
        add("nmru", op, {"W": both}, True)
        add("nmru", op, {"W": both, "gate.g": 1.0}, True, gated=True)
    return [
        pytest.param(*case, id="-".join([case[0], case[1], *map(str, case[4].values())]))
        for case in cases
    ]


def set_by_hand(layer: nn.Module, values: dict[str, Any]) -> None:
    assert values.keys() == dict(layer.named_parameters()).keys()
    with torch.no_grad():
        for name, value in values.items():
            layer.get_parameter(name).copy_(torch.as_tensor(value, dtype=torch.float64))


@pytest.mark.parametrize(("unit", "op", "signs", "values", "options"), rows())
def test_hand_set_parameters_solve_it(
    unit: str, op: str, signs: bool, values: dict[str, Any], options: dict[str, Any]
) -> None:
    factory: Any = get(unit).factory
    layer = factory.last(3, 1, dtype=torch.float64, **options)
    set_by_hand(layer, values)
    x: Tensor = X if signs else X.abs()
    wanted = OPERATIONS[op](x[:, 0], x[:, 1])
    for training in (True, False):
        layer.train(training)
        torch.testing.assert_close(layer(x)[:, 0], wanted, rtol=1e-10, atol=1e-10)
    low, high = getattr(layer, "bounds", {}).get("W", (-3, 3))
    assert all(low <= w <= high for w in layer.state_dict().get("W", torch.zeros(1)).flatten())


PAIRS = {
    "nau_npu": {"W_r": [[1.0, -1.0]], "W_i": 0.0, "G": 1.0},
    "nau_naive_npu": {"W_r": [[1.0, -1.0]], "W_i": 0.0},
    "nau_real_npu": {"W": [[1.0, -1.0]], "G": 1.0},
    "nau_modified_real_npu": {"W": [[1.0, -1.0]], "G": 1.0},
    "nau_nmru": {"W": [[1.0, 0.0, 0.0, 1.0]]},
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_divide_a_sum_by_a_difference(name: str) -> None:
    first, second = build(name, 4, 2, 1, dtype=torch.float64)
    set_by_hand(first, {"W": [[1.0, 1, 0, 0], [0, 0, 1, -1]]})
    set_by_hand(second, PAIRS[name])
    generator = torch.Generator().manual_seed(0)
    x = 6 * torch.rand(64, 4, generator=generator, dtype=torch.float64) - 3
    a, b = x[:, 0] + x[:, 1], x[:, 2] - x[:, 3]
    assert all(part.min() < 0 < part.max() for part in (a, b))
    torch.testing.assert_close(second(first(x))[:, 0], a / b, rtol=1e-10, atol=1e-10)


# over [x_t, h], each divides h by x_t
CELLS = {
    "npu": {"W_r": [[-1.0, 1.0]], "W_i": 0.0, "G": 1.0},
    "naive_npu": {"W_r": [[-1.0, 1.0]], "W_i": 0.0},
    "real_npu": {"W": [[-1.0, 1.0]], "G": 1.0},
    "modified_real_npu": {"W": [[-1.0, 1.0]], "G": 1.0},
    "nru": {"W": [[-1.0, 1.0]]},
    "nmru": {"W": [[0.0, 1.0, 1.0, 0.0]]},
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_divide_one_by_all_inputs(name: str) -> None:
    cell: Any = build_cell(name, 1, 1, dtype=torch.float64)
    set_by_hand(cell.unit, CELLS[name])
    x = torch.tensor([[2.0, -0.5, 3.0, -4.0, -0.25], [-1.5, 2.0, 0.1, 7.0, -1.0]]).double()
    outputs, _ = cell(x[..., None])
    torch.testing.assert_close(outputs[..., 0], 1 / x.cumprod(1), rtol=1e-10, atol=1e-10)
