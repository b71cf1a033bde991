"""Curves against hand-computed values; drawings that are legible and the same each time."""

import colorsys
import io
import itertools
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from PIL import Image, ImageColor

from nalu_ray.results.analysis.curves import Curve, panels
from nalu_ray.results.analysis.statistics import median_interval
from nalu_ray.results.output import figures
from nalu_ray.results.specs import Axis, FigureSpec, learning_figure
from nalu_ray.results.store.rows import COLUMNS
from tests.results.samples import (
    ACTIVATIONS,
    FIGURE_1,
    frame,
    full_static,
    identity,
    mse,
    run,
    specs,
)

NAN = math.nan
FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
# dashboard.png is a screenshot of Ray's own page
DOCUMENTED = {
    path
    for path in FIGURES.glob("*.png")
    if path.name != "dashboard.png" and not path.name.endswith(figures.DARK)
}
NAC, NALU = {"layer": "nac", "op": "add"}, {"layer": "nalu", "op": "add"}


def spec(**changes: Any) -> FigureSpec:
    base = {
        "name": "f", "caption": "F.", "metric": "mse", "split": "extrapolation", "x": "step",
        "lines": Axis(field="layer", labels={"nac": "NAC", "nalu": "NALU"}),
        "x_label": "x", "y_label": "y",
    }  # fmt: skip
    return FigureSpec(**{**base, **changes})


def three_seeds() -> pd.DataFrame:
    values = [{0: 1.0, 10: 4.0}, {0: 2.0, 10: 5.0}, {0: 6.0, 10: 9.0}]
    return frame(*(run(NAC, k, mse(v, v, base=4.0 + 4 * k)) for k, v in enumerate(values)))


def only_curve(spec: FigureSpec, rows: pd.DataFrame) -> Curve:
    (panel,) = panels(spec, rows)
    (curve,) = panel.curves
    return curve


def test_mean_and_median_over_seeds() -> None:
    curve = only_curve(spec(), three_seeds())
    assert curve.x.tolist() == [0.0, 10.0]
    assert curve.middle.tolist() == [3.0, 6.0]
    assert (curve.heading.label, curve.seeds, curve.stored) == ("NAC", 3, 3)
    assert (curve.low <= curve.middle).all()
    assert (curve.middle <= curve.high).all()
    median = only_curve(spec(statistic="median"), three_seeds())
    assert median.middle.tolist() == [2.0, 5.0]
    for place, values in enumerate(([1.0, 2.0, 6.0], [4.0, 5.0, 9.0])):
        interval = median_interval(values)
        assert (median.low[place], median.high[place]) == (interval.low, interval.high)


def test_a_measure_of_the_weights_is_a_line() -> None:
    errors = [{0: 0.5, 10: 0.25}, {0: 0.25, 10: 0.0}]
    rows = frame(
        *(
            run(NAC, seed, {("sparsity_error", "weights"): error, **mse({0: 1.0}, {0: 1.0})})
            for seed, error in enumerate(errors)
        )
    )
    (axes,) = figures.draw(spec(metric="sparsity_error", split="weights"), rows).axes
    line, of_the_legend = axes.get_lines()
    assert line.get_xydata().tolist() == [[0.0, 0.375], [10.0, 0.125]]
    assert not of_the_legend.get_xydata().size


def test_relative_to_the_median_over_seeds() -> None:
    curve = only_curve(spec(relative_to="base"), three_seeds())
    assert curve.middle.tolist() == [37.5, 75.0]  # 100 * 3 / 8, 100 * 6 / 8


def test_the_band_is_the_t_interval_of_the_mean() -> None:
    curve = only_curve(spec(), three_seeds())
    # 1, 2, 6 and 4, 5, 9: s^2 = 7; Student's t with two degrees of freedom, 0.975: 4.302653
    half = 4.302653 * (7 / 3) ** 0.5
    assert curve.low.tolist() == pytest.approx([3 - half, 6 - half], rel=1e-6)
    assert curve.high.tolist() == pytest.approx([3 + half, 6 + half], rel=1e-6)
    title = figures.draw(spec(), three_seeds()).get_suptitle()
    assert "band: 95 % t interval" in title.replace("\n", " ")


