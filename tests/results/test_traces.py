"""What is said after each word, as lines and drawn."""

from __future__ import annotations

import pytest

from nalu_ray.results.figures import encode
from nalu_ray.results.traces import Trace, draw, lines

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
