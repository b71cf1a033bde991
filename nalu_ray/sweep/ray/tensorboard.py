"""Curves for TensorBoard: one run per setting, with quartiles over its seeds."""

from __future__ import annotations

import re
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyarrow import fs
from ray import tune

from nalu_ray.results.store.rows import COMPLETED
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.plan import Plan

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

QUANTILES = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
PARENT = ".tensorboard"


class Curves(tune.Callback):
    """Writes TensorBoard's event files below the results.

    During a sweep they have ``live/...`` of each setting's first block. At the end, they get the
    quartiles over each setting's seeds at every evaluation, from the stored rows.

    Args:
        plan: the plan that runs.
        store: the store of its rows.
    """

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan, self.store = plan, store
        self.name = uuid.uuid4().hex[:12]
        self.temporary = tempfile.TemporaryDirectory()  # gone with this object
        self.folder = Path(store.folder or self.temporary.name, PARENT, self.name)
        self.first = {trial.setting_id: trial.key for trial in reversed(plan.trials)}
        self.writers: dict[str, SummaryWriter] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its callbacks to its folder; this one belongs to the command

    @property
    def place(self) -> str:
        """The curves' folder, for ``tensorboard --logdir``."""
        return f"{self.store.root}/{PARENT}/{self.name}"

    def writer(self, setting_id: str) -> SummaryWriter:
        from tensorboardX import SummaryWriter  # noqa: PLC0415 (it loads torch; slots need neither)

        if setting_id not in self.writers:
            name = re.sub(r"[^A-Za-z0-9=.,+-]+", "_", self.plan.labels[setting_id])[:120]
            self.writers[setting_id] = SummaryWriter(str(self.folder / name))
        return self.writers[setting_id]

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        spec = trial.config["spec"]
        if spec["key"] == self.first[spec["setting_id"]]:
            for name, value in result["shown"].items():
                self.writer(spec["setting_id"]).add_scalar(f"live/{name}", value, result["step"])

    def finish(self) -> None:
        """Writes the quartiles of every setting; copies the files to the store if it is remote."""
        frame = self.store.load(self.plan.task.name)
        frame = frame[(frame["metric"] != COMPLETED) & frame["setting_id"].isin(self.plan.labels)]
        keys = ["setting_id", "split", "metric", "x", "step"]
        over_seeds = frame.groupby(keys, dropna=False, sort=True)["value"]
        for name, q in QUANTILES.items():
            for row in over_seeds.quantile(q).reset_index().to_dict("records"):
                at = "" if pd.isna(row["x"]) else f" {row['x']:g}"
                tag = f"{row['split']}/{row['metric']}{at}/{name}"
                self.writer(str(row["setting_id"])).add_scalar(tag, row["value"], int(row["step"]))
        for writer in self.writers.values():
            writer.close()
        if self.store.folder is None:
            fs.copy_files(str(self.folder), self.place, fs.LocalFileSystem(), self.store.filesystem)
