"""The one supervised loop: draw, step, evaluate at regular steps, record, go on or freeze."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from nalu_ray.results.store.rows import COMPLETED, DIVERGED
from nalu_ray.seeding import Streams, entropy
from nalu_ray.task import Batch, Progress, SupervisedTask
from nalu_ray.training.checkpoints import Keeper
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.gradients import all_usable, clip_rows, usable
from nalu_ray.training.optimisers import largest_gradient, optimiser, schedule
from nalu_ray.training.replicas import Replicas, Tensors

COLUMNS = ["seed", "step", "split", "metric", "x", "value", "reason", "outcome"]
# between evaluations that are far apart, to say how far it is and to have its state kept
PAUSE_SECONDS = 10.0


class SupervisedRun:
    """Trains a block of seeds of one setting; see :class:`nalu_ray.task.Run`.

    A seed whose loss or gradient stops being finite, or whose gradient its optimiser cannot square,
    is frozen there: its parameters and buffers stay as they were before that step, its last row
    says at which step, and the others go on unharmed.
    """

    def __init__(
        self,
        task: SupervisedTask[Any],
        setting: SupervisedSetting,
        seeds: Sequence[int],
        device: torch.device,
    ) -> None:
        self.task, self.setting, self.seeds, self.device = task, setting, tuple(seeds), device
        inits = [entropy(task.name, seed, "init") % 2**63 for seed in seeds]
        self.replicas = Replicas(lambda: task.build(setting), inits, device)
        flat = self.replicas.flat
        self.optimiser = optimiser(
            setting.optimiser,
            flat,
            setting.lr,
            beta2=setting.adam_beta2,
            momentum=setting.momentum,
            weight_decay=setting.weight_decay,
            shapes=dict(zip(self.replicas.names, self.replicas.shapes, strict=True)),
        )
        self.schedule = schedule(
            setting.schedule, self.optimiser, setting.steps, setting.lr_end, setting.warmup
        )
        self.streams = Streams(task.name, seeds, "train", shared=setting.shared_inputs)
        self.keeper = Keeper(task.keep, flat, self.replicas.buffers)
        self.diverged = torch.full((len(seeds),), -1, dtype=torch.int64)
        self.step = 0
        self.records: list[dict[str, Any]] = []
        self.sets = {split: self._evaluation_set(split) for split in task.splits}

    def advance(self) -> Progress:
        """Trains up to the next evaluation and scores every split, or pauses on the way there."""
        setting = self.setting
        if self.step == 0:
            self._evaluate()
        stop = _next_stop(self.step, setting.steps, setting.evaluations)
        self._train(stop, PAUSE_SECONDS)
        if self.step < stop:
            return Progress(self.step, setting.steps)
        self._mark_lost()
        self._evaluate()
        return Progress(self.step, setting.steps, self._shown())

    def rows(self) -> pd.DataFrame:
        """Returns the records as rows, each seed's last row telling how it ended."""
        frames = [self._frame(record) for record in self.records]
        frames.append(self._final_rows())
        rows: pd.DataFrame = pd.concat(frames, ignore_index=True)[COLUMNS]
        return rows.astype({"x": "float64"})

    def files(self) -> dict[str, bytes]:
        """Returns the models that the task asks to keep."""
        return self.keeper.files(self.task.name, self.setting, self.seeds, self.replicas)

    def close(self) -> None:
        """Nothing was started."""

    def state_dict(self) -> dict[str, Any]:
        """Returns tensors and plain values; loads under ``torch.load(weights_only=True)``."""
        return {
            "flat": self.replicas.flat.detach().clone(),
            "buffers": {name: value.clone() for name, value in self.replicas.buffers.items()},
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "streams": self.streams.state_dict(),
            "keeper": self.keeper.state_dict(),
            "diverged": self.diverged.clone(),
            "step": self.step,
            "records": list(self.records),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on exactly from a saved state."""
        self.replicas.load(state["flat"], state.get("buffers", {}))
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        self.streams.load_state_dict(state["streams"])
        self.keeper.load_state_dict(state["keeper"])
        self.diverged = state["diverged"].clone()
        self.step, self.records = state["step"], list(state["records"])

    # -- training ----------------------------------------------------------------------------

    def _train(self, until: int, seconds: float = math.inf) -> None:
        replicas, clip = self.replicas, self.setting.clip
        most = largest_gradient(self.setting.optimiser, replicas.flat.dtype)
        any_diverged = bool((self.diverged >= 0).any())
        end = time.monotonic() + seconds
        while self.step < until:
            buffers = replicas.buffers  # each call makes new ones
            batch = self._to_device(self.task.sample(self.setting, "train", self.streams))
            prediction = self._predict("train", batch, self.streams)
            loss = self.task.loss(self.setting, prediction, batch.targets)
            (gradient,) = torch.autograd.grad(loss.sum(), replicas.flat)
            if clip is not None:
                clip_rows(gradient, clip)
            if any_diverged or not all_usable(loss, gradient, most):
                any_diverged = self._freeze(usable(loss, gradient, most))
            replicas.flat.grad = gradient
            self._update(buffers if any_diverged else None)
            self.schedule.step()
            self.step += 1
            if time.monotonic() >= end:
                break

    @torch.no_grad()
    def _update(self, buffers: Tensors | None) -> None:
        """Takes the optimiser's step; frozen seeds keep parameters, and buffers of before."""
        if buffers is None:
            self.optimiser.step()
            return
        # a weight decay moves a row whatever its gradient
        before = self.replicas.flat.clone()
        self.optimiser.step()
        self.replicas.put_back(self.diverged >= 0, before, buffers)

    def _mark_lost(self) -> None:
        """Marks seeds whose last update left parameters that are not finite."""
        lost = ~self.replicas.flat.detach().isfinite().all(dim=1).cpu() & (self.diverged < 0)
        self.diverged[lost] = self.step

    def _predict(self, split: str, batch: Batch, streams: Streams) -> Tensor:
        return self.task.predict(self.replicas, self.setting, split, batch, streams)

    def _freeze(self, sound: Tensor) -> bool:
        """Freezes the seeds, (R,) of bool, whose gradient is not sound; says if any is frozen."""
        newly = ~sound.cpu() & (self.diverged < 0)
        self.diverged[newly] = self.step
        return bool((self.diverged >= 0).any())

    # -- evaluation --------------------------------------------------------------------------

    def _evaluation_set(self, split: str) -> Batch:
        streams = Streams(self.task.name, self.seeds, split)
        batch = self._to_device(self.task.sample(self.setting, split, streams))
        again = streams.fork(split)  # for what is drawn anew whenever it is read
        for metric, values in self.task.references(self.setting, split, batch, again).items():
            self._record(split, metric, values)
        return batch

    @torch.no_grad()
    def _evaluate(self) -> None:
        flat, buffers, alive = self.replicas.flat, self.replicas.buffers, self.diverged < 0
        for split, batch in self.sets.items():
            streams = Streams(self.task.name, self.seeds, split)
            with self.replicas.evaluating():
                prediction = self._predict(split, batch, streams)
            figures = self.task.metrics(self.setting, split, prediction, batch.targets)
            for metric, values in figures.items():
                self._record(split, metric, values)
            self.keeper.see(self.step, split, figures, flat, alive, buffers=buffers)
            if self.step == self.setting.steps:
                curves = self.task.curves(self.setting, split, batch, prediction)
                for metric, (x, values) in curves.items():
                    self._record(split, metric, values, x)

    def _record(self, split: str, metric: str, values: Tensor, x: Tensor | None = None) -> None:
        self.records.append(
            {
                "step": self.step,
                "split": split,
                "metric": metric,
                "x": None if x is None else x.detach().double().cpu(),
                "values": values.detach().double().cpu(),
            }
        )

    def _frame(self, record: dict[str, Any]) -> pd.DataFrame:
        values, x = record["values"], record["x"]
        points = 1 if x is None else len(x)
        frame = pd.DataFrame(
            {
                "seed": [seed for seed in self.seeds for _ in range(points)],
                "x": math.nan if x is None else x.repeat(len(self.seeds)).numpy(),
                "value": values.reshape(-1).numpy(),
            }
        )
        alive = (self.diverged < 0) | (self.diverged >= record["step"])
        kept: pd.DataFrame = frame[alive.repeat_interleave(points).numpy()]
        return kept.assign(
            **{k: record[k] for k in ("step", "split", "metric")}, outcome=None, reason=None
        )

    def _final_rows(self) -> pd.DataFrame:
        steps = [self.step if at < 0 else at for at in self.diverged.tolist()]
        reasons = [
            None
            if at < 0
            else f"diverged: loss or gradient not finite, or too large to square, at step {at}"
            for at in self.diverged.tolist()
        ]
        values = [float(reason is None) for reason in reasons]
        outcomes = [COMPLETED if reason is None else DIVERGED for reason in reasons]
        columns = {"seed": self.seeds, "step": steps, "value": values}
        return pd.DataFrame({**columns, "outcome": outcomes, "reason": reasons}).assign(
            split="train", metric=COMPLETED, x=math.nan
        )

    def _shown(self) -> dict[str, float]:
        """Median over seeds of each split's first metric at the last evaluation."""
        latest = {
            r["split"]: r
            for r in reversed(self.records)
            if r["step"] == self.step and r["x"] is None
        }
        return {split: float(record["values"].nanmedian()) for split, record in latest.items()}

    def _to_device(self, batch: Batch) -> Batch:
        if self.device.type == "cpu":
            return batch
        inputs = tuple(tensor.to(self.device, non_blocking=True) for tensor in batch.inputs)
        targets = batch.targets.to(self.device, non_blocking=True)
        return Batch(inputs, targets, batch.shared)


def _next_stop(step: int, steps: int, evaluations: int) -> int:
    stops = (-(-steps * i // evaluations) for i in range(1, evaluations + 1))
    return next(stop for stop in stops if stop > step)
