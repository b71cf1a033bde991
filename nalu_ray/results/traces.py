"""Figures of what a network says after each word of a text (Figure 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nalu_ray.results.figures import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS = 3


@dataclass(frozen=True)
class Trace:
    """A text, the number after each of its words, and the number that it stands for, if known."""

    words: Sequence[str]
    values: Sequence[float]
    target: float | None = None


def lines(trace: Trace) -> list[str]:
    """Returns a line for each word with the number after it, and one for the target."""
    width = max(map(len, trace.words))
    found = [
        f"{word:<{width}}  {value:.2f}"
        for word, value in zip(trace.words, trace.values, strict=True)
    ]
    return found if trace.target is None else [*found, f"{'=':>{width}}  {trace.target:g}"]


def draw(traces: Sequence[Trace], title: str = "") -> Figure:
    """Draws a panel for each text: its words from left to right, the number after each."""
    across = min(_ACROSS, len(traces))
    down = math.ceil(len(traces) / across)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.6 * across + 0.4, 2.0 * down + 0.4), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(down, across, squeeze=False)
        for axes, trace in zip(grid.flat, traces, strict=False):
            _panel(axes, trace)
        for axes in grid.flat[len(traces) :]:
            axes.remove()
        figure.suptitle(title, fontsize=8, ha="left", x=0.01)
    return figure


def _panel(axes: Axes, trace: Trace) -> None:
    places = range(len(trace.words))
    axes.plot(places, trace.values, color=COLOURS[0], marker="o", markersize=3.5, linewidth=1.4)
    for place, value in zip(places, trace.values, strict=True):
        axes.annotate(
            f"{value:.1f}", (place, value), (0, 4), textcoords="offset points", ha="center",
            fontsize=7,
        )  # fmt: skip
    if trace.target is not None:
        axes.axhline(trace.target, color=COLOURS[1], linestyle=(0, (4, 1.5)), linewidth=1)
        axes.set_title(f"{trace.target:g}", fontsize=9, color=COLOURS[1])
    axes.set_xticks(places, trace.words, fontsize=7, rotation=20)
    axes.margins(x=0.15, y=0.2)
