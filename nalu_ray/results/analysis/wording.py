"""Captions and labels made of the settings that the rows were run with, not of their defaults.

A text of a specification names fields in braces: ``trained on series of {length}`` says what the
rows' ``length`` was. What several settings have otherwise is listed, ``10 or 20``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import pandas as pd

from nalu_ray.results.analysis.text import stored
from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec

Spec = TypeVar("Spec", TableSpec, FigureSpec)

_FIELD = re.compile(r"\{(\w+)\}")
_LISTED = 4


def filled(spec: Spec, rows: pd.DataFrame) -> Spec:
    """Returns a specification whose texts, scales and shade are those of stored rows.

    Args:
        spec: as declared; one that is filled comes back as it is.
        rows: (rows, columns) as :meth:`Store.load` gives them, of one problem.
    """
    settings = rows.drop_duplicates("setting_id")

    def say(text: str) -> str:
        return _say(text, spec.words, settings)

    changes: dict[str, Any] = {"caption": say(spec.caption + _deviations(spec.paper, settings))}
    if isinstance(spec, TableSpec):
        changes["measures"] = {
            key: _measure(measure, say, settings) for key, measure in spec.measures.items()
        }
        changes |= {name: _axis(getattr(spec, name), say) for name in ("rows", "columns")}
    else:
        changes |= {name: say(getattr(spec, name)) for name in ("x_label", "y_label")}
        changes |= {name: _axis(getattr(spec, name), say) for name in ("lines", "panels")}
        changes["shade"] = (
            _range(spec.shade, settings) if isinstance(spec.shade, str) else spec.shade
        )
    return spec.model_copy(update={**changes, "paper": {}})


def _say(text: str, words: dict[str, dict[str, str]], settings: pd.DataFrame) -> str:
    def written(match: re.Match[str]) -> str:
        field = match[1]
        values = _values(field, settings)
        known = words.get(field, {})
        texts = [
            _say(known[value], {}, settings) if value in known else _printed(value)
            for value in values
        ]
        if len(texts) > _LISTED:
            texts = [*texts[: _LISTED - 1], f"{len(texts) - _LISTED + 1} others"]
        return " or ".join(texts) or field  # rows of a version without the field

    return _FIELD.sub(written, text)


def _values(field: str, settings: pd.DataFrame) -> list[str]:
    """The values of a field in the rows, each once, as they are stored, numbers in order."""
    if field not in settings:
        return []
    column = settings[field].astype(object)
    none = ["none"] if column.isna().any() else []
    return [*sorted({stored(value) for value in column.dropna()}, key=_number), *none]


def _number(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return math.inf, text


def _printed(value: str) -> str:
    """A stored value for a sentence: a pair is a range."""
    items = _list(value)
    texts = [value] if items is None else [stored(item) for item in items]
    text = " to ".join(texts) if len(texts) == 2 else ", ".join(texts)
    return "".join(character if character.isprintable() else "?" for character in text)


def _list(value: str) -> list[Any] | None:
    if not value.startswith("["):
        return None
    try:
        items = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return items if isinstance(items, list) else None


def _deviations(paper: dict[str, str], settings: pd.DataFrame) -> str:
    """A sentence that names the fields that the paper has otherwise; empty if there are none."""
    texts = []
    for field, expected in paper.items():
        values = _values(field, settings)
        written = " or ".join(map(_printed, values))
        if values and written != _printed(expected):
            texts.append(f"{field}={written} ({_printed(expected)})")
    return f" Not as in the paper, whose values are in parentheses: {', '.join(texts)}." * bool(
        texts
    )


def _axis(axis: Axis | None, say: Callable[[str], str]) -> Axis | None:
    if axis is None:
        return None
    labels = {
        name: {k: say(v) for k, v in getattr(axis, name).items()} for name in ("labels", "more")
    }
    return axis.model_copy(update=labels)


def _measure(measure: Measure, say: Callable[[str], str], settings: pd.DataFrame) -> Measure:
    changes: dict[str, Any] = {"label": say(measure.label)}
    if measure.percent_of_zero is not None:
        limit = _limit(measure.percent_of_zero, settings)
        scale = 100 * (2 * limit + 1) / (limit * (limit + 1)) if limit > 0 else math.nan
        changes |= {"scale": scale, "percent_of_zero": None}
    return measure.model_copy(update=changes)


def _limit(field: str, settings: pd.DataFrame) -> float:
    """A field's number; NaN unless the rows have one alone."""
    values = _values(field, settings)
    return _number(values[0])[0] if len(values) == 1 and values[0] != "none" else math.nan


def _range(field: str, settings: pd.DataFrame) -> tuple[float, float] | None:
    """The range that a field holds, as a pair or as its limit to both sides; none if several."""
    values = _values(field, settings)
    items = _list(values[0]) if len(values) == 1 else None
    if items is None:
        limit = _limit(field, settings)
        low, high = -limit, limit
    else:
        low, high = (_number(stored(item))[0] for item in items) if len(items) == 2 else (0.0, 0.0)
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None
