"""Rows and specifications for the tests of results: small frames, and the paper's tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nalu_ray.results.analysis import table
from nalu_ray.results.analysis.groups import Members, sweeps
from nalu_ray.results.analysis.table import Table
from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec, TaskSpecs
from nalu_ray.results.store.rows import COLUMNS, COMPLETED, FAILED, OUTCOMES
from nalu_ray.results.store.store import Store

OPS = {
    "add": "a + b", "sub": "a - b", "mul": "a × b", "div": "a / b", "square": "a²", "sqrt": "√a",
}  # fmt: skip
LAYERS = {
    "relu6": "ReLU6", "softsign": "Softsign", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "selu": "SELU", "elu": "ELU", "relu": "ReLU", "crelu": "CReLU", "none": "None", "nac": "NAC",
    "nalu": "NALU", "nac_nalu": "NAC+NALU",
}  # fmt: skip
ACTIVATIONS = {
    "hardtanh": "Hardtanh", "relu6": "ReLU6", "softsign": "Softsign", "tanh": "Tanh",
    "sigmoid": "Sigmoid", "threshold": "Threshold", "selu": "SELU", "elu": "ELU",
    "softshrink": "Softshrink", "relu": "ReLU", "leaky_relu": "LeakyReLU",
    "tanhshrink": "Tanhshrink", "softplus": "Softplus", "prelu": "PReLU", "none": "None",
}  # fmt: skip

_SPLITS = {"interpolation": "Interpolation", "extrapolation": "Extrapolation"}

TABLE_5 = TableSpec(
    name="table_5",
    number=5,
    caption="Mean absolute error of the identity.",
    rows=Axis(field="layer", labels=ACTIVATIONS),
    measures={
        "error": Measure(
            metric="mae", split="extrapolation", label="Error", statistic="mean", format=".2f"
        ),
        "percent_error": Measure(
            metric="mae", split="extrapolation", label="% Error", statistic="mean", scale=0.2
        ),
    },
    layout="columns",
)
TABLE_6 = TableSpec(
    name="table_6",
    number=6,
    caption="Mean squared error, raw.",
    rows=Axis(field="op", labels=OPS),
    columns=Axis(field="layer", labels=LAYERS),
    measures={
        split: Measure(metric="mse", split=split, label=label[0], format=".4g")
        for split, label in _SPLITS.items()
    },
    layout="subrows",
    reference="random_mse",
    solved_below="threshold",
)
TABLE_7 = TableSpec(
    name="table_7",
    number=7,
    caption="Static arithmetic, relative to a random model.",
    rows=Axis(field="op", labels=OPS),
    columns=Axis(field="layer", labels=LAYERS),
    measures={
        split: Measure(metric="mse", split=split, label=label, relative_to="random_mse")
        for split, label in _SPLITS.items()
    },
    solved_below="threshold",
)
FIGURE_1 = FigureSpec(
    name="figure_1",
    number="1",
    caption="Networks learn the identity only on the range they are trained on.",
    metric="abs_error",
    split="curve",
    lines=Axis(field="layer", labels=ACTIVATIONS),
    shade=(-5.0, 5.0),
    x_label="input",
    y_label="mean |error|",
    select_step=True,
)

Logs = Mapping[tuple[str, str], Mapping[int, float]]


def run(
    setting: Mapping[str, Any], seed: int, logs: Logs, reason: str | None = None, end: int = 100
) -> pd.DataFrame:
    """One run's rows: ``logs`` maps (metric, split) to step to value; a reason means it failed."""
    return pd.DataFrame(records(setting, seed, logs, reason, end)).reindex(
        columns=[*COLUMNS, *setting]
    )


def records(
    setting: Mapping[str, Any], seed: int, logs: Logs, reason: str | None = None, end: int = 100
) -> list[dict[str, Any]]:
    """The rows of :func:`run`, of which many make one frame faster than many frames do."""
    sid = "-".join(str(value) for value in setting.values())
    base = {"task": "static", "setting_id": sid, "seed": seed, "reason": None, **setting}
    rows = [
        {**base, "metric": metric, "split": split, "step": step, "value": value}
        for (metric, split), points in logs.items()
        for step, value in points.items()
    ]
    final = {"metric": COMPLETED, "split": "train", "step": end, "value": float(reason is None)}
    ended = COMPLETED if reason is None else reason.partition(":")[0]
    outcome = ended if ended in OUTCOMES else FAILED
    rows.append({**base, **final, "outcome": outcome, "reason": reason})
    return rows


