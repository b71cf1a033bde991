"""Filters of a report, ``layer=nac,nalu op=mul preset=laptop seeds=0-9``: which rows it shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from nalu_ray.errors import ConfigError, did_you_mean, shown
from nalu_ray.results.analysis.text import in_full
from nalu_ray.results.store.rows import RUN, setting_fields

PRESET, SEEDS, ALL = "preset", "seeds", "all"


@dataclass(frozen=True)
class Filter:
    """What is shown of a task's rows.

    Attributes:
        settings: ids of the settings; empty for all.
        presets: presets whose tables and figures are shown; empty for all.
        seeds: seeds whose rows count; empty for all.
        runs: (setting id, seed) of the only runs whose rows count; None for all.
        words: the filter as the command line has it.
    """

    settings: frozenset[str] = frozenset()
    presets: frozenset[str] = frozenset()
    seeds: frozenset[int] = frozenset()
    words: tuple[str, ...] = ()
    runs: frozenset[tuple[str, int]] | None = None

    def rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Returns the rows of the shown settings and seeds."""
        if self.settings:
            rows = rows[rows["setting_id"].isin(self.settings)]
        if self.runs is not None:
            rows = rows[pd.MultiIndex.from_frame(rows[RUN]).isin(self.runs)]
        return rows[rows["seed"].isin(self.seeds)] if self.seeds else rows


def read(
    given: Mapping[str, Sequence[str]],
    rows: pd.DataFrame,
    presets: Collection[str],
    seeds: Sequence[int] = (),
    words: Sequence[str] = (),
) -> Filter:
    """Reads a filter.

    Args:
        given: field to its values, as texts; ``preset`` is one of the fields.
        rows: the stored rows.
        presets: the presets that have a table or figure of these rows.
        seeds: the seeds to show; none for all.
        words: the filter as the command line has it.

    Raises:
        ConfigError: all unknown fields and values, with those that are stored; or no stored setting
            has all of the values, with one of the seeds.
    """
    settings = rows.drop_duplicates("setting_id")
    fields = setting_fields(rows)
    kept = pd.Series(True, index=settings.index)
    mistakes: list[str] = []
    wanted: set[str] = set()
    for name, texts in given.items():
        if name == PRESET:
            wanted = {text for text in texts if text in presets}
            mistakes += [_unknown_preset(t, presets) for t in texts if t not in presets]
        elif name not in fields:
            mistakes.append(did_you_mean("field", name, [*fields, PRESET, SEEDS]))
        elif list(texts) != [ALL]:
            stored = settings[name].astype(object).map(in_full)
            values, wrong = _values(name, texts, list(dict.fromkeys(stored)))
            mistakes += wrong
            kept &= stored.isin(values)
    if seeds and not rows["seed"].isin(seeds).any():
        mistakes.append("seeds: none of them is stored")
    ids = frozenset() if kept.all() else frozenset(map(str, settings.loc[kept, "setting_id"]))
    only = Filter(ids, frozenset(wanted), frozenset(seeds), tuple(words))
    if not mistakes and (not kept.any() or only.rows(rows).empty):
        mistakes.append(nothing(words))
    if mistakes:
        raise ConfigError(mistakes)
    return only


def nothing(words: Sequence[str]) -> str:
    """Returns the message for a filter that leaves no row."""
    return f"{' '.join(words)}: no stored rows have all of these values"


def _unknown_preset(name: str, presets: Collection[str]) -> str:
    if not presets:
        return f"preset={shown(name)}: the stored rows have no preset"
    return did_you_mean(PRESET, name, presets)


def _values(name: str, texts: Sequence[str], stored: Sequence[str]) -> tuple[set[str], list[str]]:
    """Returns the stored values that texts stand for, and a mistake per text without one."""
    values, mistakes = set(), []
    for text in texts:
        equal = {value for value in stored if value == text or _same_number(value, text)}
        if not equal:
            known = sorted(stored, key=_numbers_first)
            mistakes.append(f"{name}={shown(text)}: {did_you_mean('value', text, known)}")
        values |= equal
    return values, mistakes


def _same_number(text: str, other: str) -> bool:
    try:
        return float(text) == float(other)
    except ValueError:
        return False


def _numbers_first(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


EVERYTHING = Filter()
