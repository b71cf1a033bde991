"""What trained networks do: Figure 3, series of digits, and animated episodes of agents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.output.page.charts import legend, style_of
from nalu_ray.results.output.page.svg import Frame, Scale, path, scale, short, text

_WIDTH, _HEIGHT = 300.0, 170.0


_TRACES = (
    "The output after each word, and the number that the words mean (dashed), for numbers that the "
    "seed did not train on."
)
_SERIES = "The outputs after each image of a test series, and the right answers (thin steps)."
_EPISODES = (
    "The best agents play one episode each: blue is the agent, red the target, T the "
    "instructed time of arrival."
)


def html(shown: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> str:
    """Returns the figures of what :mod:`nalu_ray.command.replay` says of a task; empty for nothing.

    Args:
        shown: what it says.
        labels: values of settings to the texts that tables print.
    """
    parts = []
    about = shown.get("about", "")
    if traces := shown.get("traces"):
        body = "".join(map(_trace, traces))
        parts.append(_block("Figure 3.", _TRACES, about, f'<div class="panels">{body}</div>'))
    if series := shown.get("series"):
        lines = legend({Heading(n, n): i for i, n in enumerate(series[0]["names"])}, "")
        body = "".join(map(_series, series))
        parts.append(_block("", _SERIES, about, f'{lines}<div class="panels">{body}</div>'))
    if episodes := shown.get("episodes"):
        body = "".join(_episode(episode, labels or {}) for episode in episodes)
        parts.append(_block("", _EPISODES, about, f'<div class="shows">{body}</div>'))
    if note := shown.get("note"):
        parts.append(f"<p><small>{escape(note)}</small></p>\n")
    return "".join(parts)


def _block(name: str, caption: str, about: str, body: str) -> str:
    return (
        f'<figure class="chart"><figcaption><b>{name}</b> {escape(caption)} '
        f"<small>{escape(about)}</small></figcaption>\n{body}</figure>\n"
    )


def _trace(trace: Mapping[str, Any]) -> str:
    words, values, target = trace["words"], trace["values"], trace["target"]
    frame = _frame(len(words), [*values, *([] if target is None else [target])])
    ticks = [(float(i), word) for i, word in enumerate(words)]
    parts = [frame.axes("", "", ticks)]
    if target is not None:
        y, x = frame.y(target), frame.x
        parts.append(f'<path class="line c1 d1" d="M{x.start:.1f} {y:.1f}H{x.end:.1f}"/>')
    points = [(frame.x(i), frame.y(v)) for i, v in enumerate(values)]
    parts.append(f'<path class="line c0" d="{path(points)}"/>')
    for (left, top), value in zip(points, values, strict=True):
        parts.append(f'<circle class="dot c0" cx="{left:.1f}" cy="{top:.1f}" r="3"/>')
        parts.append(text(left, top - 7, f"{value:.1f}", ' text-anchor="middle"'))
    title = " ".join(words) + ("" if target is None else f" = {target:g}")
    return _panel(title if target is None else f"{target:g}", title, parts)


def _series(series: Mapping[str, Any]) -> str:
    values, targets, names = series["values"], series["targets"], series["names"]
    count = len(values)
    frame = _frame(count, [v for row in (*values, *targets) for v in row])
    ticks = [(float(i), str(i + 1)) for i in range(0, count, max(1, count // 10))]
    parts = [frame.axes("images", "", ticks)]
    for index in range(len(names)):
        style = style_of(index).split()[0]
        right = _stairs(frame, [row[index] for row in targets])
        parts.append(f'<path class="answer {style}" d="{right}"/>')
        points = [(frame.x(i), frame.y(row[index])) for i, row in enumerate(values)]
        parts.append(f'<path class="line {style}" d="{path(points)}"/>')
    source = f"data:image/png;base64,{escape(series['png'])}"
    strip = f'<img class="strip" alt="{count} images from left to right" src="{source}">'
    ends = zip(names, values[-1], targets[-1], strict=True)
    last = ", ".join(f"{name} {short(value)} ({target:g})" for name, value, target in ends)
    return f"<div>{strip}{_panel('', f'after the last image: {last}', parts)}</div>"


def _stairs(frame: Frame, values: Sequence[float]) -> str:
    half = 0.5 * (frame.x(1) - frame.x(0))
    return path(
        point
        for i, v in enumerate(values)
        for point in ((frame.x(i) - half, frame.y(v)), (frame.x(i) + half, frame.y(v)))
    )


def _frame(count: int, values: Sequence[float]) -> Frame:
    x = Scale(-0.5, max(count - 0.5, 0.5), 52, _WIDTH - 12)
    return Frame(_WIDTH, _HEIGHT, x, scale(values, _HEIGHT - 32, 28))


def _panel(title: str, name: str, parts: Sequence[str]) -> str:
    head = text(52, 13, title, ' class="title"') if title else ""
    return (
        f'<svg class="panel" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-label="{escape(name)}"><title>{escape(name)}</title>{head}{"".join(parts)}</svg>'
    )


def _episode(episode: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Returns a board, whose agent the page's script moves."""
    rows, columns = len(episode["walls"]), len(episode["walls"][0])
    walls = "".join(
        f'<rect class="wall" x="{c}" y="{r}" width="1" height="1"/>'
        for r, line in enumerate(episode["walls"])
        for c, is_wall in enumerate(line)
        if is_wall
    )
    row, column = episode["target"]
    y, x, said = episode["moments"][-1]
    data = escape(json.dumps(episode["moments"], ensure_ascii=False, separators=(",", ":")))
    agent = [labels.get(episode[key], episode[key]) for key in ("variant", "algorithm")]
    shipped = " (comes with nalu-ray)" if episode.get("shipped") else ""
    name = f"{' '.join(agent)}{shipped}, T = {episode['instruction']}"
    return (
        f'<figure class="show" data-moments="{data}">\n'
        f"<figcaption><b>{escape(name)}</b>: {escape(episode['outcome'])}</figcaption>\n"
        f'<svg viewBox="0 0 {columns} {rows}" role="img" aria-label="{escape(name)}">'
        f'<rect class="floor" width="{columns}" height="{rows}"/>{walls}'
        f'<rect class="target" x="{column}" y="{row}" width="1" height="1"/>'
        f'<rect class="agent" x="{x + 0.15:g}" y="{y + 0.15:g}" width=".7" height=".7"/></svg>\n'
        '<div class="controls"><button type="button">Play</button>'
        f'<input type="range" min="0" max="{len(episode["moments"]) - 1}" value="0" '
        f'aria-label="time, {escape(name)}"></div>\n'
        f"<output>{escape(said)}</output></figure>\n"
    )