def test_two_sigma_is_the_mean_and_two_standard_deviations_to_each_side() -> None:
    curve = only_curve(spec(statistic="two_sigma"), three_seeds())
    assert curve.middle.tolist() == [3.0, 6.0]
    # 1, 2, 6 and 4, 5, 9: squared deviations 4 + 1 + 9, over two degrees of freedom
    assert curve.low.tolist() == pytest.approx([3 - 2 * 7**0.5, 6 - 2 * 7**0.5])
    assert curve.high.tolist() == pytest.approx([3 + 2 * 7**0.5, 6 + 2 * 7**0.5])
    title = figures.draw(spec(statistic="two_sigma"), three_seeds()).get_suptitle()
    assert "mean over 3 seeds; band: two standard deviations" in title.replace("\n", " ")


@pytest.mark.filterwarnings("error")
def test_one_seed_has_no_band_of_standard_deviations() -> None:
    rows = three_seeds()
    curve = only_curve(spec(statistic="two_sigma"), rows[rows["seed"] == 1])
    assert curve.middle.tolist() == [2.0, 5.0]
    assert np.isnan([curve.low, curve.high]).all()


def test_a_seed_without_finite_values_is_left_out_of_a_mean_and_counted() -> None:
    lost = run(NAC, 3, mse({0: 1.0}, {0: 1.0, 10: NAN}), "diverged: at step 3")
    curve = only_curve(spec(), frame(three_seeds(), lost))
    assert curve.middle.tolist() == [3.0, 6.0]
    assert (curve.seeds, curve.stored) == (3, 4)
    median = only_curve(spec(statistic="median"), frame(three_seeds(), lost))
    assert median.middle.tolist() == [1.5, 7.0]  # an infinite fourth value at step 10
    drawn = figures.draw(spec(), frame(three_seeds(), lost))
    assert "runs left out because not finite: 1" in drawn.get_suptitle().replace("\n", " ")


def test_a_seed_that_ended_before_its_curve_was_logged_counts_as_in_a_table() -> None:
    """The curve is logged at the end: one seed of three gets there."""
    reasons = (None, "diverged: at step 3", "RuntimeError: out of memory")
    runs = [
        run(NAC, seed, mse({0: 1.0}, {}) if reason else mse({0: 1.0}, {100: 0.1}), reason)
        for seed, reason in enumerate(reasons)
    ]
    rows = frame(*runs).assign(x=lambda rows: rows["step"].where(rows["split"] == "extrapolation"))
    of_end = spec(x="x", select_step=True)
    assert only_curve(of_end.model_copy(update={"statistic": "median"}), rows).middle == [math.inf]
    mean = only_curve(of_end, rows)
    assert (mean.middle.tolist(), mean.seeds, mean.stored) == ([0.1], 1, 3)
    title = figures.draw(of_end, rows).get_suptitle().replace("\n", " ")
    assert "runs left out because not finite: 2" in title


def test_relative_to_a_reference_of_zero_there_is_no_curve() -> None:
    rows = frame(run(NAC, 0, mse({0: 1.0}, {0: 1.0}, base=0.0)))
    assert np.isnan(only_curve(spec(relative_to="base"), rows).middle).all()


def test_a_line_shows_the_setting_that_interpolates_best() -> None:
    rows = frame(
        *(
            run({**NAC, "lr": lr}, seed, mse({0: inner}, {0: outer}))
            for lr, inner, outer in ((0.1, 1.0, 7.0), (0.01, 2.0, 0.0))
            for seed in range(3)
        )
    )
    assert only_curve(spec(), rows).middle.tolist() == [7.0]
    # without the selecting metric: the setting with most seeds
    inner = (rows["metric"] == "mse") & (rows["split"] == "interpolation")
    few = rows[~inner & ~((rows["lr"] == 0.1) & (rows["seed"] == 2))]
    assert only_curve(spec(), few).middle.tolist() == [0.0]


