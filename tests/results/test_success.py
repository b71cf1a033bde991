"""Success rates, steps of first success and sparsity as cells and curves, in every format."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError
from rich.console import Console

from nalu_ray.results.analysis import swept
from nalu_ray.results.analysis.groups import Sweep, problems, shows
from nalu_ray.results.analysis.statistics import wilson_interval
from nalu_ray.results.analysis.table import Table, TableCell, build
from nalu_ray.results.output.captions import captions
from nalu_ray.results.output.figures import draw
from nalu_ray.results.output.formats import FORMATS, markdown
from nalu_ray.results.output.grid import spread, statistics
from nalu_ray.results.output.page import charts
from nalu_ray.results.output.terminal import show
from nalu_ray.results.publication import Publication, PublishedValue
from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec
from tests.results.samples import Logs, frame, run

OF = {"metric": "mse", "split": "extrapolation"}
PUBLISHED = Publication(
    source="Somebody (2020)",
    values=(
        PublishedValue(row="nau", column="add", measure="rate", text="100"),
        PublishedValue(row="nau", column="add", measure="solved_at", text="1.8e4"),
    ),
)
TABLE = TableSpec(
    name="rates",
    caption="Rates.",
    rows=Axis(field="layer", labels={"nau": "NAU", "nalu": "NALU"}),
    columns=Axis(field="op", labels={"add": "a + b"}),
    measures={
        "rate": Measure(**OF, label="solved in %", statistic="rate", format=".0f"),
        "solved_at": Measure(**OF, label="solved at", statistic="solved_at", format=".3g"),
        "sparsity": Measure(
            metric="sparsity_error", split="weights", label="sparsity", statistic="median",
            format=".1e",
        ),
    },
    models="rows",
    solved_below="threshold",
    publication=PUBLISHED,
)  # fmt: skip


def logs(solved: int | None, *, inner: float = 1e-3, sparsity: float = 0.25) -> Logs:
    """Three evaluations, of which the second is selected: solved from step ``solved`` on."""
    outer = {
        step: 1e-5 if solved is not None and step >= solved else 9.0 for step in (100, 200, 300)
    }
    return {
        ("mse", "interpolation"): {100: 1.0, 200: inner, 300: 2.0},
        ("mse", "extrapolation"): outer,
        ("threshold", "extrapolation"): {0: 1e-4},
        ("sparsity_error", "weights"): {0: 0.5, 100: 0.4, 200: sparsity, 300: 0.1},
    }


def runs(layer: str, ends: list[int | None], lost: int = 0, **more: Any) -> pd.DataFrame:
    """A seed per element of ``ends``, the step from which it is solved; then ``lost`` seeds."""
    setting = {"layer": layer, "op": "add", "lr": 0.001, **more}
    inner = 1e-3 / (1 + 1e3 * setting["lr"])
    seeds = [
        run(setting, seed, logs(end, inner=inner, sparsity=0.01 * seed))
        for seed, end in enumerate(ends)
    ]
    for seed in range(len(ends), len(ends) + lost):
        seeds.append(run(setting, seed, {("threshold", "extrapolation"): {0: 1e-4}}, "diverged: x"))
    return frame(*seeds)


def rows() -> pd.DataFrame:
    # solved at the selected step 200: seven of ten; at 300 only: too late
    nau = runs("nau", [100, 100, 200, 200, 200, 200, 100, 300, None], lost=1)
    return frame(nau, runs("nalu", [None] * 6))


def cells(table: Table, layer: str = "nau") -> dict[str, TableCell]:
    return {key: table.cells[layer, "add", key] for key in table.spec.measures}


def test_a_rate_is_of_all_seeds_with_wilsons_interval() -> None:
    cell = cells(build(TABLE, rows()))["rate"]
    low, high = (100 * bound for bound in wilson_interval(7, 10))
    assert (cell.value, cell.low, cell.high) == (pytest.approx(70), low, high)
    assert cell.text == "70 [40, 89]"  # Wilson, 7 of 10: .397 to .892
    assert (cell.n, cell.diverged, cell.median, cell.confidence) == (10, 1, None, 0.95)
    assert cell.rate is not None
    assert (cell.rate.successes, cell.rate.n) == (7, 10)


def test_solved_at_is_the_median_first_step_of_the_solved_seeds_alone() -> None:
    """Steps 100, 100, 100, 200, 200, 200, 200: the interval of seven values is their range."""
    cell = cells(build(TABLE, rows()))["solved_at"]
    assert (cell.value, cell.median, cell.low, cell.high) == (200, 200, 100, 200)
    assert cell.text == "200 [100, 200]"
    assert cell.confidence == pytest.approx(1 - 2 / 2**7)


def test_few_solved_seeds_are_marked() -> None:
    cell = cells(build(TABLE, runs("nau", [100, 200, None])))["solved_at"]
    assert cell.text == "150 [100, 200]*"


def test_unsolved_cells_have_a_rate_of_zero_and_no_step() -> None:
    table = build(TABLE, rows())
    unsolved = cells(table, "nalu")
    assert unsolved["rate"].text == "0 [0, 39]"  # Wilson, 0 of 6: to .390
    assert (unsolved["solved_at"].value, unsolved["solved_at"].text) == (None, "never")
    assert [cells(table)[key].bold for key in TABLE.measures] == [True, False, False]


def test_no_rate_is_the_best_where_nothing_is_solved() -> None:
    table = build(TABLE, frame(runs("nau", [None] * 3), runs("nalu", [None] * 6)))
    assert not any(cells(table, layer)["rate"].bold for layer in ("nau", "nalu"))


def test_a_cell_whose_seeds_all_failed_is_a_rate_of_zero() -> None:
    failed = frame(*(run({"layer": "nau", "op": "add"}, s, {}, "failed: x") for s in range(3)))
    cell = cells(build(TABLE, failed))["rate"]
    assert (cell.text, cell.failed) == ("0 [0, 56]", 3)


POOLED = TABLE.model_copy(
    update={
        "columns": None,
        "layout": "columns",
        "models": None,
        "measures": {"rate": TABLE.measures["rate"]},
        "pooled": "train_range",
        "problem": ("op", "train_range"),
        "publication": None,
    }
)


def test_a_pooled_rate_is_of_the_best_setting_of_each_value() -> None:
    small, large = {"train_range": "[0, 1]"}, {"train_range": "[1, 2]"}
    stored = frame(
        runs("nau", [200, 200, None], **small),  # 2 of 3
        runs("nau", [None] * 4, **large),  # not chosen: the other rate has a lower selector
        runs("nau", [200, None, None, None], lost=1, lr=0.01, **large),  # 1 of 5
        runs("nalu", [200] * 6, **small),
    )
    assert [label for label, _ in problems(POOLED, stored)] == [""]
    table = build(POOLED, stored)
    cell = table.cells["nau", "", "rate"]
    low, high = (100 * bound for bound in wilson_interval(3, 8))
    assert cell.rate is not None
    assert (cell.rate.successes, cell.rate.n, cell.n, cell.diverged) == (3, 8, 8, 1)
    assert (cell.value, cell.low, cell.high) == (37.5, low, high)
    assert cell.setting == ""
    assert table.cells["nalu", "", "rate"].value == 100
    said = " ".join(captions(table))
    assert "the share of all runs, those of one setting per train_range together" in said
    assert "6 to 8 runs per cell" in said
    # those without a value are a part, too
    unset = build(POOLED, frame(stored, runs("nau", [None] * 2, lr=0.1)))
    rate = unset.cells["nau", "", "rate"].rate
    assert rate is not None
    assert (rate.successes, rate.n) == (3, 10)


def test_only_rates_are_pooled() -> None:
    fields = POOLED.model_dump() | {"measures": TABLE.model_dump()["measures"]}
    with pytest.raises(ValidationError, match=r"measures\.solved_at must be a rate, not solved_at"):
        TableSpec(**fields)


def test_without_a_threshold_there_is_no_rate() -> None:
    unknown = rows()
    unknown = unknown[unknown["metric"] != "threshold"]
    assert cells(build(TABLE, unknown))["rate"] == TableCell(
        published=PUBLISHED.values[0].published()
    )


def test_sparsity_is_read_at_the_step_that_interpolation_selects() -> None:
    """0, 0.01 ... 0.08 at step 200, and a lost seed: the median of ten is between 0.04, 0.05."""
    cell = cells(build(TABLE, rows()))["sparsity"]
    assert cell.value == pytest.approx(0.045)
    assert cell.rate is None


def test_the_setting_is_chosen_by_interpolation_not_by_its_rate() -> None:
    better_inside = runs("nau", [None, 100, None], lr=0.01)
    cell = cells(build(TABLE, frame(rows(), better_inside)))["rate"]
    assert (cell.text, cell.setting) == ("33 [6, 79]", "lr=0.01")


@pytest.mark.parametrize("form", [*FORMATS, "terminal"])
def test_every_format_prints_rate_interval_step_and_published_value(form: str) -> None:
    table = build(TABLE, rows())
    if form == "terminal":
        console = Console(file=io.StringIO(), width=100)
        show(table, console)
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
    else:
        text = FORMATS[form](table).replace("\\[", "[").replace("\\]", "]").replace("{[}", "[")
    for part in ("70 [40, 89]", "200 [100, 200]", "0 [0, 39]", "never", "100", "1.8e4"):
        assert part in text, part
    assert "Somebody (2020)" in text
    if form != "csv":  # whose columns say it
        assert "(100)" in text
        assert "7/10 [40, 89]" in text


def test_rates_alone_of_as_many_seeds_are_not_said_twice() -> None:
    only = TABLE.model_copy(update={"measures": {"rate": TABLE.measures["rate"]}})
    same = build(only, frame(runs("nau", [100, 100, None]), runs("nalu", [None] * 3)))
    text = markdown(same, brief=True)
    assert "67 \\[21, 94\\]" in text  # Wilson, 2 of 3: .208 to .939
    assert "2/3" not in text
    assert "2/3" in markdown(same)
    other = markdown(build(only, rows()), brief=True)  # of 10 and of 6 seeds
    assert "7/10 \\[40, 89\\]" in other
    assert "*solved in %: solved of seeds \\[95 % interval in %\\]*" in other
    assert "*solved in %: median over seeds, solved" in markdown(build(TABLE, rows()), brief=True)


def test_what_stands_below_the_cells() -> None:
    table = build(TABLE, rows())
    said = " ".join(captions(table))
    assert '"solved in %": the share of seeds of one setting that solved it, with Wilson' in said
    assert "if its error at the selected step is below the threshold of success; setting" in said
    assert "never: no seed solved it" in said
    assert "In parentheses: Somebody (2020)." in said
    texts = [cell.text for part in spread(table).sections for x in part.lines for cell in x.cells]
    assert texts == [
        "7/10 [40, 89]",
        "0/6 [0, 39]",
        "200, 7/10 [40, 89]",
        "0/6 [0, 39]",
        "4.5e-02",
        "2.5e-02",
    ]
    plain = statistics(table)
    assert "solved [95 %]" in plain.head
    # the rate's line has the step of first success too
    place = plain.head.index("test")
    assert [line[place] for line in plain.lines] == ["solved in %", "sparsity"] * 2
    assert plain.lines[0][plain.head.index("solved at step")] == "200"


@pytest.mark.parametrize("statistic", ["rate", "solved_at"])
def test_a_rate_needs_a_threshold(statistic: Any) -> None:
    measure = Measure(**OF, label="x", statistic=statistic)
    with pytest.raises(ValidationError, match=f"measures.x: {statistic} needs solved_below"):
        TableSpec(
            name="t", caption="T.", rows=Axis(field="layer"), measures={"x": measure},
            layout="columns",
        )  # fmt: skip


# -- curves over a field -------------------------------------------------------------------------


FIGURE = FigureSpec(
    name="sizes",
    caption="Sizes.",
    **OF,
    x="inputs",
    lines=Axis(field="layer", labels={"nau": "NAU"}),
    statistic="rate",
    solved_below="threshold",
    x_label="inputs",
    y_label="success rate",
    problem=("inputs", "range"),
    publication=Publication(
        source="Somebody (2020)",
        values=(
            *(
                PublishedValue(row="nau", measure=x, text=y)
                for x, y in (("100", "98%"), ("1e1", "100%"), ("4", "96"), ("-2:2", "50"))
            ),
            PublishedValue(row="nalu", measure="4", text="1"),  # of another line
            PublishedValue(row="nau", column="mul", measure="4", text="2"),  # of another panel
        ),
    ),
)


def sized(values: dict[Any, list[int | None]], field: str = "inputs") -> pd.DataFrame:
    return frame(*(runs("nau", ends, **{field: value}) for value, ends in values.items()))


def test_a_rate_over_a_field_of_the_setting() -> None:
    (panel,) = swept.panels(FIGURE, sized({10: [100, 100], 100: [None, None], 4: [100, None]}))
    (curve,) = panel.curves
    assert (list(curve.x), list(curve.middle)) == ([4, 10, 100], [50, 100, 0])
    low, high = wilson_interval(2, 2)
    assert (curve.low[1], curve.high[1]) == (100 * low, 100 * high)
    assert (curve.seeds, panel.ticks) == (2, ())
    assert curve.published == ((4, 96), (10, 100), (100, 98))


def test_a_point_shows_the_setting_that_interpolates_best() -> None:
    worse = runs("nau", [None, None], inputs=10)
    better = runs("nau", [100, 100], inputs=10, lr=0.1)
    (panel,) = swept.panels(FIGURE, frame(worse, better))
    assert list(panel.curves[0].middle) == [100]


def test_values_that_are_no_numbers_stand_side_by_side() -> None:
    ranges = {"[10.0, 20.0]": [100], "[-2.0, 2.0]": [None]}
    figure = FIGURE.model_copy(update={"x": "range"})
    (panel,) = swept.panels(figure, sized(ranges, "range"))
    assert panel.ticks == ("-2:2", "10:20")
    assert list(panel.curves[0].x) == [0, 1]
    assert panel.curves[0].published == ((0, 50),)


WEIGHTS = FIGURE.model_copy(
    update={
        "x": "penalty",
        "x_part": 1,
        "log_x": True,
        "publication": Publication(
            source="Somebody (2020)",
            values=(
                PublishedValue(row="nau", measure="0", text="90%"),
                PublishedValue(row="nau", measure="10", text="80%"),
            ),
        ),
    }
)


def test_x_may_be_a_part_of_the_field() -> None:
    stored = {"l1:10:linear:5:9": [100], "l1:0.1:linear:5:9": [None], None: [100]}
    (panel,) = swept.panels(WEIGHTS, sized(stored, "penalty"))
    assert (list(panel.curves[0].x), list(panel.curves[0].middle)) == ([0.1, 10], [0, 100])
    assert panel.curves[0].published == ((10, 80),)  # 0 is not on a log axis
    assert draw(WEIGHTS, sized(stored, "penalty")).axes[0].get_xscale() == "log"
    with pytest.raises(ValidationError, match="x_part: x='step' is no field of the setting"):
        FigureSpec.model_validate(
            WEIGHTS.model_dump() | {"x": "step", "statistic": "median", "solved_below": None}
        )


def test_values_stand_side_by_side_if_one_of_them_is_not_on_a_log_axis() -> None:
    stored = {"l1:10": [100], "l1:0": [None], "l1:1": [100]}
    rows = sized(stored, "penalty")
    (panel,) = swept.panels(WEIGHTS, rows)
    assert panel.ticks == ("0", "1", "10")
    assert list(panel.curves[0].x) == [0, 1, 2]
    assert panel.curves[0].published == ((0, 90), (2, 80))
    (axes,) = draw(WEIGHTS, rows).axes
    assert axes.get_xscale() == "linear"
    page = charts.figure(WEIGHTS, (panel,), "")
    dots = re.findall(r'class="dot[^"]*" cx="([0-9.]+)"', page)
    first, middle, last = map(float, dots)
    assert last - middle == pytest.approx(middle - first, abs=0.2)


def test_the_median_over_a_field() -> None:
    figure = FIGURE.model_copy(update={"statistic": "median", "solved_below": None})
    (panel,) = swept.panels(figure, sized({4: [100, None, None]}))
    assert list(panel.curves[0].middle) == [9.0]


def test_the_field_along_x_does_not_split_the_figure() -> None:
    both = sized({4: [100], 10: [100]})
    assert [label for label, _ in problems(FIGURE, both)] == [""]
    other = FIGURE.model_copy(update={"x": "step", "statistic": "median"})
    assert [label for label, _ in problems(other, both)] == ["inputs=10", "inputs=4"]


def test_the_drawn_figure_says_what_its_points_are() -> None:
    figure = draw(FIGURE, sized({4: [100, None], 10: [100, 100]}))
    said = " ".join(figure.get_suptitle().split())
    assert "Line: share of solved seeds over 2 seeds; band: Wilson's 95 % interval" in said
    assert "circles: Somebody (2020)" in said
    axes = figure.axes[0]
    drawn = {tuple(line.get_xdata()): tuple(line.get_ydata()) for line in axes.lines}
    assert drawn[4, 10] == (50, 100)
    assert drawn[4, 10, 100] == (96, 100, 98)


def test_a_line_of_training_has_no_rate() -> None:
    with pytest.raises(ValidationError, match="with x='step', one of mean, median, two_sigma"):
        FigureSpec.model_validate(FIGURE.model_dump() | {"x": "step"})
    with pytest.raises(ValidationError, match="needs solved_below"):
        FigureSpec.model_validate(FIGURE.model_dump() | {"solved_below": None})


@pytest.mark.parametrize(
    ("patterns", "shown"),
    [
        (("*",), {"laptop", "madsen", "madsen_lr", ""}),
        (("madsen*",), {"madsen", "madsen_lr"}),
        (("!madsen*",), {"laptop", ""}),
        (("madsen*", "!*_lr"), {"madsen"}),
    ],
)
def test_a_table_shows_the_presets_that_it_names(patterns: Any, shown: set[str]) -> None:
    spec = TABLE.model_copy(update={"presets": patterns})
    presets = ["laptop", "madsen", "madsen_lr", ""]
    assert {name for name in presets if shows(spec, Sweep(name))} == shown


def test_specifications_with_publications_survive_json(tmp_path: Path) -> None:
    for spec in (TABLE, FIGURE):
        assert type(spec).model_validate_json(spec.model_dump_json()) == spec
