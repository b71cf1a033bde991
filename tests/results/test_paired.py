"""Differences of two models, seed by seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nalu_ray.results.analysis.paired import Paired, paired
from nalu_ray.results.analysis.table import build
from nalu_ray.results.output.captions import statistics_note
from nalu_ray.results.output.formats import tidy
from nalu_ray.results.output.grid import statistics
from nalu_ray.results.specs import Axis, Measure, Selection, TableSpec
from tests.results.samples import frame, mse, run

OUTER = Measure(metric="mse", split="extrapolation", label="E", format=".1f", scale=10)
RULE = Selection()
NAC, LINEAR = {"last": "nac", "lr": 0.1}, {"last": "linear", "lr": 0.1}


def rows(nac: dict[int, float], linear: dict[int, float], *lost: str) -> pd.DataFrame:
    """Each seed's error at its selected step, 50; at the others it is another."""
    return frame(
        *(
            run(
                model, seed, mse({50: 1, 100: 2}, {50: value, 100: 77 + seed}),
                "diverged: at step 60" if model["last"] in lost else None,
            )
            for model, values in ((NAC, nac), (LINEAR, linear))
            for seed, value in values.items()
        )
    )  # fmt: skip


def difference(stored: pd.DataFrame, **changes: Any) -> Paired:
    given = {"measure": OUTER, "selection": RULE, **changes}
    return paired(stored, "last", "nac", "linear", **given)


def test_seeds_that_both_have_at_their_selected_step() -> None:
    stored = rows({0: 5, 2: 9, 7: 1, 3: 4}, {7: 3, 0: 4, 3: 4.5, 9: 100})
    found = difference(stored)
    assert found.seeds == (0, 3, 7)
    assert found.values.tolist() == pytest.approx([10, -5, -20])
    interval = found.interval
    assert (interval.estimate, interval.low, interval.high) == pytest.approx((-5, -20, 10))
    assert interval.confidence == pytest.approx(0.75)
    back = paired(stored, "last", "linear", "nac", measure=OUTER, selection=RULE)
    assert back.values.tolist() == (-found.values).tolist()
    odd = stored.set_index(np.zeros(len(stored), dtype=int))
    assert difference(odd).values.tolist() == found.values.tolist()
    last = difference(stored, selection=Selection(step="last"))
    assert last.values.tolist() == [0, 0, 0]


def test_the_spread_that_seeds_share_is_not_in_it() -> None:
    shared = np.random.default_rng(0).normal(100, 30, 12)
    stored = rows(dict(enumerate(shared - 1)), dict(enumerate(shared)))
    assert difference(stored).values == pytest.approx(np.full(12, -10))


@pytest.mark.parametrize(("better", "worst"), [("lower", math.inf), ("higher", -math.inf)])
def test_a_lost_seed_is_worse_than_any_and_two_are_alike(better: Any, worst: float) -> None:
    measure = OUTER.model_copy(update={"better": better})
    one = rows({0: 5, 1: 6}, {0: 5, 1: 6}, "nac")
    assert difference(one, measure=measure).values.tolist() == [worst, worst]
    both = rows({0: 5}, {0: 6}, "nac", "linear")
    assert difference(both, measure=measure).values.tolist() == [0]


def test_settings_that_differ_in_more_are_not_mixed() -> None:
    stored = rows({0: 5, 1: 6}, {0: 4, 1: 4})
    other = run({**NAC, "lr": 0.5}, 0, mse({50: 0.1}, {50: 1}))
    with pytest.raises(ValueError, match="differ in lr:"):
        difference(frame(stored, other))
    # the one with the lowest median selector
    found = difference(frame(stored, other), dependent=["lr"])
    assert (found.seeds, found.values.tolist()) == ((0,), [-30])
    harder = run({**LINEAR, "min_distance": 28}, 0, mse({50: 1}, {50: 1}))
    with pytest.raises(ValueError, match="differ in min_distance:"):
        difference(frame(stored, harder), dependent=["lr"])
    third = run({"last": "tanh", "lr": 0.5}, 0, mse({50: 1}, {50: 1}))
    assert difference(frame(stored, third)).seeds == (0, 1)


def test_mistakes_are_named() -> None:
    stored = rows({0: 5}, {1: 4})
    with pytest.raises(ValueError, match="no seed in common"):
        difference(stored)
    with pytest.raises(ValueError, match="mae of extrapolation was not logged"):
        difference(stored, measure=OUTER.model_copy(update={"metric": "mae"}))
    with pytest.raises(ValueError, match=r"unknown last 'nack'.*Allowed: linear, nac"):
        paired(stored, "last", "nack", "linear", measure=OUTER, selection=RULE)
    with pytest.raises(ValueError, match=r"unknown field 'lats'. Did you mean 'last'"):
        paired(stored, "lats", "nac", "linear", measure=OUTER, selection=RULE)
    with pytest.raises(ValueError, match="extrapolation"):
        difference(stored, selection=RULE.model_copy(update={"split": "extrapolation"}))


def spec(columns: Axis | None = None) -> TableSpec:
    return TableSpec(
        name="last",
        caption="",
        rows=Axis(field="last", labels={"linear": "Wx", "nac": "NAC"}),
        columns=columns,
        measures={"outer": OUTER},
        layout="columns" if columns is None else "blocks",
        models="rows",
        paired_with="nac",
    )


def test_a_table_has_the_differences_to_one_model() -> None:
    stored = rows({0: 5, 1: 6, 2: 7}, {0: 4, 1: 4, 3: 9})
    apart = run({"last": "tanh", "lr": 0.5}, 0, mse({50: 1}, {50: 1}))
    elsewhere = run({"last": "tanh_bias", "lr": 0.1}, 8, mse({50: 1}, {50: 1}))
    table = build(spec(), frame(stored, apart, elsewhere))
    found = {row: cell.difference for (row, _, _), cell in table.cells.items()}
    assert found["nac"] is found["tanh"] is found["tanh_bias"] is None
    assert found["linear"] is not None
    assert (found["linear"].low, found["linear"].high) == pytest.approx((-20, -10))
    plain = statistics(table)
    place = plain.head.index("difference [95 %]")
    texts = {line[0]: line[place] for line in plain.lines}
    assert texts == {"Wx": "-15.0 [-20.0, -10.0]*", "NAC": "", "tanh": "", "tanh_bias": ""}
    assert "difference: from NAC, seed by seed" in statistics_note(table)
    assert "difference_low" in tidy(table).splitlines()[0]


def test_differences_are_within_a_column() -> None:
    parts = [
        run({"last": last, "op": op}, seed, mse({50: 1}, {50: value + seed**2}))
        for (last, op), value in {
            ("nac", "add"): 1, ("nac", "mul"): 2, ("linear", "add"): 4, ("linear", "mul"): 9,
        }.items()
        for seed in range(6)
    ]  # fmt: skip
    table = build(spec(Axis(field="op")), frame(*parts))
    for op, expected in (("add", 30), ("mul", 70)):
        found = table.cells["linear", op, "outer"].difference
        assert found is not None
        assert (found.low, found.high) == pytest.approx((expected, expected))


def test_without_such_a_model_there_is_no_column() -> None:
    table = build(spec(), rows({}, {0: 4, 1: 4}))
    assert "difference [95 %]" not in statistics(table).head
    assert "difference" not in statistics_note(table)
