"""Rows, columns and lines of tables and figures: values of one field of the settings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nalu_ray.results.analysis.text import stored
from nalu_ray.results.specs import Axis
from nalu_ray.results.store.rows import setting_fields


@dataclass(frozen=True)
class Heading:
    """A row, column or line: the value of its field, and the label that is printed."""

    key: str
    label: str


def headings(axis: Axis, values: Iterable[object]) -> tuple[Heading, ...]:
    """Returns the labelled values in printed order, then stored values without a label."""
    keys = {value for value in values if isinstance(value, str)}
    beside = {
        apart_key(name, condition): label
        for condition, names in axis.apart.items()
        for name, label in names.items()
    }
    shown = list(axis.labels)
    if axis.others:
        others = {base_key(key) if key in beside else key for key in keys} - set(axis.labels)
        shown += sorted(others, key=_numbers_first)
    return tuple(
        heading
        for name in shown
        for heading in (
            Heading(name, axis.labels.get(name, axis.more.get(name, name))),
            *(Heading(k, beside[k]) for k in beside if k in keys and base_key(k) == name),
        )
        if name in axis.labels or heading.key in keys
    )


def axis_column(frame: pd.DataFrame, axis: Axis) -> pd.Series[Any]:
    """Returns the key of the heading that each row belongs under; see ``Axis.apart``."""
    keys = stored_column(frame, axis.field)
    for condition, names in axis.apart.items():
        has = _fits(frame, condition)
        apart = {name: apart_key(name, condition) for name in names}
        keys = keys.where(~(has & keys.isin(names)), keys.map(apart))
    return keys


def apart_key(name: str, condition: str) -> str:
    """Returns the key of a value's rows that stand apart by another field, or field<number."""
    return f"{name}@{condition}"


def _fits(frame: pd.DataFrame, condition: str) -> pd.Series[bool]:
    field, _, bound = condition.partition("<")
    if field not in frame:
        return pd.Series(False, index=frame.index)
    if not bound:
        return frame[field].notna()
    return pd.to_numeric(frame[field], errors="coerce") < float(bound)


def base_key(key: str) -> str:
    """Returns the value of a heading's field, without the other field that sets it apart."""
    return key.partition("@")[0]


def stored_column(frame: pd.DataFrame, field: str) -> pd.Series[Any]:
    """Returns a setting's field as :func:`.text.stored` texts; missing values stay missing."""
    if field not in frame:
        return pd.Series([None] * len(frame), index=frame.index, dtype=object)
    column = frame[field].astype(object)
    names = {value: stored(value) for value in column.dropna().unique()}
    return column.map(names)


def setting_labels(settings: pd.DataFrame, axes: Iterable[str]) -> dict[str, str]:
    """Names the fields that vary: setting id to a label such as ``lr=0.1, hidden=2``.

    Args:
        settings: one row per setting.
        axes: fields to leave out, because rows and columns name them.
    """
    fields = [name for name in setting_fields(settings) if name not in {*axes}]
    texts = {name: stored_column(settings, name).tolist() for name in fields}
    varying = [name for name in fields if len({*map(str, texts[name])}) > 1]
    return {
        str(sid): ", ".join(f"{f}={texts[f][i]}" for f in varying if isinstance(texts[f][i], str))
        for i, sid in enumerate(settings["setting_id"])
    }


def _numbers_first(key: str) -> tuple[float, str]:
    try:
        return float(key), key
    except ValueError:
        return math.inf, key
