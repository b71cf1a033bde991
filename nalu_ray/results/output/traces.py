"""Draws a network's output after each word of a text (Figure 3) or each image of a series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nalu_ray.results.output.figures import COLOURS, new_figure, our_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 3


@dataclass(frozen=True)
class Trace:
    """A text, the output after each word, and the number that the text means, if known."""

    words: Sequence[str]
    values: Sequence[float]
    target: float | None = None


@dataclass(frozen=True)
class Series:
    """A series of T images, and a network's outputs after each.

    Attributes:
        images: (T, height, width) uint8, 255 is ink.
        values: (T, K) float32, the K outputs after each image.
        targets: (T, K) float32, the right outputs.
        names: (K,), of the outputs.
    """

    images: NDArray[np.uint8]
    values: NDArray[np.float32]
    targets: NDArray[np.float32]
    names: Sequence[str]


def series_lines(series: Series) -> list[str]:
    """Returns one line per output: its value after the last image, and the right one."""
    width = max(map(len, series.names))
    ends = zip(series.names, series.values[-1], series.targets[-1], strict=True)
    return [f"{name:>{width}}  {value:8.2f}  = {target:g}" for name, value, target in ends]


def draw_series(several: Sequence[Series], title: str = "") -> Figure:
    """Draws the images of each series from left to right, and below them the numbers after each.

    Args:
        several: one series or more.
        title: a line above them.
    """
    with our_settings():
        longest = max(len(series.images) for series in several)
        figure = new_figure(0.36 * longest + 1.6, 3.0 * len(several) + 0.3)
        heights = [1, 6] * len(several)
        grid = figure.subplots(
            len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights}
        )
        for row, series in enumerate(several):
            _strip(grid[2 * row, 0], series)
            _running(grid[2 * row + 1, 0], series)
        figure.suptitle(title, fontsize=8, ha="left", x=0.01)
    return figure


def _strip(axes: Axes, series: Series) -> None:
    axes.imshow(np.hstack(list(series.images)), cmap="gray_r", vmin=0, vmax=255, aspect="auto")
    axes.set_axis_off()


def _running(axes: Axes, series: Series) -> None:
    """Draws outputs as lines with marks and right answers as dashes, in one colour per number."""
    steps = np.arange(len(series.images)) + 0.5
    for position, name in enumerate(series.names):
        colour = f"C{position}" if len(series.names) > len(COLOURS) else COLOURS[position]
        axes.step(
            steps, series.targets[:, position], where="mid", color=colour, linewidth=0.8,
            linestyle=(0, (4, 1.5)),
        )  # fmt: skip
        axes.plot(
            steps, series.values[:, position], color=colour, marker="o", markersize=3, linewidth=1,
            label=name,
        )  # fmt: skip
    axes.set_xlim(0, len(series.images))
    axes.set_xticks([])
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def lines(trace: Trace) -> list[str]:
    """Returns a line for each word with the number after it, and one for the target."""
    width = max(map(len, trace.words))
    texts = [
        f"{word:<{width}}  {value:.2f}"
        for word, value in zip(trace.words, trace.values, strict=True)
    ]
    return texts if trace.target is None else [*texts, f"{'=':>{width}}  {trace.target:g}"]


def draw(traces: Sequence[Trace], title: str = "") -> Figure:
    """Draws a panel for each text: its words from left to right, the number after each.

    Args:
        traces: one text or more.
        title: a line above the panels.
    """
    across = min(_ACROSS, len(traces))
    down = math.ceil(len(traces) / across)
    with our_settings():
        figure = new_figure(2.6 * across + 0.4, 2.0 * down + 0.4)
        grid = figure.subplots(down, across, squeeze=False)
        for axes, trace in zip(grid.flat, traces, strict=False):
            _panel(axes, trace)
        for axes in grid.flat[len(traces) :]:
            axes.remove()
        figure.suptitle(title, fontsize=8, ha="left", x=0.01)
    return figure


def _panel(axes: Axes, trace: Trace) -> None:
    positions = range(len(trace.words))
    axes.plot(positions, trace.values, color=COLOURS[0], marker="o", markersize=3.5, linewidth=1.4)
    for position, value in zip(positions, trace.values, strict=True):
        axes.annotate(
            f"{value:.1f}", (position, value), (0, 4), textcoords="offset points", ha="center",
            fontsize=7,
        )  # fmt: skip
    if trace.target is not None:
        axes.axhline(trace.target, color=COLOURS[1], linestyle=(0, (4, 1.5)), linewidth=1)
        axes.set_title(f"{trace.target:g}", fontsize=9, color=COLOURS[1])
    axes.set_xticks(positions, trace.words, fontsize=7, rotation=20)
    axes.margins(x=0.15, y=0.2)