def test_only_the_last_step_of_a_curve_over_x() -> None:
    points = [(step, x, step + x) for step in (1, 2) for x in (-1.0, 0.0, 1.0)]
    rows = pd.DataFrame(
        [
            {"seed": seed, "step": step, "x": x, "value": value + seed}
            for seed in (0, 1)
            for step, x, value in points
        ]
    ).assign(setting_id="a", layer="nac", metric="e", split="curve", task="t", reason=None)
    rows = rows.reindex(columns=[*COLUMNS, "layer"])
    curve = only_curve(spec(metric="e", split="curve", x="x", select_step=True), rows)
    assert curve.x.tolist() == [-1.0, 0.0, 1.0]
    assert curve.middle.tolist() == [1.5, 2.5, 3.5]


def test_panels_and_lines_in_printed_order() -> None:
    rows = full_static(2, 2)
    found = panels(specs("static").figures[0], rows)
    assert [panel.title for panel in found] == ["a + b", "a - b", "a × b", "a / b", "a²", "√a"]
    labels = [curve.heading.label for curve in found[0].curves]
    assert labels[:2] == ["ReLU6", "Softsign"]
    assert labels[-2:] == ["NALU", "NAC+NALU"]
    some = panels(specs("static").figures[0], rows[rows["op"].isin(["sqrt", "add"])])
    assert [panel.title for panel in some] == ["a + b", "√a"]


def test_nothing_to_draw_is_said() -> None:
    for rows in (three_seeds().iloc[:0], three_seeds()):
        with pytest.raises(LookupError, match="mae"):
            figures.draw(spec(metric="mae"), rows)


def test_fifteen_lines_can_be_told_apart_also_in_grey() -> None:
    figure = figures.draw(FIGURE_1, identity(4))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(ACTIVATIONS.values())
    styles = [(to_hex(x.get_color()), x._dash_pattern) for x in legend.get_lines()]
    assert len(set(map(str, styles))) == 15
    for (colour, dashes), (other, others) in itertools.pairwise(styles):
        assert colour != other
        assert dashes != others
    (axes,) = figure.axes
    assert axes.get_xlim() == (-20.0, 20.0)
    assert figure.get_supxlabel() == "input"


def test_a_line_keeps_its_style_whatever_else_was_run() -> None:
    rows = identity(3)
    alone = figures.draw(FIGURE_1, rows[rows["layer"] == "relu"])
    among = figures.draw(FIGURE_1, rows)
    (line,) = alone.legends[0].get_lines()
    same = among.legends[0].get_lines()[list(ACTIVATIONS).index("relu")]
    assert line.get_color() == same.get_color()
    assert len(alone.legends[0].get_lines()) == 1


def test_labels_are_no_mathematics(tmp_path: Path) -> None:
    lines = Axis(field="layer", labels={"nac": "cost $x^{$"})
    figure = figures.draw(spec(lines=lines, caption="$", x_label="$_"), three_seeds())
    assert figures.save(figure, tmp_path / "f")


@pytest.mark.parametrize("logarithmic", [False, True])
def test_files_are_the_same_each_time(tmp_path: Path, logarithmic: bool) -> None:
    drawn = spec(log_y=logarithmic, relative_to="base", statistic="median")
    contents = []
    for attempt in ("a", "b"):
        figure = figures.draw(drawn, three_seeds())
        paths = figures.save(figure, tmp_path / attempt / "figure_1.2")
        assert [path.name for path in paths] == [
            f"figure_1.2{ending}" for ending in (".png", "-dark.png", ".pdf")
        ]
        contents.append([*(p.read_bytes() for p in paths), figures.encode(figure, "svg")])
    assert contents[0] == contents[1]
    png, dark, pdf, svg = contents[0]
    assert png.startswith(b"\x89PNG")
    assert dark == figures.for_dark_page(png)
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf
    assert b"<dc:date>" not in svg


