"""What is said after each word, as lines and drawn."""

from __future__ import annotations

import numpy as np
import pytest

from nalu_ray.results.output.figures import encode
from nalu_ray.results.output.traces import Series, Trace, draw, draw_series, lines, series_lines

TRACE = Trace(("five", "hundred", "and", "two"), (5.0, 499.987, 501.25, 502.004), 502)


def test_lines() -> None:
    assert lines(TRACE) == [
        "five     5.00",
        "hundred  499.99",
        "and      501.25",
        "two      502.00",
        "      =  502",
    ]
    assert lines(Trace(("two",), (2.0,))) == ["two  2.00"]


@pytest.mark.parametrize(("count", "panels"), [(1, 1), (3, 3), (4, 4)])
def test_a_panel_for_each_text(count: int, panels: int) -> None:
    figure = draw([TRACE] * count, "a title")
    assert len(figure.axes) == panels
    for axes in figure.axes:
        (line,) = [line for line in axes.lines if line.get_marker() == "o"]
        assert list(line.get_ydata()) == list(TRACE.values)
        assert [label.get_text() for label in axes.get_xticklabels()] == list(TRACE.words)
        assert [text.get_text() for text in axes.texts] == ["5.0", "500.0", "501.2", "502.0"]
        (target,) = [line for line in axes.lines if line.get_marker() != "o"]
        assert set(target.get_ydata()) == {502}
        assert axes.get_title() == "502"


def test_without_a_target() -> None:
    (axes,) = draw([Trace(("two",), (2.0,))]).axes
    assert len(axes.lines) == 1
    assert axes.get_title() == ""


def test_the_same_bytes_each_time() -> None:
    first, second = (encode(draw([TRACE]), "png") for _ in range(2))
    assert first == second


SERIES = Series(
    images=np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4),
    values=np.array([[0.1, 1.1], [0.9, 1.0], [1.04, 1.96]], np.float32),
    targets=np.array([[0, 1], [1, 1], [1, 2]], np.float32),
    names=("3", "seven"),
)


def test_lines_of_a_series_are_what_is_said_last_and_the_truth() -> None:
    assert series_lines(SERIES) == ["    3      1.04  = 1", "seven      1.96  = 2"]


def test_a_series_is_its_images_above_the_numbers_after_each() -> None:
    figure = draw_series([SERIES, SERIES], "a title")
    assert len(figure.axes) == 4
    for strip, running in zip(figure.axes[::2], figure.axes[1::2], strict=True):
        (image,) = strip.images
        assert np.array_equal(image.get_array(), np.hstack(list(SERIES.images)))
        said = [line for line in running.lines if line.get_marker() == "o"]
        true = [line for line in running.lines if line.get_marker() != "o"]
        for place, (line, dashes) in enumerate(zip(said, true, strict=True)):
            assert np.allclose(line.get_ydata(), SERIES.values[:, place])
            assert np.allclose(dashes.get_ydata(), SERIES.targets[:, place])
            assert list(line.get_xdata()) == [0.5, 1.5, 2.5]
            assert line.get_color() == dashes.get_color()
            assert line.get_label() == SERIES.names[place]
