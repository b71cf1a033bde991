"""What "100" and "random" are: figures that need no training, logged by each setting's own runs."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from nalu_ray.results.analysis import selection
from nalu_ray.results.analysis.statistics import Floats
from nalu_ray.results.analysis.text import stored_column
from nalu_ray.results.specs import TableSpec


@dataclass(frozen=True)
class Declared:
    """The one reference of a table.

    Attributes:
        by_problem: (seeds,) values, of the setting that has most seeds, by the key of its row or
            column.
        label: its fields of ``spec.reference_by``, such as ``hidden=2``.
    """

    by_problem: dict[str, Floats]
    label: str = ""


def of_settings(frame: pd.DataFrame, metric: str | None, split: str) -> dict[str, Floats]:
    """Reads a reference of each setting that logged it: (seeds,) finite values by setting id."""
    if metric is None:
        return {}
    logged = frame[(frame["metric"] == metric) & (frame["split"] == split)]
    found = {
        str(sid): selection.per_seed(piece, metric, split)
        for sid, piece in logged.groupby("setting_id", sort=True, observed=True)
    }
    return {sid: values for sid, values in found.items() if values.size}


def declared(
    spec: TableSpec, frame: pd.DataFrame, settings: pd.DataFrame, problem: str, split: str
) -> Declared:
    """Picks the reference of a table.

    Of several that differ in ``spec.reference_by``, such as a random model's size, it is the one
    that most runs logged; of the settings that logged it, the one with most seeds.

    Args:
        spec: the table.
        frame: the rows.
        settings: a row a setting.
        problem: column of ``settings`` with the key of what models are compared on.
        split: where the reference is read.
    """
    values = of_settings(frame, spec.reference, split)
    known = settings[settings["setting_id"].isin(values)].sort_values("setting_id")
    seeds = known["setting_id"].map(lambda sid: values[sid].size).astype(int)
    fields = [name for name in spec.reference_by if name in known]
    texts = [stored_column(known, name).fillna("none") for name in fields]
    labels = pd.Series("", index=known.index, dtype=object)
    for name, column in zip(fields, texts, strict=True):
        labels = labels + f" {name}=" + column.astype(str)
    runs = seeds.groupby(labels).sum().sort_index()
    label = "" if runs.empty else str(runs.idxmax())
    known = known[labels == label].assign(_seeds=seeds).dropna(subset=[problem])
    most = known.sort_values("_seeds", ascending=False, kind="stable").drop_duplicates(problem)
    pairs = zip(most[problem], most["setting_id"], strict=True)
    return Declared({str(key): values[str(sid)] for key, sid in pairs}, label.strip())
