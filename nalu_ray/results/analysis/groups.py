"""Stored rows of one task, split where numbers must not be compared.

Several presets are other budgets, and several problems are other data.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import pandas as pd

from nalu_ray.results.analysis.text import in_full
from nalu_ray.results.specs import FigureSpec, TableSpec
from nalu_ray.results.store.rows import CHANGES, PRESET, RUN, setting_fields

MOST = "most frequent"
SMOKE = "smoke"
_LONGEST = 100

Members = Mapping[str, Collection[str]]
"""Preset to the ids of its settings."""

Changes = tuple[tuple[str, str], ...]
"""Field and value of what was changed, in alphabetical order."""


@dataclass(frozen=True)
class Sweep:
    """The preset, and changes of its budget, that a table's or figure's rows come from.

    Attributes:
        preset: its name; empty for rows of versions that did not record it.
        changes: fields of the budget that were changed from the preset, with their values.
        tuned: other changed fields and their values, by setting id; selection chooses among them.
        earlier: ids of settings that an earlier version of the preset had, and this one has not.
        several: fields of the budget that differ within a cell, with their values. Only for a
            preset of the user's file, which may have had other contents under this name.
    """

    preset: str
    changes: Changes = ()
    tuned: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    earlier: frozenset[str] = field(default=frozenset(), compare=False)
    several: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)

    @property
    def changed(self) -> str:
        """Returns the changes as the command line has them, ``batch=64 steps=100``."""
        return " ".join(f"{name}={value}" for name, value in self.changes)

    @property
    def label(self) -> str:
        """Returns a short name: ``laptop``, ``laptop batch=64``; empty if it was not recorded."""
        return f"{self.preset} {self.changed}".strip()

    def describe(self) -> str:
        """Returns the preset as a sentence of a caption."""
        if not self.preset:
            return "Preset: not recorded."
        changed = f" with {self.changed}" if self.changes else ""
        smoke = " (shows that everything runs; not a result)"
        texts = [f"{name}={', '.join(values)}" for name, values in self.several.items()]
        several = f" (its cells are selected among {'; '.join(texts)})" if texts else ""
        return f"Preset: {self.preset}{changed}{several}{smoke * (self.preset == SMOKE)}."


def sweeps(
    spec: TableSpec | FigureSpec, rows: pd.DataFrame, members: Members | None = None
) -> list[tuple[Sweep, pd.DataFrame]]:
    """Splits rows by the preset that asked for their settings, and by changes of its budget.

    A setting belongs to every preset under which one of its seeds was stored, and to each such
    preset that has it among its ``members``. If its rows name no preset, or only smoke, it belongs
    to the first preset that has it as a member. Rows without any preset form a group.

    Changes of fields in ``spec.budget`` make another group, which also has the preset's settings
    with the same values. Other changes do not split rows: the table selects among them.

    Args:
        spec: the table or figure.
        rows: (rows, columns) as :meth:`Store.load` gives them.
        members: settings of the shipped presets.

    Returns:
        Sweep and rows of each group: the groups with the most runs (seeds of settings) first, smoke
        runs last.
    """
    changed = _changed(rows)
    _join(changed, members or {})
    budgets = {
        sid: {name: _only(changes, spec.budget) for name, changes in presets.items()}
        for sid, presets in changed.items()
    }
    values = _values(rows, {name for of in budgets.values() for c in of.values() for name, _ in c})
    runs = rows[RUN].drop_duplicates()["setting_id"].value_counts()
    fields = {*setting_fields(rows)} - {*spec.budget}
    groups = []
    for preset, changes in {item for presets in budgets.values() for item in presets.items()}:
        ids = [
            sid
            for sid, presets in budgets.items()
            if preset in presets
            and (presets[preset] == changes or _has_anyway(presets[preset], changes, values[sid]))
        ]
        made = {sid: changed[sid][preset] for sid in ids}
        tuned = {sid: {name: of[name] for name in fields & {*of}} for sid, of in made.items()}
        now = (members or {}).get(preset, ids)
        earlier = frozenset(sid for sid, of in made.items() if not of and sid not in now)
        own = bool(preset) and preset not in (members or {})
        several = _several(spec, rows[rows["setting_id"].isin(ids)]) if own else {}
        groups.append((Sweep(preset, changes, tuned, earlier, several), ids))
    groups.sort(key=lambda item: (item[0].preset == SMOKE, -runs[item[1]].sum(), item[0].label))
    if len(groups) < 2:
        return [(groups[0][0] if groups else Sweep(""), rows)]
    return [(sweep, rows[rows["setting_id"].isin(ids)]) for sweep, ids in groups]


def shows(spec: TableSpec | FigureSpec, sweep: Sweep) -> bool:
    """Whether ``spec.presets`` admits the preset of some rows."""
    wanted = [pattern for pattern in spec.presets if pattern[:1] != "!"]
    unwanted = [pattern[1:] for pattern in spec.presets if pattern[:1] == "!"]
    return any(fnmatchcase(sweep.preset, pattern) for pattern in wanted or ["*"]) and not any(
        fnmatchcase(sweep.preset, pattern) for pattern in unwanted
    )


def problems(spec: TableSpec | FigureSpec, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Splits rows by the settings' fields that define the data.

    These are ``spec.problem`` and ``spec.follows``. A field that follows another is the data of
    that other field's value: it splits rows only where one such value has several of it.

    Args:
        spec: the table or figure. A field that is an axis of its problems, of its panels or of x
            does not split rows.
        rows: (rows, columns) as :meth:`Store.load` gives them.

    Returns:
        Label and rows of each problem, the one with most runs (seeds of settings) first. A label
        names the fields that differ, ``train_range=0:0.01, test_range=0:0.03``; it is empty where
        there is one problem only. A field that no row has does not count; a row without a field
        that others have is of another problem.
    """
    settings = rows.drop_duplicates("setting_id")
    fields = [name for name in spec.problem if name in rows and name not in _told_apart(spec)]
    texts = {name: [in_full(value) for value in settings[name].astype(object)] for name in fields}
    for name, leader in spec.follows.items():
        if name in settings and leader in settings:
            fields.append(name)
            texts[name] = _deviating(settings[name], settings[leader])
    varying = [name for name in fields if len(set(texts[name])) > 1]
    if not varying:
        return [("", rows)]
    columns = zip(*(texts[name] for name in varying), strict=True)
    labels = [", ".join(map("=".join, zip(varying, values, strict=True))) for values in columns]
    of_setting = dict(zip(settings["setting_id"], labels, strict=True))
    of_row = rows["setting_id"].map(of_setting).to_numpy(object)
    runs = rows[RUN].drop_duplicates()["setting_id"].map(of_setting).value_counts()
    order = sorted(set(labels), key=lambda label: (-int(runs[label]), label))
    return [(label, rows[of_row == label]) for label in order]


