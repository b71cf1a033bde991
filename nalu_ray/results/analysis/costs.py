"""What runs cost, as rows beside the logged ones: parameters, and time per step and seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from nalu_ray.results.specs import TRIAL, FigureSpec, TableSpec
from nalu_ray.results.store.rows import COMPLETED, RUN

PARAMETERS, MICROSECONDS = "parameters", "seed_step_microseconds"


def needed(specs: Iterable[TableSpec | FigureSpec]) -> bool:
    """Whether a table or figure shows a cost."""
    return any(
        spec.split == TRIAL
        if isinstance(spec, FigureSpec)
        else any(measure.split == TRIAL for measure in spec.measures.values())
        for spec in specs
    )


def with_costs(rows: pd.DataFrame, manifests: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Adds rows of the split ``trial``, one per metric and stored seed.

    A trial's time is divided equally among its seeds: each counts as if it had made as many steps
    as the seed with the most steps. If a seed occurs in several of the manifests, the latest
    counts.

    Args:
        rows: (rows, columns) as :meth:`Store.load` gives them.
        manifests: of the trials whose rows these are; a value that is missing or of another type
            gives no row.
    """
    ends = rows[rows["metric"] == COMPLETED].drop_duplicates(RUN, keep="last")
    steps = dict(zip(ends[RUN].itertuples(index=False, name=None), ends["step"], strict=True))
    costs: dict[tuple[str, int], dict[str, float]] = {}
    for manifest in sorted(manifests, key=_started):
        runs = [run for run in _runs(manifest) if run in steps]
        most = max((int(steps[run]) for run in runs), default=0)
        seconds = _number(manifest.get("seconds"))
        known = {
            PARAMETERS: _number(manifest.get("parameters")),
            MICROSECONDS: 1e6 * seconds / (most * len(runs)) if most else math.nan,
        }
        finite = {metric: value for metric, value in known.items() if math.isfinite(value)}
        costs |= {run: {**costs.get(run, {}), **finite} for run in runs}
    added = [
        {**dict(zip(RUN, run, strict=True)), "metric": metric, "value": value}
        for run, values in costs.items()
        for metric, value in values.items()
    ]
    if not added:
        return rows
    about = ends.drop(columns=["metric", "value", "reason", "outcome"], errors="ignore")
    made = pd.DataFrame(added).merge(about, on=RUN).assign(split=TRIAL)
    return pd.concat([rows, made.reindex(columns=rows.columns)], ignore_index=True)


def _runs(manifest: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yields setting id and seed of a manifest's runs."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("seeds"), list):
        return
    for seed in spec["seeds"]:
        if isinstance(seed, int):
            yield str(spec.get("setting_id")), seed


def _started(manifest: Mapping[str, Any]) -> float:
    started = _number(manifest.get("started"))
    return started if math.isfinite(started) else 0.0


def _number(value: Any) -> float:
    """Returns a positive number; NaN for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if is_number else math.nan
