"""Curves with bands as SVG panels, with the values that the pointer shows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.analysis.curves import Curve, Panel
from nalu_ray.results.output.page.svg import Frame, Scale, path, scale, short, text
from nalu_ray.results.specs import FigureSpec

OP = "op"
MOST_POINTS = 160
STYLES = 28  # colours times dashes of page.css


def lines_of(panels: Iterable[Panel], first: Iterable[str] = ()) -> dict[Heading, int]:
    """Returns the style of each line, the same in every panel; labelled lines keep theirs."""
    known = list(first)
    drawn = dict.fromkeys(c.heading for panel in panels for c in panel.curves)
    known += [heading.key for heading in drawn if heading.key not in known]
    styles = {heading: known.index(heading.key) % STYLES for heading in drawn}
    return dict(sorted(styles.items(), key=lambda item: known.index(item[0].key)))


def legend(lines: Mapping[Heading, int], field: str) -> str:
    """Returns the lines as an HTML list.

    Args:
        lines: heading to the number of its style.
        field: the setting's field that distinguishes the lines.
    """
    items = "".join(
        f'<li data-{group(field)}="{escape(heading.key)}"><svg width="26" height="10" '
        f'aria-hidden="true"><path class="line {style_of(style)}" d="M1 5H25"/></svg>'
        f"{escape(heading.label)}</li>"
        for heading, style in lines.items()
    )
    return f'<ul class="legend">{items}</ul>\n'


def figure(spec: FigureSpec, panels: Sequence[Panel], about: str) -> str:
    """Returns a figure: caption, legend and panels, all on the same axes.

    Args:
        spec: the figure, with the caption's fields filled.
        panels: its curves.
        about: sentences on what lines and bands are.
    """
    lines = lines_of(panels, spec.lines.labels)
    of_op = {}
    if spec.panels is not None and spec.panels.field == OP:
        of_op = {label: key for key, label in spec.panels.labels.items()}
    number = escape(f"Figure {spec.number}.") if spec.number else ""
    body = drawn(
        panels, lines, spec.lines.field, x_label=spec.x_label, y_label=spec.y_label,
        log_x=spec.log_x, log_y=spec.log_y, shade=spec.shade, marks=spec.swept is not None,
        operations=of_op,
    )  # fmt: skip
    return (
        f'<figure class="chart"><figcaption><b>{number}</b> {escape(spec.caption)} '
        f"<small>{escape(about)}</small></figcaption>\n"
        f"{legend(lines, spec.lines.field)}{body}</figure>\n"
    )


def drawn(
    panels: Sequence[Panel],
    lines: Mapping[Heading, int],
    field: str,
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    shade: object = None,
    marks: bool = False,
    limits: Mapping[str, float] | None = None,
    operations: Mapping[str, str] | None = None,
) -> str:
    """Returns the panels of curves.

    Args:
        panels: the curves.
        lines: the style of each line.
        field: the setting's field that tells the lines apart, by which the page filters.
        x_label, y_label, log_x, log_y: the axes; x is not logarithmic if its values stand side by
            side.
        shade: range of x to shade.
        marks: draw each point.
        limits: title of a panel to the x of its vertical line.
        operations: title of a panel to its operation, by which the page filters.
    """
    curves = [curve for panel in panels for curve in panel.curves]
    wide = len(panels) == 1
    log_x = log_x and not any(panel.ticks for panel in panels)
    width, height = (620.0, 320.0) if wide else (300.0, 210.0)
    ys = [y for c in curves for row in (c.middle, c.low, c.high) for y in row.tolist()]
    ys += [y for c in curves for _, y in c.published]
    xs = [x for c in curves for x in c.x.tolist()]
    x = scale([*xs, *(limits or {}).values()], 52, width - 18, log=log_x)
    if not (log_x or marks) and xs:
        x = Scale(min(xs), max(*xs, min(xs) + 1e-9), x.start, x.end)
    y = scale(ys, height - 36, 22 if not wide else 10, log=log_y)
    frame = Frame(width, height, x, y)
    parts = []
    for panel in panels:
        marked = _Marks(lines, field, shade, marks, (limits or {}).get(panel.title))
        op = (operations or {}).get(panel.title)
        about = "" if op is None else f' data-op="{escape(op)}"'
        parts.append(_panel(panel, frame, (x_label, y_label), marked, about))
    return f'<div class="panels{" wide" * wide}">{"".join(parts)}</div>\n'


def style_of(style: int) -> str:
    """Returns the classes of a line's style."""
    return f"c{style % 7} d{style % 4}"


