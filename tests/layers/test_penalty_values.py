"""Each unit's penalties: values by NumPy, gradients by central differences of these values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nalu_ray import layers
from nalu_ray.training import members
from tests.layers.oracle import Array, fill, numbers, signed, slopes

Values = dict[str, Array]
Formula = Callable[[Values], Any]


def near(w: Array) -> Array:
    """The distance from -1, 0 and 1."""
    return np.minimum(np.abs(w), np.abs(1 - np.abs(w)))


def near_positive(w: Array) -> Array:
    """The distance from 0 and 1."""
    return np.minimum(np.abs(w), np.abs(1 - w))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def hat(p: Values) -> Array:
    return np.asarray(np.tanh(p["W_hat"]) * sigmoid(p["M_hat"]))


def soft(v: Array) -> Array:
    shares = np.exp(v)
    return np.asarray(shares / shares.sum(-1, keepdims=True))


def mean_inputs(p: Values) -> Array:
    return np.asarray(p["x"].mean(0))


SIGNED: dict[str, Formula] = {
    "sparsity": lambda p: near(p["W"]).mean(),
    "sparsity_squared": lambda p: (p["W"] ** 2 * (1 - np.abs(p["W"])) ** 2).mean(),
}
SELECTING: dict[str, Formula] = {
    "sparsity": lambda p: near_positive(p["W"]).mean(),
    "sparsity_squared": lambda p: (p["W"] ** 2 * (1 - p["W"]) ** 2).mean(),
}
TO_ONE: dict[str, Formula] = SELECTING | {
    "inputs": lambda p: ((1 - p["W"]) * (1 - mean_inputs(p)) ** 2).mean()
}
TO_ZERO: Formula = lambda p: ((1 - np.abs(p["W"])) * mean_inputs(p) ** 2).mean()  # noqa: E731
GATE: dict[str, Formula] = {"gate": lambda p: near_positive(p["G"]).mean()}
HATS: dict[str, Formula] = {"sparsity": lambda p: near(hat(p)).mean()}
COMPLEX: dict[str, Formula] = {
    "sparsity": lambda p: (near(p["W_r"]).mean() + near(p["W_i"]).mean()) / 2
}
SATURATION: dict[str, Formula] = {
    "saturation": lambda p: -sum((p[name] ** 2).mean() for name in "rwb")
}
# a unit and its options -> its penalties
UNITS: list[tuple[str, dict[str, Any], dict[str, Formula]]] = [
    ("nau", {}, SIGNED | {"inputs": TO_ZERO}),
    ("nmu", {}, TO_ONE),
    ("snmu", {}, TO_ONE),
    ("mnac_linear", {}, TO_ONE),
    (
        "nac",
        {},
        HATS | {"inputs": lambda p: ((1 - np.abs(hat(p))) * mean_inputs(p) ** 2).mean()},
    ),
    ("nalu", {}, HATS),
    ("gnalu", {}, {"sparsity": lambda p: near(hat({k: LOG_PHI * p[k] for k in p})).mean()}),
    ("mnac", {}, HATS),
    ("mnac_sigmoid", {}, {"sparsity": lambda p: near(sigmoid(p["W_hat"])).mean()}),
    ("snapping_nac", {}, HATS),
    ("snapping_power", {}, HATS),
    ("inalu", {}, {"size": lambda p: sum((20 - np.abs(p[k])).mean() for k in p if k != "x")}),
    ("npu", {}, COMPLEX | GATE),
    ("naive_npu", {}, COMPLEX),
    ("real_npu", {}, SIGNED | GATE),
    ("modified_real_npu", {"sparsity": "nearest"}, SIGNED | GATE),
    (
        "modified_real_npu",
        {},
        SIGNED | GATE | {"sparsity": lambda p: np.abs(1 - np.abs(p["W"])).mean()},
    ),
    ("nru", {}, SIGNED),
    ("nmru", {}, SELECTING),
    ("mcfc", {}, SATURATION),
    (
        "mul_mcfc",
        {"signs": "cosine"},
        SATURATION | {"gate": lambda p: near_positive(p["g"]).mean()},
    ),
    (
        "nsr",
        {"registers": 2},
        {"sparsity": lambda p: near(np.stack([soft(p["V1"]), soft(p["V2"])])).mean()},
    ),
]
LOG_PHI = np.log((1 + np.sqrt(5)) / 2)


def check(unit: nn.Module, formulas: dict[str, Formula], reach: float = 0.9) -> None:
    """A float64 unit has the penalties of NumPy, and the gradients of their differences."""
    fill(unit, low=-reach, high=reach)
    x = signed().requires_grad_()
    found = members.penalty(unit, x)
    assert found.keys() == formulas.keys()
    given = {"x": x, **dict(unit.named_parameters())}
    for name, formula in formulas.items():

        def value(formula: Formula = formula, **given: Array) -> Array:
            return np.asarray(formula(given))

        plain = numbers(unit)
        inputs = x.detach().numpy()
        assert found[name].item() == pytest.approx(float(value(x=inputs, **plain)), rel=1e-12)
        gradients = torch.autograd.grad(
            found[name], [*given.values()], allow_unused=True, retain_graph=True
        )
        expected = slopes(value, inputs, plain, np.ones(()))
        assert any(slope.any() for slope in expected.values())
        for (place, tensor), slope in zip(given.items(), gradients, strict=True):
            own = torch.zeros_like(tensor) if slope is None else slope
            np.testing.assert_allclose(
                own.numpy(), expected[place], rtol=2e-6, atol=1e-8, err_msg=f"{name} by {place}"
            )


@pytest.mark.parametrize(
    ("unit", "options", "formulas"), UNITS, ids=[f"{u}{o or ''}" for u, o, _ in UNITS]
)
def test_a_units_penalties_are_the_formulas(
    unit: str, options: dict[str, Any], formulas: dict[str, Formula]
) -> None:
    network = layers.build(unit, 3, 2, 2, 0, dtype=torch.float64, **options)
    # a softmax with an element above 1/2
    check(network.get_submodule("0"), formulas, reach=3.0 if unit == "nsr" else 0.9)


def test_the_gates_of_an_nmru() -> None:
    network = layers.build("nmru", 3, 2, 2, 0, dtype=torch.float64, gated=True)
    (path,) = (p for p, part in network.named_modules() if hasattr(part, "g"))
    check(network.get_submodule(path), {"gate": lambda p: near_positive(p["g"]).mean()})


def test_every_unit_with_a_penalty_is_here() -> None:
    named = {unit for unit, _, _ in UNITS}
    parts = {"nalu_separate", "gated_nau_nmu"}  # theirs are those of NAC, NAU and NMU
    for name in layers.names():
        factory = layers.get(name).factory
        if isinstance(factory, layers.Stacked) and not factory.is_pair and name not in parts:
            unit = layers.build(name, 3, 2, 2, 0).get_submodule("0")
            assert (name in named) == bool(members.offered(unit).get("")), name
