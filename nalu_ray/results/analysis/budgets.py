"""What the cells of a table, or the lines of a figure, had of steps and seeds where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from nalu_ray.results.analysis.text import in_full

_NAMED = 6


@dataclass(frozen=True)
class Spent:
    """The budget behind one number.

    Attributes:
        model, problem: labels of what is compared, and of what it is compared on.
        values: of each field, as text.
    """

    model: str
    problem: str
    values: Mapping[str, str]


def values_of(settings: pd.DataFrame, fields: Iterable[str]) -> dict[str, dict[str, str]]:
    """Reads fields of settings, a row each, as texts by setting id; only fields that rows have."""
    known = [name for name in fields if name in settings]
    texts = {name: [_text(value) for value in settings[name].astype(object)] for name in known}
    return {
        str(sid): {name: texts[name][i] for name in known}
        for i, sid in enumerate(settings["setting_id"])
    }


def describe(spent: Sequence[Spent]) -> str:
    """Returns a sentence that names the fields that differ and who had what; none: empty."""
    fields = dict.fromkeys(name for item in spent for name in item.values)
    phrases = [_phrase(name, spent) for name in fields]
    differing = "; ".join(phrase for phrase in phrases if phrase)
    return f"Budgets differ: {differing}." if differing else ""


def _phrase(name: str, spent: Sequence[Spent]) -> str:
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
    return ", ".join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _text(value: object) -> str:
    text = in_full(value)
    return f"{int(text):,}" if text.isdecimal() else text
