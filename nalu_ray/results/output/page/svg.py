"""Axes and marks as SVG text: sizes in pixels, colours by class, as the page's style has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

TICKS = 5
_LEAST, _MOST = 1e-300, 1e300  # beyond them, the ends of an axis are no floats
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map of values in [low, high] to pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Returns the pixel of a value; one outside the range is put at its end."""
        low, high, value = (self._inner(x) for x in (self.low, self.high, value))
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return self.start + share * (self.end - self.start)

    def _inner(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.log else value

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Values of the ticks, and their texts."""
        if self.log:
            return _powers(self.low, self.high)
        step = _step((self.high - self.low) / TICKS)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(n * step, short(n * step)) for n in range(first, last + 1)]


def scale(values: Iterable[float], start: float, end: float, *, log: bool = False) -> Scale:
    """Returns a scale that covers the values.

    It ignores values that are not finite and, on a log axis, those that are not positive.

    Args:
        values: the values.
        start, end: pixels of the lowest and of the highest value.
        log: whether the scale is logarithmic.
    """
    shown = [v for v in values if abs(v) < _MOST and (v > _LEAST if log else True)]
    low, high = (min(shown), max(shown)) if shown else (1.0, 10.0)
    if log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
        return Scale(low, high if high > low else 10 * low, start, end, log)
    room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
    return Scale(low - room, high + room, start, end)


def short(value: float) -> str:
    """Returns a number in three digits, as a tick or a tooltip has it."""
    if value and not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.2e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def path(points: Iterable[tuple[float, float]]) -> str:
    """Returns the ``d`` of a line through pixels, interrupted at points that are not finite."""
    parts, command = [], "M"
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            command = "M"
            continue
        parts.append(f"{command}{x:.1f} {y:.1f}")
        command = "L"
    return "".join(parts)


def text(x: float, y: float, content: str, more: str = "") -> str:
    """Returns a text at a pixel; ``more``: attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(content)}</text>'


@dataclass(frozen=True)
class Frame:
    """A panel's area and axes; both scales map to pixels of the panel."""

    width: float
    height: float
    x: Scale
    y: Scale

    def axes(self, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]] = ()) -> str:
        """Returns grid lines, ticks and labels.

        Args:
            x_label, y_label: titles of the axes; empty for none.
            x_ticks: value and label of each tick of x; by default those of the scale.
        """
        left, right, bottom, top = self.x.start, self.x.end, self.y.start, self.y.end
        parts = []
        for value, label in self.y.ticks:
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
            parts.append(text(left - 5, y + 3.5, label, ' text-anchor="end"'))
        for value, label in x_ticks or self.x.ticks:
            x = self.x(value)
            parts.append(f'<path class="tick" d="M{x:.1f} {bottom:.1f}v4"/>')
            parts.append(text(x, bottom + 15, label, ' text-anchor="middle"'))
        parts.append(f'<path class="axis" d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"/>')
        if x_label:
            middle = (left + right) / 2
            parts.append(text(middle, self.height - 4, x_label, ' text-anchor="middle"'))
        if y_label:
            turned = f' text-anchor="middle" transform="rotate(-90 11 {(top + bottom) / 2:.1f})"'
            parts.append(text(11, (top + bottom) / 2, y_label, turned))
        return "".join(parts)


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= 0.9 * rough)


def _powers(low: float, high: float) -> list[tuple[float, str]]:
    first, last = round(math.log10(low)), round(math.log10(high))
    step = max(1, math.ceil((last - first) / TICKS))
    return [
        (10.0**n, str(10**n) if 0 <= n <= 2 else f"10{str(n).translate(_SUPERSCRIPTS)}")
        for n in range(first, last + 1, step)
    ]
