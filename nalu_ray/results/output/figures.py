"""Figures from stored rows: curves with intervals, legible in print and to the colour-blind."""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nalu_ray.results.analysis import curves, swept
from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.analysis.curves import Curve, Panel
from nalu_ray.results.analysis.text import Budget, budget_sentence, filled
from nalu_ray.results.specs import FigureSpec
from nalu_ray.results.store.atomic_files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK = "-dark.png"
"""What the name of a figure for a dark page ends with."""

# Okabe and Ito's palette without its yellow, which vanishes on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.2, 1, 1.2)))

# Lets colours that are pale on white be seen on black; 1 would leave them as faint as they were.
_COVER = 0.7

_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}

_STYLE: Mapping[str, Any] = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.edgecolor": "#666666",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "pdf.fonttype": 42,
    "svg.hashsalt": "nalu_ray",
}
_NEUTRAL = {"MPLBACKEND": "agg", "MATPLOTLIBRC": os.devnull}


def draw(spec: FigureSpec, rows: pd.DataFrame) -> Figure:
    """Draws a figure.

    Args:
        spec: the figure.
        rows: (rows, columns) as :meth:`Store.load` gives them.

    Raises:
        LookupError: no row has the figure's metric and split.
    """
    spec = filled(spec, rows)
    drawn_panels = figure_panels(spec, rows)
    if not drawn_panels:
        raise LookupError(f"{spec.name}: no stored row has {spec.metric} on {spec.split}")
    with our_settings():
        return _draw(spec, drawn_panels)