def mse(inner: Mapping[int, float], outer: Mapping[int, float], **constants: float) -> Logs:
    """Logs of both splits; ``constants`` are logged at step 0 of each."""
    logs: dict[tuple[str, str], Mapping[int, float]] = {
        ("mse", "interpolation"): inner,
        ("mse", "extrapolation"): outer,
    }
    for name, value in constants.items():
        for split in _SPLITS:
            logs[name, split] = {0: value}
    return logs


def frame(*runs: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([r.dropna(axis=1, how="all") for r in runs], ignore_index=True).reindex(
        columns=list(dict.fromkeys(name for r in runs for name in r.columns))
    )


def build_each(spec: TableSpec, rows: pd.DataFrame, members: Members | None = None) -> list[Table]:
    """A table for each preset and problem of the rows, as the report has them."""
    return table.build_each(spec, sweeps(spec, rows, members))


def full_static(seeds: int = 7, steps: int = 3) -> pd.DataFrame:
    """Every cell of Tables 6 and 7 with made-up errors, at two learning rates."""
    rng = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    for op in OPS:
        for place, layer in enumerate(LAYERS):
            for lr in (0.01, 0.1):
                for seed in range(seeds):
                    scale = 10.0 ** rng.normal(1.5 - place / 2 + lr, 1.0)
                    inner = {step * 100: scale / (step + 1) for step in range(steps)}
                    outer = {step: 4 * value for step, value in inner.items()}
                    logs = mse(inner, outer, random_mse=20.0 + seed, threshold=0.05)
                    lost = "diverged: at step 7" if layer == "nalu" and seed == 1 else None
                    rows += records({"layer": layer, "op": op, "lr": lr}, seed, logs, lost)
    return pd.DataFrame(rows).reindex(columns=[*COLUMNS, "layer", "op", "lr"])


def identity(seeds: int = 20) -> pd.DataFrame:
    """Rows of Table 5 and Figure 1: saturating activations miss the more, the further out."""
    rng = np.random.default_rng(4)
    xs = np.arange(-20.0, 21.0)
    parts = []
    for place, layer in enumerate(ACTIVATIONS):
        for seed in range(seeds):
            slope = max(0.0, 1 - max(0, place - 5) / 9) * rng.uniform(0.8, 1.2)
            base = {"task": "identity", "setting_id": layer, "layer": layer, "seed": seed}
            error = np.maximum(0.0, np.abs(xs) - 5) * slope + 0.02 * rng.random(xs.size)
            curve = pd.DataFrame({"x": xs, "value": error}).assign(
                metric="abs_error", split="curve", step=10_000, **base
            )
            ends = pd.DataFrame(
                [
                    {"metric": "mse", "split": "interpolation", "value": 0.01 * (1 + slope)},
                    {"metric": "mae", "split": "extrapolation", "value": 490.0 * slope},
                    {"metric": COMPLETED, "split": "train", "value": 1.0, "outcome": COMPLETED},
                ]
            ).assign(step=10_000, **base)
            parts += [curve, ends]
    return pd.concat(parts, ignore_index=True).reindex(columns=[*COLUMNS, "layer"])


def specs(task: str) -> TaskSpecs:
    """What each made-up task keeps in the store."""
    if task == "identity":
        return TaskSpecs(
            task=task, title="Identity", section="1.1", tables=(TABLE_5,), figures=(FIGURE_1,)
        )
    figure = FigureSpec(
        name="learning",
        caption="Extrapolation error while training.",
        metric="mse",
        split="extrapolation",
        x="step",
        lines=Axis(field="layer", labels=LAYERS),
        panels=Axis(field="op", labels=OPS),
        statistic="median",
        x_label="step",
        y_label="mse",
        log_y=True,
    )
    return TaskSpecs(
        task=task, title="Static", section="4.1", tables=(TABLE_7, TABLE_6), figures=(figure,)
    )


def fill(
    store: Store, task: str, rows: pd.DataFrame, fields: Sequence[str], figures: bool = True
) -> None:
    """Stores a frame, a trial a setting, and the task's specifications.

    Without figures a report takes a tenth of the time.
    """
    for sid, part in rows.groupby("setting_id"):
        setting = {name: part[name].iloc[0] for name in fields}
        manifest = {
            "commit": "0123456789abcdef",
            "dirty": False,
            "spec": {"command": f"run {task}"},
        }
        store.write(setting, {"task": task, "setting_id": sid}, part, manifest)
    stored = specs(task)
    store.write_specs(stored if figures else stored.model_copy(update={"figures": ()}))
