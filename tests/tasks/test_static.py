"""Static arithmetic: what each set guarantees, and the figures that need no training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nalu_ray.seeding import Streams, entropy
from nalu_ray.sweep.presets import expand, sweep_of
from nalu_ray.task import Batch
from nalu_ray.tasks import static
from nalu_ray.tasks._operands import OPERATIONS, sections
from nalu_ray.tasks.static import TASK, StaticSetting, protocols
from nalu_ray.tasks.static.data import _operands, _scattered

SEEDS = (0, 3, 8)
CASES: list[dict[str, Any]] = [
    {},
    {"section": 25, "overlap": 12, "train_range": (1, 2), "test_range": (2, 6)},
    {"section": 2, "train_range": (0, 1), "test_range": (0.5, 2)},
    {"section": 5, "train_range": (-1, 1), "test_range": (-3, 3), "op": "sub"},
    {"inputs": 20, "section": 10, "train_range": (1, 2), "test_range": (0.1, 1)},
    {"steps": 1, "batch": 1},
    {"steps": 2, "batch": 3, "shared_inputs": True},
]

POSSIBLE = [
    (case, op)
    for case in CASES
    for op in static.ROWS.labels
    if min(case.get("train_range", (0,))) >= 0 or op not in ("div", "sqrt")
]


def small(**values: Any) -> StaticSetting:
    return StaticSetting(**{"steps": 50, "test_size": 64, "batch": 16, **values})


def observed(setting: StaticSetting) -> torch.Tensor:
    """a, b and y of every training example, (R, N, 3)."""
    streams = Streams("static", SEEDS, "train", shared=setting.shared_inputs)
    seen = []
    for _ in range(setting.steps):
        batch = TASK.sample(setting, "train", streams)
        a, b = _operands(batch.inputs[0], setting, SEEDS, batch.shared)
        seen.append(torch.stack([a, b, OPERATIONS[setting.op].apply(a, b)], dim=2))
    return torch.cat(seen, dim=1)


@pytest.mark.parametrize(("case", "op"), POSSIBLE, ids=str)
def test_interpolation_stays_within_what_training_showed(case: dict[str, Any], op: str) -> None:
    setting = small(**{**case, "op": op})
    values = observed(setting)
    batch = TASK.sample(setting, "interpolation", Streams("static", SEEDS, "interpolation"))
    a, b = _operands(batch.inputs[0], setting, SEEDS)
    for index, tested in enumerate((a, b, batch.targets[..., 0])):
        assert (tested <= values[..., index].amax(1, keepdim=True)).all()
        assert (tested >= values[..., index].amin(1, keepdim=True)).all()


@pytest.mark.parametrize(("case", "op"), POSSIBLE, ids=str)
def test_extrapolation_always_leaves_what_training_can_produce(
    case: dict[str, Any], op: str
) -> None:
    setting = small(**{**case, "op": op})
    low, high = (setting.section * bound for bound in setting.train_range)
    batch = TASK.sample(setting, "extrapolation", Streams("static", SEEDS, "extrapolation"))
    a, b = _operands(batch.inputs[0], setting, SEEDS)
    beyond = (a < low) | (a > high)
    if op not in ("square", "sqrt"):
        beyond |= (b < low) | (b > high)
    assert beyond.all()


@pytest.mark.parametrize("op", [*static.ROWS.labels, "reciprocal"])
def test_targets_are_the_operation_on_the_two_sums(op: str) -> None:
    setting = small(op=op, inputs=30, section=4)
    batch = TASK.sample(setting, "train", Streams("static", SEEDS, "train"))
    x, (first, second) = batch.inputs[0].numpy().astype(float), sections("static", SEEDS, 30, 4, 0)
    expected = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
        "square": lambda a, b: a**2, "sqrt": lambda a, b: a**0.5,
        "reciprocal": lambda a, b: 1 / a,
    }[op]  # fmt: skip
    for k in range(len(SEEDS)):
        a, b = (x[k][:, index[k].numpy()].sum(1) for index in (first, second))
        np.testing.assert_allclose(batch.targets[k, :, 0], expected(a, b), rtol=1e-5, atol=1e-5)


@settings(max_examples=50)
@given(st.data())
def test_sections_are_contiguous_inside_and_overlap_exactly(data: st.DataObject) -> None:
    section = data.draw(st.integers(1, 8))
    overlap = data.draw(st.integers(0, section))
    inputs = data.draw(st.integers(2 * section - overlap, 30))
    first, second = sections("static", tuple(range(20)), inputs, section, overlap)
    for index in (first, second):
        assert index.shape == (20, section)
        assert index.min() >= 0
        assert index.max() < inputs
        assert (index.diff(dim=1) == 1).all()
    shared = [len(set(a) & set(b)) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    assert shared == [overlap] * 20


def drawn(setting: StaticSetting, seeds: tuple[int, ...] = SEEDS) -> Batch:
    return TASK.sample(setting, "extrapolation", Streams("static", seeds, "extrapolation"))


def solved(setting: StaticSetting, batch: Batch) -> list[float]:
    streams = Streams("static", SEEDS, "extrapolation")
    errors = TASK.references(setting, "extrapolation", batch, streams)["solved_mse"]
    found: list[float] = errors.tolist()
    return found


def test_nested_operands_are_the_first_two_and_all_four_inputs() -> None:
    setting = small(op="mul", operands="nested", inputs=4, sets="plain", threshold="golden")
    for shared in (False, True):
        streams = Streams("static", SEEDS, "train", shared=shared)
        some = setting.model_copy(update={"shared_inputs": shared})
        batch = TASK.sample(some, "train", streams)
        x = batch.inputs[0]
        expected = x[..., :2].sum(2) * x.sum(2)
        torch.testing.assert_close(batch.targets[..., 0], expected.expand(3, -1))
    batch = drawn(setting)
    x = batch.inputs[0].double()
    a, total = x[..., :2].sum(2), x.sum(2)
    # weights of 1 - e for 1, and e for 0
    golden = (a + 1e-5 * (total - 2 * a)) * (1 - 1e-5) * total
    expected = (golden - a * total).square().mean(1)
    assert solved(setting, batch) == pytest.approx(expected.tolist(), rel=1e-6)


def test_scattered_operands_are_random_elements_of_each_seed() -> None:
    setting = small(
        op="sub", operands="scattered", sets="plain", train_range=(-3, 3), test_range=(-5, -3),
        solved_below=1e-5,
    )  # fmt: skip
    a, b = _scattered(tuple(range(200)), 100)
    in_a, in_b = (a < 100), (b < 100)
    assert not (in_a & in_b).any()
    assert in_a.double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert in_b.double().mean().item() == pytest.approx(0.25, abs=0.02)
    assert in_a[:, ::2].sum(1).unique().numel() > 5  # no contiguous halves
    batch = drawn(setting)
    assert solved(setting, batch) == [1e-5] * 3
    for k, seed in enumerate(SEEDS):
        x = batch.inputs[0][k]
        expected = x[:, in_a[seed]].sum(1) - x[:, in_b[seed]].sum(1)
        torch.testing.assert_close(batch.targets[k, :, 0], expected)
    alone = drawn(setting, (3,))
    assert torch.equal(batch.targets[1:2], alone.targets)
    assert all(len(set(part[0].tolist())) > 1 for part in _scattered((5,), 2))  # none is empty


def test_plain_inputs_may_be_normal() -> None:
    setting = small(sets="plain", distribution="normal", train_range=(-3, 3), test_range=(3, 4))
    for split, mean, deviation in (("train", 0, 1), ("extrapolation", 3.5, 1 / 6)):
        x = TASK.sample(setting, split, Streams("static", SEEDS, split)).inputs[0].double()
        assert (x - mean).abs().max() <= 3 * deviation + 1e-6
        assert x.std().item() == pytest.approx(0.9866 * deviation, rel=0.03)


def test_the_fourth_experiment_of_the_inalu() -> None:
    settings = [
        point.setting
        for point in expand(sweep_of(TASK).presets["inalu"], StaticSetting, {})
        if isinstance(point.setting, StaticSetting)
    ]
    assert len(settings) == 16
    for each in settings:
        assert (each.layer, each.operands, each.inputs, each.hidden) == (
            "inalu", "scattered", 100, 2,
        )  # fmt: skip
        beyond = (3, 4) if each.distribution == "normal" else (-5, -3)
        assert (each.train_range, each.test_range, each.solved_below) == ((-3, 3), beyond, 1e-5)
        assert (each.optimiser, each.lr, each.batch, each.steps) == ("rmsprop", 0.01, 64, 100_000)
    for spec in protocols.INALU:
        assert spec.publication is not None
        assert spec.columns is not None
        places = {(value.row, value.column) for value in spec.publication.values}
        assert places == {(row, op) for row in spec.rows.labels for op in spec.columns.labels}
    normal = protocols.INALU[1].publication
    assert normal is not None
    assert normal.values[5].text == "30%"


def test_sections_differ_between_seeds_and_stay_within_one() -> None:
    first, second = sections("static", tuple(range(50)), 100, 10, 0)
    assert len({tuple(row) for row in torch.cat([first, second], dim=1).tolist()}) > 40
    alone, _ = sections("static", (7,), 100, 10, 0)
    assert torch.equal(first[7], alone[0])
    assert (first[:, 0] < second[:, 0]).float().mean().item() == pytest.approx(0.5, abs=0.25)


def test_random_reference_is_the_error_of_an_untrained_linear_network() -> None:
    setting = small(op="mul", test_size=500)
    streams = Streams("static", SEEDS, "interpolation")
    batch = TASK.sample(setting, "interpolation", streams)
    found = TASK.references(setting, "interpolation", batch, streams)["random_mse"]
    for k, seed in enumerate(SEEDS):
        torch.manual_seed(entropy("static", seed, "reference") % 2**63)
        network = torch.nn.Sequential(torch.nn.Linear(100, 2), torch.nn.Linear(2, 1))
        with torch.no_grad():
            error = (network(batch.inputs[0][k]) - batch.targets[k]).square().mean().item()
        assert found[k].item() == pytest.approx(error, rel=1e-4)
    assert "solved_mse" not in TASK.references(setting, "interpolation", batch, streams)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"section": 60}, ["section=60", "inputs=100"]),
        ({"overlap": 11}, ["overlap=11", "section=10"]),
        ({"hidden": 0}, ["hidden", "greater than or equal to 1"]),
        ({"lr": 0}, ["lr", "greater than 0"]),
        ({"train_range": "1:1"}, ["train_range", "empty range"]),
        ({"train_range": "0:3", "test_range": "1:2"}, ["test_range", "never leaves"]),
        ({"op": "sqrt", "test_range": "-2:2"}, ["op=sqrt"]),
        ({"op": "div", "train_range": "-1:1"}, ["op=div"]),
        ({"op": "reciprocal", "test_range": "-2:2"}, ["op=reciprocal", "cross 0"]),
        ({"distribution": "normal"}, ["distribution=normal", "sets=plain"]),
        ({"operands": "scattered"}, ["operands=scattered", "sets=plain"]),
        ({"operands": "nested", "sets": "plain"}, ["operands=nested", "inputs=4", "inputs=100"]),
        ({"solved_below": 0}, ["solved_below", "greater than 0"]),
        ({"test_signs": True}, ["test_signs=true", "sets=plain"]),
        ({"test_signs": True, "sets": "plain", "op": "sqrt"}, ["op=sqrt", "-3"]),
        ({"sets": "odd"}, ["sets", "separated", "plain"]),
        ({"layer": "nalo"}, ["nalo", "Did you mean 'nalu'"]),
        ({"lr": "fast"}, ["lr", "number"]),
        ({"weight_init": "foo"}, ["weight_init", "glorot", "foo"]),
        ({"gate_init": "0.2:bar"}, ["gate_init", "glorot", "bar"]),
    ],
)
def test_impossible_settings_are_named(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        StaticSetting.model_validate(values)
    for word in words:
        assert word in str(caught.value)


def test_table_specs_name_only_published_rows_and_our_own() -> None:
    numbers = [table.number for table in static.TASK.tables]
    assert [number for number in numbers if number] == [7, 1, 6]


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"options": "foo:1"}, TypeError, "no option 'foo'"),
        ({"options": "epsilon:-1"}, ValueError, "epsilon"),
        ({"gate_init": "1:2:3"}, ValueError, "each of 2 layers"),
    ],
)
def test_what_only_the_layer_can_refuse_is_refused_before_the_run(
    values: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        TASK.check(StaticSetting.model_validate({"layer": "nalu", **values}))
    TASK.check(StaticSetting(layer="nalu"))


def test_plain_sets_are_as_their_ranges_give_them() -> None:
    setting = small(
        sets="plain", op="mul", train_range=(1, 2), test_range=(1.5, 6), inputs=10, section=2
    )
    for split, (low, high) in (("interpolation", (1, 2)), ("extrapolation", (1.5, 6))):
        streams = Streams("static", SEEDS, split)
        x = TASK.sample(setting, split, streams).inputs[0].numpy()
        assert x.shape == (3, 64, 10)
        assert low <= x.min() < low + 0.05
        assert high - 0.05 < x.max() <= high
        assert x.mean() == pytest.approx((low + high) / 2, abs=0.1)
        alone = TASK.sample(setting, split, Streams("static", SEEDS[1:2], split)).inputs[0].numpy()
        np.testing.assert_array_equal(alone[0], x[1])


def test_test_signs_mirror_each_input_of_extrapolation() -> None:
    fields = {"sets": "plain", "op": "mul", "train_range": (1, 2), "test_range": (2, 6)}
    plain, signed = (small(**fields, test_signs=signs) for signs in (False, True))
    sets = [
        TASK.sample(setting, "extrapolation", Streams("static", SEEDS, "extrapolation")).inputs[0]
        for setting in (plain, signed)
    ]
    np.testing.assert_array_equal(sets[1].abs(), sets[0])
    assert (sets[1] < 0).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert (sets[1] < 0).any(2).all()  # per input, not per example
    inside = TASK.sample(signed, "interpolation", Streams("static", SEEDS, "interpolation"))
    assert ((inside.inputs[0] >= 1) & (inside.inputs[0] <= 2)).all()


def test_the_threshold_is_a_field_of_the_setting() -> None:
    fields = {"sets": "plain", "op": "sub", "section": 25, "overlap": 12, "test_size": 2000}
    ranges = {"train_range": (1, 2), "test_range": (2, 6)}
    solved = {}
    for rule in ("adding", "golden"):
        setting = small(**fields, **ranges, threshold=rule)
        streams = Streams("static", SEEDS, "extrapolation")
        batch = TASK.sample(setting, "extrapolation", streams)
        solved[rule] = TASK.references(setting, "extrapolation", batch, streams)["solved_mse"]
    assert solved["adding"].tolist() == pytest.approx([1.60e-5] * 3, rel=0.03)
    assert solved["golden"].tolist() == pytest.approx([1.38e-8] * 3, rel=0.1)


def test_fields_of_the_protocol_keep_the_ids_of_earlier_settings() -> None:
    assert StaticSetting().id == StaticSetting(sets="separated", threshold="adding").id
    assert StaticSetting().id != StaticSetting(sets="plain").id
    assert StaticSetting().id != StaticSetting(threshold="golden").id


@pytest.mark.parametrize("op", ["div", "reciprocal"])
@pytest.mark.parametrize("operands", ["sections", "scattered"])
def test_no_divisor_is_exactly_zero(
    op: str, operands: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = small(
        op=op, operands=operands, sets="plain", inputs=4, section=1,
        train_range=(-1, 1), test_range=(-3, 3),
    )  # fmt: skip
    batch = TASK.sample(setting, "train", Streams("static", SEEDS, "train"))

    def zeros(streams: Streams, shape: Any, *_: Any) -> Any:
        x = batch.inputs[0].numpy().copy()
        x[:, :2] = 0
        return x

    monkeypatch.setattr(Streams, "uniform", zeros)
    again = TASK.sample(setting, "train", Streams("static", SEEDS, "train"))
    assert again.targets.isfinite().all()
    x = again.inputs[0]
    assert (x[:, :2].count_nonzero(2) == 1).all()
    assert x[:, :2].amax().item() == pytest.approx(2 / 2**24)
    assert torch.equal(x[:, 2:], batch.inputs[0][:, 2:])
    assert torch.equal(again.targets[:, 2:], batch.targets[:, 2:])
