"""When the static task counts as solved: by hand, as published, and never degenerate."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nalu_ray.seeding import Streams
from nalu_ray.tasks._operands import Sections
from nalu_ray.tasks._threshold import adding, golden
from nalu_ray.tasks.static import ROWS, TASK, StaticSetting
from tests.runs import finish

E = 1e-5


def elements(*of_a_and_b: range) -> Sections:
    a, b = (torch.tensor([list(part)]) for part in of_a_and_b)
    return a, b


def uniform(low: float, high: float, inputs: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    shape = (1, 20_000, inputs)
    return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("sign", [1, -1])
def test_by_hand(sign: int) -> None:
    """x = (4, 1, 2), a = 4, b = 2: S = 7, d_a = (4 + 1/2) e, d_b = (2 + 1/2) e; alone 7/2 e."""
    x = torch.tensor([[[4.0, 1.0, 2.0]]]) * sign
    expected = {
        "a": 3.5 * E,
        "add": 7 * E,
        "sub": 7 * E,
        "mul": (4 + 4.5 * E) * (2 + 2.5 * E) - 8,
        "div": 2 - (4 - 4.5 * E) / (2 + 2.5 * E),
        "square": (4 + 3.5 * E) ** 2 - 16,
        "reciprocal": 1 / 4 - 1 / (4 + 3.5 * E),
    }
    if sign == 1:
        expected["sqrt"] = math.sqrt(4 + 3.5 * E) - 2
    for op, off in expected.items():
        threshold = adding(op, x, elements(range(1), range(2, 3)))
        assert threshold.tolist() == pytest.approx([off**2], rel=1e-9), op


def test_each_seed_and_the_mean_over_its_examples() -> None:
    x = torch.tensor([[[1.0, 1.0], [3.0, 3.0]], [[2.0, 2.0], [0.0, 0.0]]])
    chosen = torch.tensor([[0], [1]]), torch.tensor([[1], [0]])
    threshold = adding("sub", x, chosen)
    # e S is 2 e, 6 e and 4 e, 0
    assert threshold.tolist() == pytest.approx([20 * E**2, 8 * E**2], rel=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "add", "mul", "div"),
    [
        (20, 40, 3.67e-7, 3.48e-4, 4.67e-10),
        (2, 6, 6.67e-9, 1.20e-7, 5.78e-10),
        (-6.1, -1.2, 5.73e-9, 9.39e-8, 8.37e-10),
        (1.2, 6, 5.57e-9, 8.86e-8, 8.27e-10),
        (0.2, 2, 5.38e-10, 8.76e-10, 1.48e-9),
    ],
)
def test_two_inputs_have_the_thresholds_of_the_single_module_task(
    low: float, high: float, add: float, mul: float, div: float
) -> None:
    x = uniform(low, high, 2)
    for op, expected in {"add": add, "sub": add, "mul": mul, "div": div}.items():
        threshold = adding(op, x, elements(range(1), range(1, 2)))
        assert threshold.item() == pytest.approx(expected, rel=0.03), op


@pytest.mark.parametrize(("inputs", "expected"), [(10, 1.61e-7), (100, 1.60e-5)])
def test_irrelevant_inputs_count_in_sums(inputs: int, expected: float) -> None:
    for op in ("add", "sub"):
        threshold = adding(op, uniform(2, 6, inputs), elements(range(1), range(1, 2)))
        assert threshold.item() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("op", "published"), [("add", 1.60e-5), ("mul", 0.161), ("square", 0.160), ("sqrt", 1.01e-8)]
)
def test_where_their_errors_do_not_cancel_the_thresholds_are_the_published_ones(
    op: str, published: float
) -> None:
    threshold = adding(op, uniform(2, 6, 100), elements(range(25), range(13, 38)))
    assert threshold.item() == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(
    ("op", "published"),
    [("add", 1.60e-5), ("sub", 1.38e-8), ("mul", 0.161), ("div", 5.8e-12), ("square", 0.160),
     ("sqrt", 1.01e-8)],
)  # fmt: skip
def test_the_golden_network_has_the_published_thresholds(op: str, published: float) -> None:
    """Of the true subsets of 25 of 100 inputs, 12 in both, and x of U(2, 6)."""
    threshold = golden(op, uniform(2, 6, 100), elements(range(25), range(13, 38)))
    assert threshold.item() == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(
    ("op", "printed"),
    [("add", 1.479e-5), ("sub", 1.384e-8), ("mul", 0.1600), ("div", 4.94e-12), ("square", 0.1595),
     ("sqrt", 8.96e-9)],
)  # fmt: skip
def test_the_printed_thresholds_are_of_subsets_with_one_element_more(
    op: str, printed: float
) -> None:
    threshold = golden(op, uniform(2, 6, 100), elements(range(26), range(13, 39)))
    assert threshold.item() == pytest.approx(printed, rel=0.03)


def test_golden_by_hand() -> None:
    """x = (4, 1, 2), a = 4, b = 2, T = 7: a is off by (7 - 8) e, b by (7 - 4) e."""
    x = torch.tensor([[[4.0, 1.0, 2.0]], [[4.0, 1.0, 2.0]]])
    chosen = torch.tensor([[0], [0]]), torch.tensor([[2], [2]])
    a, b = 4 - E, 2 + 3 * E
    expected = {
        "add": 2 * E, "sub": 4 * E, "mul": a * b - 8, "div": 2 - a / b, "square": 16 - a**2,
        "reciprocal": 1 / a - 1 / 4,
    }  # fmt: skip
    for op, off in expected.items():
        assert golden(op, x, chosen).tolist() == pytest.approx([off**2] * 2, rel=1e-9), op


@pytest.mark.parametrize("op", ROWS.labels)
@pytest.mark.parametrize(
    ("inputs", "section", "overlap"), [(20, 10, 0), (2, 1, 0), (8, 8, 8), (9, 6, 3), (30, 4, 0)]
)
@pytest.mark.parametrize("test_range", [(0.0, 3.0), (0.0, 1e-3), (0.0, 1e6)])
def test_what_is_exact_in_float32_is_always_below(
    op: str, inputs: int, section: int, overlap: int, test_range: tuple[float, float]
) -> None:
    setting = StaticSetting.model_validate(
        {"op": op, "inputs": inputs, "section": section, "overlap": overlap, "test_size": 200}
        | {"train_range": (0.0, test_range[1] / 3), "test_range": test_range}
    )
    streams = Streams("static", (0, 1, 2), "extrapolation")
    batch = TASK.sample(setting, "extrapolation", streams)
    threshold = TASK.references(setting, "extrapolation", batch, streams)["solved_mse"]
    x = batch.inputs[0]
    rounded = batch.targets * (1 + 3 * torch.finfo(torch.float32).eps)
    for exact in (batch.targets, rounded):
        error = (exact.double() - batch.targets.double()).square().mean((1, 2))
        assert (error < threshold).all()
    assert (threshold > 0).all()
    # and not by so much that a network of ordinary errors would pass
    assert (
        threshold < (1e-2 * batch.targets.double().abs().amax((1, 2))) ** 2
    ).all() or op == "sub"
    assert threshold.shape == (len(x),)


def test_inputs_too_small_for_float32_leave_a_threshold_above_zero() -> None:
    x = torch.full((1, 4, 2), 1e-30)
    for op in ROWS.labels:
        threshold = adding(op, x, elements(range(1), range(1, 2)))
        assert threshold.float().item() > 0, op


def test_sections_that_cover_all_inputs_can_be_solved() -> None:
    setting = StaticSetting(
        layer="nac", op="add", inputs=8, section=4, lr=0.1, steps=1200, batch=16, test_size=50,
        evaluations=3,
    )  # fmt: skip
    rows = finish(TASK.start(setting, [0, 1], torch.device("cpu")))
    here = rows[rows["split"] == "extrapolation"]
    limit = here[here["metric"] == "solved_mse"].set_index("seed")["value"]
    last = here[(here["metric"] == "mse") & (here["step"] == setting.steps)]
    assert (limit > 1e-10).all()
    assert (last.set_index("seed")["value"] < limit).all()
