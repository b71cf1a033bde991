"""Stored rows of one task may be of several problems: other data, so numbers not to be compared."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from nalu_ray.results.specs import FigureSpec, TableSpec
from nalu_ray.results.store.rows import RUN


def problems(spec: TableSpec | FigureSpec, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Splits rows by the settings' fields that define the data, ``spec.problem``.

    Args:
        spec: what is wanted. A field that tells the table's problems or the figure's panels apart
            keeps them apart there, and does not split.
        rows: (rows, columns) as :meth:`Store.load` gives them.

    Returns:
        Label and rows of each problem, the one with most runs (seeds of settings) first. A label
        names the fields that differ, ``train_range=0:0.01, test_range=0:0.03``; it is empty where
        there is one problem only. A field that no row has does not count; a row without a field
        that others have is of another problem.
    """
    settings = rows.drop_duplicates("setting_id")
    fields = [name for name in spec.problem if name in rows and name != _told_apart(spec)]
    texts = {name: [_text(value) for value in settings[name].astype(object)] for name in fields}
    varying = [name for name in fields if len(set(texts[name])) > 1]
    if not varying:
        return [("", rows)]
    found = zip(*(texts[name] for name in varying), strict=True)
    labels = [", ".join(map("=".join, zip(varying, values, strict=True))) for values in found]
    of_setting = dict(zip(settings["setting_id"], labels, strict=True))
    of_row = rows["setting_id"].map(of_setting).to_numpy(object)
    runs = rows[RUN].drop_duplicates()["setting_id"].map(of_setting).value_counts()
    order = sorted(set(labels), key=lambda label: (-int(runs[label]), label))
    return [(label, rows[of_row == label]) for label in order]


def described(caption: str, problem: str) -> str:
    """Returns a caption that says of which problem it is."""
    return f"{caption} Data: {problem}." if problem else caption


def _told_apart(spec: TableSpec | FigureSpec) -> str | None:
    if isinstance(spec, FigureSpec):
        axis = spec.panels
    else:
        axis = spec.columns if spec.compared == "rows" else spec.rows
    return None if axis is None else axis.field


def _text(value: Any) -> str:
    """A stored value in full: equal values give equal texts, however they came to be stored."""
    if isinstance(value, str) and value.startswith("["):
        try:
            return ":".join(map(_text, json.loads(value)))
        except (ValueError, RecursionError):
            return value
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "none" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)