def _deviating(values: pd.Series, leaders: pd.Series) -> list[str]:
    """Returns values as texts, ``MOST`` for the most frequent one among those of one leader."""
    texts = pd.Series([in_full(value) for value in values.astype(object)])
    led = pd.Series([in_full(leader) for leader in leaders.astype(object)])
    most = texts.groupby(led).transform(lambda group: group.mode()[0])
    return [MOST if text == usual else text for text, usual in zip(texts, most, strict=True)]


def described(caption: str, problem: str, sweep: Sweep | None = None) -> str:
    """Returns a caption that names the problem and the preset."""
    data = f"Data: {problem}." if problem else ""
    return " ".join(part for part in (caption, data, sweep.describe() if sweep else "") if part)


def _told_apart(spec: TableSpec | FigureSpec) -> set[str]:
    """Returns the fields whose values the table or figure shows apart."""
    if isinstance(spec, FigureSpec):
        panels = {spec.panels.field} if spec.panels else set()
        return panels | ({spec.swept} if spec.swept else set())
    axis = spec.columns if spec.compared == "rows" else spec.rows
    return {name for name in (axis.field if axis else None, spec.pooled) if name}


def _changed(rows: pd.DataFrame) -> dict[str, dict[str, dict[str, str]]]:
    """Returns changes by setting id and preset; empty where no row names a preset."""
    columns = [name for name in (PRESET, CHANGES) if name in rows]
    stored = rows[["setting_id", *columns]].drop_duplicates()
    changes_of: dict[str, dict[str, dict[str, str]]] = {str(s): {} for s in stored["setting_id"]}
    if PRESET in columns:
        named = stored[stored[PRESET].notna()].reindex(columns=["setting_id", PRESET, CHANGES])
        for sid, preset, changes in named.itertuples(index=False):
            if _is_plain(str(preset)):
                changes_of[str(sid)].setdefault(str(preset), _read(changes))
    return changes_of