def figure_panels(spec: FigureSpec, rows: pd.DataFrame) -> tuple[Panel, ...]:
    """Returns a figure's curves in panels; none if nothing that it shows is stored."""
    return swept.panels(spec, rows) if spec.swept else curves.panels(spec, rows)


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG for a light and a dark page, and as PDF; ``path`` has no ending.

    The bytes are the same each time.
    """
    png = encode(figure, "png")
    files = {".png": png, DARK: for_dark_page(png), ".pdf": encode(figure, "pdf")}
    return [write_bytes(path.with_name(path.name + suffix), data) for suffix, data in files.items()]


def encode(figure: Figure, suffix: str) -> bytes:
    """Returns a figure's bytes as ``png``, ``pdf`` or ``svg``.

    Args:
        figure: the figure.
        suffix: the format's name.
    """
    buffer = io.BytesIO()
    with our_settings():
        figure.savefig(buffer, format=suffix, dpi=200, metadata=_METADATA[suffix])
    return buffer.getvalue()


def for_dark_page(png: bytes) -> bytes:
    """Returns a figure on white as one for a dark page: transparent, with light text.

    Args:
        png: a PNG whose background is white.
    """
    from PIL import Image  # noqa: PLC0415 (tables print without it)

    with Image.open(io.BytesIO(png)) as image:
        packed = np.asarray(image.convert("RGBX")).view(np.uint32)[..., 0]
    # of millions of pixels, each colour once
    colours, places = np.unique(packed, return_inverse=True)
    shares = colours.view(np.uint8).reshape(-1, 4)[:, :3] / 255
    # the paint that gives these colours on white: as little of it as can be
    cover = 1 - shares.min(axis=1, keepdims=True)
    paint = 1 - (1 - shares) / np.maximum(cover, 1e-9)
    light = paint + 1 - paint.max(axis=1, keepdims=True)  # black becomes white, hues stay
    dark = np.rint(255 * np.concatenate([light, cover**_COVER], axis=1)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(dark[places.reshape(packed.shape)]).save(buffer, "png")
    return buffer.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure, sizes in inches; use it within :func:`our_settings`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (see _imported)
    from matplotlib.figure import Figure  # noqa: PLC0415 (see _imported)

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextlib.contextmanager
def our_settings() -> Iterator[None]:
    """Applies matplotlib's defaults and our style, then restores the user's settings."""
    mpl = _imported()
    defaults = mpl.rcParamsDefault
    # a backend belongs to pyplot, which is not used
    settings = {name: defaults[name] for name in defaults if name != "backend"}
    with mpl.rc_context({**settings, **_STYLE}):
        yield


def _draw(spec: FigureSpec, drawn_panels: tuple[Panel, ...]) -> Figure:
    lines = _lines(spec, drawn_panels)
    across = min(3, len(drawn_panels))
    down = math.ceil(len(drawn_panels) / across)
    size = (7.2, 4.4) if len(drawn_panels) == 1 else (3.0 * across + 1.4, 2.4 * down + 0.9)
    figure = new_figure(*size)
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for axes, panel in zip(grid.flat, drawn_panels, strict=False):
        _panel(axes, spec, panel, lines)
    for axes in grid.flat[len(drawn_panels) :]:
        axes.remove()
    _legend(figure, grid.flat[0], lines)
    figure.supxlabel(_literal(spec.x_label), fontsize=9.5)
    figure.supylabel(_literal(spec.y_label), fontsize=9.5)
    text = _literal(f"{spec.caption} {about(spec, drawn_panels)}")
    figure.suptitle(textwrap.fill(text, int(size[0] * 16)), fontsize=8, ha="left", x=0.01)
    return figure


def _lines(spec: FigureSpec, drawn_panels: tuple[Panel, ...]) -> dict[Heading, dict[str, Any]]:
    """Returns colour and dashes of each line that has a curve, the same in every panel."""
    known = [Heading(key, label) for key, label in spec.lines.labels.items()]
    drawn = {curve.heading: None for panel in drawn_panels for curve in panel.curves}
    order = [*known, *(heading for heading in drawn if heading not in known)]
    styles = {
        heading: {
            "color": COLOURS[position % len(COLOURS)],
            "linestyle": DASHES[position % len(DASHES)],  # neighbours differ in both
        }
        for position, heading in enumerate(order)
    }
    return {heading: styles[heading] for heading in order if heading in drawn}


def _panel(
    axes: Axes, spec: FigureSpec, panel: Panel, lines: dict[Heading, dict[str, Any]]
) -> None:
    axes.set_title(_literal(panel.title), fontsize=9)
    if spec.log_x and not panel.ticks:
        axes.set_xscale("log")
    if spec.log_y:
        axes.set_yscale("log", nonpositive="clip")
    if isinstance(spec.shade, tuple):
        axes.axvspan(*spec.shade, color="#f0f0f0", zorder=0, linewidth=0)
    if panel.ticks:
        axes.set_xticks(
            range(len(panel.ticks)), map(_literal, panel.ticks), fontsize=7, rotation=30
        )
    for curve in panel.curves:
        style = lines[curve.heading]
        marker = "." if spec.swept else ""  # a single setting is a point that a line would hide
        axes.plot(curve.x, _drawable(curve.middle), linewidth=1.4, marker=marker, **style)
        if curve.published:
            x, y = zip(*curve.published, strict=True)
            axes.plot(x, y, "o", markersize=4.5, markerfacecolor="none", color=style["color"])
        axes.fill_between(
            curve.x,
            _drawable(curve.low),
            _drawable(curve.high),
            color=style["color"],
            alpha=0.18 if len(panel.curves) < 6 else 0.1,
            linewidth=0,
        )
    axes.margins(x=0.03 if spec.swept else 0)


def _drawable(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(np.isfinite(values), values, np.nan)


def _literal(text: str) -> str:
    """Keeps matplotlib from reading mathematics into a label."""
    return text.replace("$", r"\$")


def _legend(figure: Figure, axes: Axes, lines: dict[Heading, dict[str, Any]]) -> None:
    handles = [
        axes.plot([], [], label=_literal(h.label), linewidth=1.6, **s)[0] for h, s in lines.items()
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, handlelength=3)


def about(spec: FigureSpec, drawn_panels: tuple[Panel, ...]) -> str:
    """Returns sentences on what a figure's lines, bands and marks are."""
    drawn: list[Curve] = [curve for panel in drawn_panels for curve in panel.curves]
    low, high = min(c.seeds for c in drawn), max(c.seeds for c in drawn)
    count = f"{low}" if low == high else f"{low} to {high}"
    middle, band = str(spec.statistic), "95 % t interval"
    if spec.statistic == "two_sigma":
        middle, band = "mean", "two standard deviations over seeds"
    elif spec.statistic == "rate":
        middle, band = "share of solved seeds", "Wilson's 95 % interval"
    elif spec.statistic in ("median", "solved_at"):
        middle = "median" if spec.statistic == "median" else "median first step solved"
        band = "95 % interval between order statistics"
        band += ", the range for fewer than six seeds" if low < 6 else ""
    text = f"Line: {middle} over {count} seeds; band: {band}"
    lost = sum(c.stored - c.seeds for c in drawn)
    text += f"; runs left out because not finite: {lost}" if lost else ""
    if spec.publication and any(curve.published for curve in drawn):
        text += f"; circles: {spec.publication.source}"
    spent = [
        Budget(curve.heading.label, panel.title, {**curve.budget, "seeds": f"{curve.stored:,}"})
        for panel in drawn_panels
        for curve in panel.curves
    ]
    text += "; shaded: training range." if spec.shade else "."
    return f"{text} {budget_sentence(spent)}".rstrip()


def _imported() -> ModuleType:
    """Imports matplotlib, without the user's settings if they make the import fail.

    A backend that is not installed, such as that of a notebook in which a command was started, or
    a settings file that cannot be read, makes the import itself fail.

    Raises:
        OSError: it cannot be imported even so; the message says why.
    """
    if "matplotlib" in sys.modules:
        return sys.modules["matplotlib"]
    try:
        return importlib.import_module("matplotlib")
    except (ValueError, OSError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            del sys.modules[name]
    before = {name: os.environ.get(name) for name in _NEUTRAL}
    os.environ.update(_NEUTRAL)
    try:
        return importlib.import_module("matplotlib")
    except (ValueError, OSError) as error:
        raise OSError(f"matplotlib cannot be imported: {error}") from error
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
