"""Texts of tables and figures: stored values and captions.

Captions and labels are made of the settings that the rows were run with, not of their defaults. A
text of a specification names fields in braces: ``trained on series of {length}`` says what the
rows' ``length`` was. Where settings differ, their values are listed: ``10 or 20``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec

Spec = TypeVar("Spec", TableSpec, FigureSpec)

_FIELD = re.compile(r"\{(\w+)\}")
_LISTED = 4
_NAMED = 6


def spans(seeds: Iterable[int]) -> list[str]:
    """Returns seeds as runs of neighbours, in order: ``0-9`` or ``3`` each."""
    numbered = enumerate(sorted(seeds))
    runs = [[seed for _, seed in run] for _, run in groupby(numbered, lambda at: at[1] - at[0])]
    return [f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def seeds_word(seeds: Iterable[int]) -> str:
    """Returns seeds as the command line has them; a comma, as ``3`` alone is a count."""
    parts = spans(seeds)
    return ",".join(parts) + "," * (len(parts) == 1 and "-" not in parts[0])


def stored(value: Any) -> str:
    """Returns a setting's value as axes and labels name it.

    ``100.0`` is ``100``: a whole number comes back as a float when another file lacks the column.
    Different values have different names.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        short = f"{value:g}"
        return short if float(short) == value else str(value)
    return str(value)


def in_full(value: Any) -> str:
    """Returns a stored value in full: equal values give equal texts, however they were stored."""
    if isinstance(value, str) and value.startswith("["):
        try:
            return in_full(json.loads(value))
        except (ValueError, RecursionError):
            return value
    if isinstance(value, list | tuple):
        return ":".join(map(in_full, value))
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "none" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)


def filled(spec: Spec, rows: pd.DataFrame) -> Spec:
    """Fills the fields of a specification's texts, scales and shade from stored rows.

    Args:
        spec: as declared; a filled one is returned unchanged.
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
    """Returns the distinct stored values of a field, numbers in order."""
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
    """Returns a stored value as a sentence has it; a pair is a range."""
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
    """Returns a sentence on the fields that differ from the paper's; empty if none does."""
    texts = []
    for field, expected in paper.items():
        values = _values(field, settings)
        written = " or ".join(map(_printed, values))
        if values and written != _printed(expected):
            texts.append(f"{field}={written} ({_printed(expected)})")
    return f" Unlike the paper, whose values are in parentheses: {', '.join(texts)}." * bool(texts)


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
    """Returns a field's number; NaN unless all rows have the same."""
    values = _values(field, settings)
    return _number(values[0])[0] if len(values) == 1 and values[0] != "none" else math.nan


def _range(field: str, settings: pd.DataFrame) -> tuple[float, float] | None:
    """Returns a range stored as a pair, or as a limit L for (-L, L); None if rows differ."""
    values = _values(field, settings)
    items = _list(values[0]) if len(values) == 1 else None
    if items is None:
        limit = _limit(field, settings)
        low, high = -limit, limit
    else:
        low, high = (_number(stored(item))[0] for item in items) if len(items) == 2 else (0.0, 0.0)
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


@dataclass(frozen=True)
class Budget:
    """The budget or the recipe that one number was trained and measured with.

    Attributes:
        model, problem: labels of the model that is compared, and of the problem on which it is
            compared.
        values: field to value, as text.
    """

    model: str
    problem: str
    values: Mapping[str, str]


def budgets(settings: pd.DataFrame, fields: Iterable[str]) -> dict[str, dict[str, str]]:
    """Reads fields of settings, one row per setting: setting id to field to text."""
    known = [name for name in fields if name in settings]
    texts = {name: [_grouped(value) for value in settings[name].astype(object)] for name in known}
    return {
        str(sid): {name: texts[name][i] for name in known}
        for i, sid in enumerate(settings["setting_id"])
    }


def budget_sentence(spent: Sequence[Budget], what: str = "Budgets") -> str:
    """Returns a sentence on the fields that differ and their values; empty if none differs.

    Args:
        spent: the fields of each number.
        what: what differs, the sentence's first word.
    """
    fields = dict.fromkeys(name for item in spent for name in item.values)
    phrases = [_phrase(name, spent) for name in fields]
    differing = "; ".join(phrase for phrase in phrases if phrase)
    return f"{what} differ: {differing}." if differing else ""


def _phrase(name: str, spent: Sequence[Budget]) -> str:
    had = [(item, item.values.get(name, "none")) for item in spent]
    if len({value for _, value in had}) < 2:
        return ""
    by_model = [(item.model, value) for item, value in had]
    by_problem = [(item.problem, value) for item, value in had]
    by_both = [(f"{item.model} at {item.problem}", value) for item, value in had]
    for labelled in (by_model, by_problem, by_both):
        who: dict[str, list[str]] = {}
        for label, value in dict.fromkeys(labelled):
            who.setdefault(value, []).append(label)
        if sum(map(len, who.values())) == len({label for label, _ in labelled}):
            break
    *fewer, (most, _) = sorted(who.items(), key=lambda item: len(item[1]))
    parts = [f"{value} ({_listed(labels)})" for value, labels in fewer]
    return f"{name} {', '.join(parts)}, {most} (all others)"


def _listed(labels: Sequence[str]) -> str:
    more = len(labels) - _NAMED
    between = "; " if any(", " in label for label in labels) else ", "
    return between.join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _grouped(value: object) -> str:
    text = in_full(value)
    return f"{int(text):,}" if text.isdecimal() else text