def _join(changed: dict[str, dict[str, dict[str, str]]], members: Members) -> None:
    """Adds the presets that settings are members of, where their rows do not name them."""
    stored = {preset for presets in changed.values() for preset in presets}
    ordered = sorted(members, key=lambda preset: preset == SMOKE)
    for sid, presets in changed.items():
        of = [preset for preset in ordered if sid in members[preset]]
        likely = of[:1] or ([] if presets else [""])
        if not set(presets) - {SMOKE}:
            presets.update({preset: {} for preset in likely if preset not in presets})
        for preset in stored.intersection(of):
            presets.setdefault(preset, {})


def _read(text: object) -> dict[str, str]:
    """Reads a stored ``changes`` column; anything unreadable counts as no change."""
    try:
        values = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        values = {}
    if not isinstance(values, dict):
        return {}
    texts = {name: in_full(value) for name, value in values.items()}
    return {name: text for name, text in texts.items() if _is_plain(text)}


def _is_plain(text: str) -> bool:
    """Whether a stored text is fit for a caption."""
    return text.isprintable() and 0 < len(text) <= _LONGEST


def _several(spec: TableSpec | FigureSpec, rows: pd.DataFrame) -> dict[str, list[str]]:
    """Returns the fields of the budget with several values in one cell, each with its values."""
    axes = (spec.rows, spec.columns) if isinstance(spec, TableSpec) else (spec.lines, spec.panels)
    swept = "" if isinstance(spec, TableSpec) else spec.swept
    names = [axis.field for axis in axes if axis]
    fields = [name for name in spec.budget if name in rows and name not in {*names, swept}]
    values = _values(rows, {*names, *fields})
    several = {}
    for name in fields:
        cells: dict[tuple[str, ...], set[str]] = {}
        for of in values.values():
            cells.setdefault(tuple(of[axis] for axis in names), set()).add(of[name])
        found = set().union(*(cell for cell in cells.values() if len(cell) > 1))
        if found:
            several[name] = sorted(found, key=lambda text: (len(text), text))
    return several


def _only(changes: Mapping[str, str], fields: Collection[str]) -> Changes:
    return tuple(sorted((name, value) for name, value in changes.items() if name in fields))


def _has_anyway(changes: Changes, wanted: Changes, values: Mapping[str, str]) -> bool:
    """Whether a setting has the wanted values without having changed anything else."""
    more = {name for name, _ in changes} - {name for name, _ in wanted}
    return not more and all(values[name] == value for name, value in wanted)


def _values(rows: pd.DataFrame, fields: Iterable[str]) -> dict[str, dict[str, str]]:
    """The values of some fields, by setting id; ``none`` where a setting has no such field."""
    settings = rows.drop_duplicates("setting_id")
    known = sorted(set(fields) & set(setting_fields(rows)))
    texts = {name: [in_full(value) for value in settings[name].astype(object)] for name in known}
    return {
        str(sid): {name: texts[name][i] if name in texts else "none" for name in fields}
        for i, sid in enumerate(settings["setting_id"])
    }
