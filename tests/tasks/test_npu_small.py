"""The small task of the neural power unit: sets, errors, networks, the published protocol."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from nalu_ray.layers import NAU, RealNPU
from nalu_ray.seeding import Streams
from nalu_ray.sweep.presets import expand, sweep_of
from nalu_ray.tasks.npu_small import TASK
from nalu_ray.tasks.npu_small.network import NPUSmallSetting

SEEDS = [0, 1, 2]
FAR = [-4.1 + 0.2 * k for k in range(41)]
ROOTS = [0.1 * k for k in range(1, 41)]
GRID = list(itertools.product(FAR, FAR))
ROOT_GRID = list(itertools.product(ROOTS, ROOTS))


def draw(split: str, seeds: list[int] = SEEDS, **fields: Any) -> tuple[Tensor, Tensor]:
    batch = TASK.sample(NPUSmallSetting(**fields), split, Streams("npu_small", seeds, split))
    return batch.inputs[0], batch.targets


def errors(prediction: Tensor, target: Tensor, split: str = "extrapolation") -> dict[str, Any]:
    found = TASK.metrics(NPUSmallSetting(), split, prediction, target)
    return {name: value.tolist() for name, value in found.items()}


@pytest.mark.parametrize("split", ["train", "interpolation"])
def test_results_within_training_are_those_of_python(split: str) -> None:
    pairs, results = draw(split, train_range=(0.5, 3.0))
    assert pairs.shape == (3, 100 if split == "train" else 400, 2)
    assert (pairs >= 0.5).all()
    assert (pairs <= 3).all()
    for (x, y), found in zip(
        pairs.flatten(0, 1).tolist(), results.flatten(0, 1).tolist(), strict=True
    ):
        assert found == pytest.approx([x + y, x * y, x / y, math.sqrt(x)], rel=1e-6)


def test_training_is_drawn_per_seed_and_sets_are_the_same_for_all() -> None:
    pairs, _ = draw("train")
    assert not torch.equal(pairs[0], pairs[1])
    alone, _ = draw("train", [1])
    assert torch.equal(alone[0], pairs[1])
    near, _ = draw("interpolation")
    assert torch.equal(near[0], near[2])
    assert sorted({round(x, 6) for x in near[0, :, 0].tolist()}) == pytest.approx(
        [0.1 * k for k in range(1, 21)]
    )


def test_the_test_is_on_the_published_grids() -> None:
    pairs, results = draw("extrapolation")
    for seed in pairs.tolist():
        for found, wanted in zip(seed, [*GRID, *ROOT_GRID], strict=True):
            assert found == pytest.approx(wanted, abs=1e-5)
    assert results.isfinite().all()
    for (x, y), found in zip(GRID, results[0].tolist(), strict=False):
        assert found[:3] == pytest.approx([x + y, x * y, x / y], rel=1e-4, abs=1e-5)
    roots = results[0, len(GRID) :, 3].tolist()
    assert roots == pytest.approx([math.sqrt(x) for x, _ in ROOT_GRID], rel=1e-5)


def test_errors_are_mean_absolute_errors_on_the_grid_of_each_operation() -> None:
    _, results = draw("extrapolation")
    found = errors(torch.zeros_like(results), results)
    expected = {
        "mae_add": sum(abs(x + y) for x, y in GRID) / len(GRID),
        "mae_mul": sum(abs(x * y) for x, y in GRID) / len(GRID),
        "mae_div": sum(abs(x / y) for x, y in GRID) / len(GRID),
        "mae_sqrt": sum(math.sqrt(x) for x, _ in ROOT_GRID) / len(ROOT_GRID),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx([value] * 3, rel=1e-4)
    assert found["mae"] == pytest.approx([sum(expected.values()) / 4] * 3, rel=1e-4)
    assert next(iter(found)) == "mae"  # what `stop` compares


@pytest.mark.parametrize(
    ("row", "column", "counted"),
    [(5, 3, ""), (5, 2, "mae_div"), (41 * 41 + 5, 3, "mae_sqrt"), (41 * 41 + 5, 0, "")],
)
def test_each_operation_is_judged_on_its_own_grid_alone(
    row: int, column: int, counted: str
) -> None:
    _, results = draw("extrapolation")
    wrong = results.clone()
    wrong[1, row, column] += 1
    found = errors(wrong, results)
    for name, value in found.items():
        assert (value[1] > 0) == (name == counted or (name == "mae" and counted != ""))
        assert value[0] == value[2] == 0


def test_the_best_constant_is_the_median_of_each_operation_on_its_own_grid() -> None:
    setting = NPUSmallSetting()
    batch = TASK.sample(setting, "extrapolation", Streams("npu_small", [0, 1], "extrapolation"))
    found = TASK.references(setting, "extrapolation", batch, Streams("npu_small", [0, 1], "x"))
    grid = np.arange(41) * 0.2 - 4.1
    x, y = np.meshgrid(grid, grid)
    roots = np.sqrt(np.repeat(np.arange(1, 41) / 10, 40))
    errors = {
        name: np.abs(values - np.median(values)).mean()
        for name, values in {"add": x + y, "mul": x * y, "div": x / y, "sqrt": roots}.items()
    }
    for name, error in errors.items():
        assert found[f"constant_mae_{name}"].tolist() == pytest.approx([error] * 2, rel=1e-5)
    assert found["constant_mae"].tolist() == pytest.approx([np.mean([*errors.values()])] * 2)


def test_a_real_npu_below_a_nau_can_compute_all_four() -> None:
    network: Any = TASK.build(NPUSmallSetting(layer="real_npu"))
    unit, head = network[0][0], network[1]
    assert isinstance(unit, RealNPU)
    assert isinstance(head, NAU)
    powers = [[1, 0], [0, 1], [1, 1], [1, -1], [0.5, 0], [0, 0]]
    sums = [[1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]]
    with torch.no_grad():
        unit.W.copy_(torch.tensor(powers))
        unit.G.fill_(1)
        head.W.copy_(torch.tensor(sums))
        for split in ("interpolation", "extrapolation"):
            pairs, results = draw(split)
            found = errors(network(pairs), results, split)
            assert all(max(value) < 1e-5 for value in found.values())


def test_the_unbounded_head_has_no_limits_and_the_start_of_the_published_code() -> None:
    setting = NPUSmallSetting(layer="npu", head="unbounded_nau")
    heads: list[Any] = [TASK.build(setting)[1] for _ in range(10)]  # type: ignore[index]
    limit = (6 / (6 + 4)) ** 0.5  # Glorot and Bengio (2010): above the NAU's own limit of 1/2
    largest = max(head.W.abs().max().item() for head in heads)
    assert 0.9 * limit < largest <= limit
    head = heads[0]
    assert isinstance(head, NAU)
    assert head.bounds == {}
    with torch.no_grad():
        head.W.fill_(3.0)
    torch.testing.assert_close(head(torch.ones(1, 6)), torch.full((1, 4), 18.0))


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"layer": "npu"}, 2 * 12 + 2 + 24),
        ({"layer": "nmu", "hidden_layers": 2}, 12 + 36 + 24),
        ({"layer": "nau_nmu"}, 12 + 36 + 24),  # a pair has two layers at least
        ({"layer": "nalu", "head": "own"}, 3 * (12 + 24)),
        ({"layer": "sigmoid", "head": "own", "hidden": 50, "hidden_layers": 2}, 150 + 2550 + 204),
    ],
)
def test_networks(fields: dict[str, Any], count: int) -> None:
    network = TASK.build(NPUSmallSetting(**fields))
    assert sum(value.numel() for value in network.parameters()) == count
    assert network(torch.ones(5, 2)).shape == (5, 4)


def test_a_range_that_has_no_root_or_quotient_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"train_range=0\.0:2\.0 must lie above 0"):
        NPUSmallSetting(train_range=(0.0, 2.0))


def test_the_laptop_preset_is_the_published_protocol() -> None:
    points = expand(sweep_of(TASK).presets["laptop"], NPUSmallSetting, {})
    assert {len(point.seeds) for point in points} == {20}
    found = {}
    for point in points:
        setting = point.setting
        assert isinstance(setting, NPUSmallSetting)
        assert (setting.steps, setting.batch, setting.train_range) == (20_000, 100, (0.1, 2.0))
        shape = (setting.head, setting.hidden_layers, setting.hidden)
        found[setting.layer] = (*shape, setting.optimiser, setting.lr, setting.penalty)
    unit = ("unbounded_nau", 1, 6, "adam", 0.005, None)
    assert found == {
        **dict.fromkeys(("npu", "real_npu", "nmu"), unit),
        "nalu": ("own", 1, 6, "rmsprop", 0.005, None),
        "inalu": ("own", 1, 6, "rmsprop", 0.001, "size:1e-05:linear:10000:10001"),
        "sigmoid": ("own", 2, 50, "adam", 0.005, None),
    }
    (table,) = TASK.tables
    assert table.publication is not None
    places = {(row, measure) for row in found for measure in ("add", "mul", "div", "sqrt")}
    assert {(value.row, value.measure) for value in table.publication.values} == places
    assert {measure for _, measure in places} < set(table.measures)


@pytest.mark.parametrize(
    ("layer", "operation", "text"),
    [
        ("npu", "add", "0.2"),
        ("real_npu", "mul", "0.066"),
        ("nmu", "div", "11.4"),
        ("inalu", "sqrt", "0.049"),
        ("sigmoid", "add", "2.10"),
    ],
)
def test_published_errors_are_as_printed(layer: str, operation: str, text: str) -> None:
    (table,) = TASK.tables
    assert table.publication is not None
    value = table.publication.lookup(layer, "", operation)
    assert value is not None
    assert value.text == text
