"""Success by likeness: a run is solved if it is as good as the runs of a reference model.

The protocol of Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020), on MNIST: the
reference learns the same network with the true arithmetic in place of the unit, and a run is solved
if its error is below the upper one-sided 99 % confidence limit of the reference's mean error.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nalu_ray.results.analysis.selection import Runs
from nalu_ray.results.analysis.statistics import upper_mean_limit

FAILED = 10.0  # times the median selector: a reference run beyond it has failed and does not count
FEWEST = 3  # of two, the limit is 22 standard deviations above the mean


def judged(runs: Runs, logged: pd.DataFrame, reference: NDArray[np.intp]) -> Runs:
    """Returns the runs with the limit that the reference's runs give, and the step below it.

    The reference is the setting with the best median selector among its runs. It gives no limit
    if fewer than three of its runs count.

    Args:
        runs: one measure of every run of a table.
        logged: (rows, 4) ``setting_id, seed, step, value`` of the measure, in that order.
        reference: positions of the reference's runs.
    """
    limit = limit_of(runs.take(reference))
    below = logged[logged["value"] < limit].drop_duplicates(["setting_id", "seed"])
    pairs = zip(below["setting_id"], below["seed"], strict=True)
    first = dict(zip(pairs, below["step"].astype(float), strict=True))
    at = [first.get(key, np.nan) for key in zip(runs.setting_id, runs.seed, strict=True)]
    return replace(runs, limit=np.full(len(runs), limit), below_at=np.array(at, np.float64))


def limit_of(runs: Runs) -> float:
    """Returns the limit that a reference's runs give; NaN if fewer than three count."""
    if not len(runs):
        return np.nan
    runs = runs.take(runs.setting_id == runs.best_setting())
    sound = runs.take(np.isfinite(runs.selector) & np.isfinite(runs.value))
    if not len(sound):
        return np.nan
    kept = sound.value[sound.selector <= FAILED * np.median(sound.selector)]
    return upper_mean_limit(kept) if len(kept) >= FEWEST else np.nan
