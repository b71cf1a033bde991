"""The records of a supervised run, and the rows made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from nalu_ray.results.store.rows import COMPLETED, DIVERGED

COLUMNS = ["seed", "step", "split", "metric", "x", "value", "reason", "outcome"]

WEIGHTS = "weights"
"""The split of figures that are taken of the parameters alone."""

Record = dict[str, Any]
"""A metric of every seed at one step: ``step``, ``split``, ``metric``, ``values``, (R,) or (R, P),
and ``x``, None or the points (P,) of a curve; on the CPU in float64."""


def rows(
    records: Sequence[Record], seeds: Sequence[int], diverged: Tensor, done: Tensor, step: int
) -> pd.DataFrame:
    """Returns the records as rows of ``COLUMNS``, and one row per seed that says how it ended.

    Args:
        records: of the whole run.
        seeds: R seeds.
        diverged: (R,) the step at which a seed diverged, -1 for none. Nothing later is kept of it.
        done: (R,) the step at which a seed was done early, -1 for none. Later curves of it, which
            are those of that step, have it as their step; nothing else that is later is kept.
        step: steps of training done.
    """
    frames = [_frame(item, seeds, diverged, done) for item in records]
    frames.append(_final_rows(seeds, diverged, torch.where(done >= 0, done, step)))
    every: pd.DataFrame = pd.concat(frames, ignore_index=True)[COLUMNS]
    return every.astype({"x": "float64"})


def medians(records: Sequence[Record], step: int) -> dict[str, float]:
    """Returns the median over seeds of each split's first metric at a step.

    Curves, and figures of the parameters, are left out.
    """
    latest = {
        item["split"]: item
        for item in reversed(records)
        if item["step"] == step and item["x"] is None and item["split"] != WEIGHTS
    }
    return {split: float(item["values"].nanmedian()) for split, item in latest.items()}


def _frame(item: Record, seeds: Sequence[int], diverged: Tensor, done: Tensor) -> pd.DataFrame:
    values, x, step = item["values"], item["x"], item["step"]
    points = 1 if x is None else len(x)
    steps = torch.full((len(seeds),), step)
    if x is not None:
        steps = torch.where(done >= 0, done.clamp(max=step), step)
    frame = pd.DataFrame(
        {
            "seed": [seed for seed in seeds for _ in range(points)],
            "step": steps.repeat_interleave(points).numpy(),
            "x": math.nan if x is None else x.repeat(len(seeds)).numpy(),
            "value": values.reshape(-1).numpy(),
        }
    )
    alive = ((diverged < 0) | (diverged >= steps)) & ((done < 0) | (done >= steps))
    live_rows: pd.DataFrame = frame[alive.repeat_interleave(points).numpy()]
    about = {name: item[name] for name in ("split", "metric")}
    return live_rows.assign(**about, reason=None, outcome=None)


def _final_rows(seeds: Sequence[int], diverged: Tensor, steps: Tensor) -> pd.DataFrame:
    ends: list[int] = diverged.tolist()
    reasons = [
        None
        if end < 0
        else f"diverged: loss or gradient not finite, or too large to square, at step {end}"
        for end in ends
    ]
    return pd.DataFrame(
        {
            "seed": list(seeds),
            "step": torch.where(diverged < 0, steps, diverged).tolist(),
            "value": [float(reason is None) for reason in reasons],
            "reason": reasons,
            "outcome": [COMPLETED if reason is None else DIVERGED for reason in reasons],
        }
    ).assign(split="train", metric=COMPLETED, x=math.nan)
