"""Success by likeness: a limit from the reference's own seeds, and what counts among them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError
from scipy import stats

from nalu_ray.results.analysis.cells import TableCell
from nalu_ray.results.analysis.groups import Sweep
from nalu_ray.results.analysis.statistics import upper_mean_limit
from nalu_ray.results.analysis.table import build, build_each
from nalu_ray.results.output.captions import captions, statistics_note
from nalu_ray.results.specs import Axis, Measure, Selection, TableSpec
from tests.results.samples import frame, run

AT_10 = Measure(metric="mse_10", split="test", label="at 10", statistic="rate", format=".0f")
TABLE = TableSpec(
    name="like",
    caption="Like the reference.",
    rows=Axis(field="layer", labels={"exact": "True sum", "nau": "NAU"}),
    columns=Axis(field="rz", labels={"true": "with", "false": "without"}),
    measures={"10": AT_10},
    models="rows",
    selection=Selection(metric="mse", split="validation"),
    solved_like="exact",
    where={"op": "sum"},
)
REFERENCE = [1.0, 1.2, 1.4]  # mean 1.2, deviation .2, t 6.9646: the limit is 2.0042


def runs(layer: str, errors: list[float], *, inner: float = 1.0, **more: Any) -> pd.DataFrame:
    """A seed per test error; validation selects step 200 of three, at which it is read."""
    setting = {"layer": layer, "op": "sum", "rz": False, **more}
    return frame(
        *(
            run(
                setting,
                seed,
                {
                    ("mse", "validation"): {100: 3 * inner, 200: inner, 300: 2 * inner},
                    ("mse_10", "test"): {100: error + 5, 200: error, 300: 0.1},
                },
            )
            for seed, error in enumerate(errors)
        )
    )


def cell(rows: pd.DataFrame, layer: str = "nau", rz: str = "false") -> TableCell:
    return build(TABLE, rows).cells[layer, rz, "10"]


def solved(found: TableCell) -> tuple[int, int]:
    assert found.rate is not None
    return found.rate.successes, found.rate.n


def test_the_limit_is_that_of_a_one_sided_interval() -> None:
    assert upper_mean_limit(REFERENCE) == pytest.approx(1.2 + 6.964557 * 0.2 / 3**0.5, rel=1e-6)
    values = [0.3, 0.7, 0.2, 0.9, 1.4]
    expected = stats.ttest_1samp(values, 0, alternative="less").confidence_interval(0.99).high
    assert upper_mean_limit(values) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="two values"):
        upper_mean_limit([1.0])


def test_a_run_is_solved_below_the_references_limit_at_the_selected_step() -> None:
    rows = frame(runs("exact", REFERENCE), runs("nau", [0.5, 2.0, 2.01, 9.0]))
    assert solved(cell(rows)) == (2, 4)
    assert solved(cell(rows, "exact")) == (3, 3)
    with_rz = frame(rows, runs("nau", [0.5, 0.6], rz=True))
    assert solved(cell(with_rz, rz="true")) == (2, 2)
    assert cell(rows).solved_at == 200


def test_reference_seeds_that_failed_do_not_loosen_the_limit() -> None:
    lost = run({"layer": "exact", "op": "sum", "rz": False}, 9, {}, "diverged: x")
    stuck = runs("exact", [*REFERENCE, 800.0])
    stuck.loc[(stuck["seed"] == 3) & (stuck["split"] == "validation"), "value"] *= 11
    rows = frame(stuck, lost, runs("nau", [2.0, 2.01]))
    assert solved(cell(rows)) == (1, 2)
    assert solved(cell(rows, "exact")) == (3, 5)


def test_two_settings_of_the_reference_give_one_limit() -> None:
    rows = frame(
        runs("exact", [50.0, 60.0, 70.0], inner=2.0, lr=0.1),
        runs("exact", REFERENCE, lr=0.01),
        runs("nau", [2.0, 2.01]),
    )
    assert solved(cell(rows)) == (1, 2)


def test_without_three_reference_seeds_nothing_is_said() -> None:
    few = cell(frame(runs("exact", REFERENCE[:2]), runs("nau", [0.1])))
    assert (few.rate, few.text) == (None, "–")
    assert cell(runs("nau", [0.1])).rate is None


def test_other_rows_are_not_in_the_table() -> None:
    rows = frame(runs("exact", REFERENCE), runs("nau", [0.1, 9.0]))
    rows = frame(rows, runs("nau", [0.1] * 5, op="product"), runs("exact", [9.0] * 9, op="product"))
    (table,) = build_each(TABLE, [(Sweep("laptop"), rows)])
    assert solved(table.cells["nau", "false", "10"]) == (1, 2)
    assert build_each(TABLE, [(Sweep("laptop"), runs("nau", [1.0], op="product"))]) == []


def test_the_caption_says_what_solved_means() -> None:
    table = build(TABLE, frame(runs("exact", REFERENCE), runs("nau", [0.5])))
    rule = "error at the selected step is below the upper 99 % limit of the mean of True sum"
    assert rule in " ".join(captions(table))
    assert rule in statistics_note(table)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"solved_below": "threshold"}, "one rule of success"),
        ({"solved_like": "other"}, "is not a labelled row"),
        (
            {"measures": {"10": AT_10.model_copy(update={"better": "higher"})}},
            "needs a measure with better=lower",
        ),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TableSpec.model_validate({**TABLE.model_dump(), **changes})