@dataclass(frozen=True)
class _Marks:
    """What a panel draws beside the axes; arguments of :func:`drawn`."""

    lines: Mapping[Heading, int]
    field: str
    shade: object
    points: bool
    limit: float | None


def _panel(panel: Panel, frame: Frame, labels: tuple[str, str], marks: _Marks, more: str) -> str:
    ticks = [(float(i), label) for i, label in enumerate(panel.ticks)]
    parts = [_shaded(frame, marks.shade), frame.axes(*labels, ticks)]
    if marks.limit is not None:
        at = frame.x(marks.limit)
        parts.append(f'<path class="limit" d="M{at:.1f} {frame.y.end:.1f}V{frame.y.start:.1f}"/>')
    hover = []
    for curve in panel.curves:
        thin, style = thinned(curve), style_of(marks.lines[curve.heading])
        parts.append(_curve(thin, frame, style, marks))
        hover.append(_values(thin, frame, style))
    if panel.title:
        parts.append(text(frame.x.start, 13, panel.title, ' class="title"'))
    data = json.dumps({"x": labels[0], "lines": hover}, ensure_ascii=False, separators=(",", ":"))
    name = f"{panel.title}: {labels[1]} over {labels[0]}".removeprefix(": ")
    return (
        f'<svg class="panel"{more} viewBox="0 0 {frame.width:g} {frame.height:g}" tabindex="0" '
        f'role="img" aria-label="{escape(name)}" data-plot="{escape(data)}">{"".join(parts)}</svg>'
    )


def _shaded(frame: Frame, shade: object) -> str:
    if not (isinstance(shade, tuple) and len(shade) == 2):
        return ""
    left, right = sorted((frame.x(shade[0]), frame.x(shade[1])))
    top, bottom = frame.y.end, frame.y.start
    return (
        f'<rect class="shade" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
        f'height="{bottom - top:.1f}"/>'
    )


def thinned(curve: Curve) -> Curve:
    """Returns a curve with at most ``MOST_POINTS`` of its points, the first and last among them."""
    count = len(curve.x)
    if count <= MOST_POINTS:
        return curve
    kept = np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(int))
    parts = {name: getattr(curve, name)[kept] for name in ("x", "middle", "low", "high")}
    return replace(curve, **parts)


def _curve(curve: Curve, frame: Frame, style: str, marks: _Marks) -> str:
    xs = [frame.x(v) for v in curve.x.tolist()]
    middle = [_pixel(frame.y, v) for v in curve.middle.tolist()]
    ends = [[_pixel(frame.y, v) for v in row.tolist()] for row in (curve.low, curve.high)]
    parts = []
    band = [(x, a, b) for x, a, b in zip(xs, *ends, strict=True) if math.isfinite(a + b)]
    if len(band) > 1:
        outline = [(x, a) for x, a, _ in band] + [(x, b) for x, _, b in reversed(band)]
        parts.append(f'<path class="band {style}" d="{path(outline)}Z"/>')
    points = list(zip(xs, middle, strict=True))
    parts.append(f'<path class="line {style}" d="{path(points)}"/>')
    shown = [p for p in points if math.isfinite(p[1])]
    if marks.points or len(shown) == 1:
        parts += [_circle(*point, "dot", style) for point in shown]
    parts += [_circle(frame.x(a), frame.y(b), "published-dot", style) for a, b in curve.published]
    return f'<g data-{group(marks.field)}="{escape(curve.heading.key)}">{"".join(parts)}</g>'


def _circle(x: float, y: float, name: str, style: str) -> str:
    return f'<circle class="{name} {style}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>'


def _pixel(along: Scale, value: float) -> float:
    return along(value) if math.isfinite(value) else math.nan


def _values(curve: Curve, frame: Frame, style: str) -> dict[str, Any]:
    """Returns what the pointer shows: pixels and texts of each point."""
    return {
        "k": curve.heading.key,
        "n": curve.heading.label,
        "c": style,
        "p": [round(frame.x(v), 1) for v in curve.x.tolist()],
        "x": [short(v) for v in curve.x.tolist()],
        "y": [_said(*values) for values in zip(curve.middle, curve.low, curve.high, strict=True)],
    }


def _said(middle: float, low: float, high: float) -> str:
    value = short(middle) if math.isfinite(middle) else "∞"
    return f"{value} [{short(low)}, {short(high)}]" if math.isfinite(low + high) else value


def group(field: str) -> str:
    """Returns the attribute that the page filters by: operations, or what is compared."""
    return OP if field == OP else "layer"