DARK_PAGES = {"GitHub": (13, 17, 23), "Material": (30, 33, 41)}
TEXTS = ("#000000", "#444444")


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns WCAG's contrast of two colours, 0 to 255 each."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: Sequence[float]) -> float:
    linear = [
        x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in np.array(colour) / 255
    ]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("page", DARK_PAGES.values(), ids=DARK_PAGES)
@pytest.mark.parametrize("colour", [*figures.COLOURS, *TEXTS])
def test_a_figure_for_a_dark_page_is_read_there(colour: str, page: tuple[int, ...]) -> None:
    half = Image.new("RGB", (2, 1), "white")
    half.putpixel((1, 0), ImageColor.getrgb(colour))
    buffer = io.BytesIO()
    half.save(buffer, "png")
    with Image.open(io.BytesIO(figures.for_dark_page(buffer.getvalue()))) as dark:
        assert dark.getpixel((0, 0))[3] == 0  # white lets the page through
        *paint, cover = np.array(dark.getpixel((1, 0)), dtype=float)
    seen = [p + (x - p) * cover / 255 for x, p in zip(paint, page, strict=True)]
    assert contrast(seen, page) >= (4.5 if colour in TEXTS else 3)
    hue, as_drawn = (
        colorsys.rgb_to_hsv(*np.array(c) / 255)[:2] for c in (paint, ImageColor.getrgb(colour))
    )
    assert as_drawn[1] == 0 or hue[0] == pytest.approx(as_drawn[0], abs=0.01)


@pytest.mark.parametrize("light", sorted(DOCUMENTED), ids=lambda path: path.name)
def test_documented_figures_for_dark_pages_are_of_those_for_light_ones(light: Path) -> None:
    dark = light.with_name(light.stem + figures.DARK)
    with (
        Image.open(dark) as kept,
        Image.open(io.BytesIO(figures.for_dark_page(light.read_bytes()))) as now,
    ):
        assert kept.tobytes() == now.tobytes()


def test_the_users_matplotlib_is_left_alone() -> None:
    before = dict(mpl.rcParams)
    figures.encode(figures.draw(spec(), three_seeds()), "png")
    assert dict(mpl.rcParams) == before
    code = (
        "import sys, nalu_ray.results.output.figures; assert 'matplotlib.pyplot' not in sys.modules"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


def test_a_figure_of_training_is_a_median_by_step_unless_it_says_otherwise() -> None:
    fields: dict[str, Any] = {"name": "f", "caption": "", "metric": "mse", "split": "test"}
    fields |= {"lines": Axis(field="layer"), "y_label": "error"}
    figure = learning_figure(**fields)
    assert figure == FigureSpec(
        **fields, x="step", x_label="training step", statistic="median", log_y=True
    )
    assert learning_figure(**fields, log_y=False) == figure.model_copy(update={"log_y": False})


def test_a_seed_that_stopped_early_keeps_its_last_value_and_a_lost_one_does_not() -> None:
    rows = frame(
        run(NAC, 0, mse({0: 1.0, 10: 4.0, 20: 2.0}, {0: 1.0, 10: 4.0, 20: 2.0})),
        run(NAC, 1, mse({0: 3.0, 10: 0.5}, {0: 3.0, 10: 0.5}), end=10),
        run(NAC, 2, mse({0: 9.0}, {0: 9.0}), "diverged: at step 3", end=3),
    )
    curve = only_curve(spec(statistic="median"), rows)
    assert curve.middle.tolist() == [3.0, 4.0, 2.0]  # of 1 3 9, 4 .5 inf and 2 .5 inf
