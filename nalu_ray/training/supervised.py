"""Supervised tasks, and the one loop that trains them: draw, step, evaluate, record, go on."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import pandas as pd
import torch
from torch import Tensor, nn

from nalu_ray.results.specs import Selection
from nalu_ray.seeding import Streams, entropy
from nalu_ray.task import Batch, Progress, Task
from nalu_ray.training import footprint, records
from nalu_ray.training.checkpoints import Keeper
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.gradients import all_usable, clip_rows, usable
from nalu_ray.training.metrics import mean_squared_error
from nalu_ray.training.optimisers import largest_gradient, optimiser, schedule
from nalu_ray.training.rehearsal import rehearse
from nalu_ray.training.replicas import Replicas, Tensors

# between evaluations that are far apart, to report progress and to have the state kept
PAUSE_SECONDS = 10.0

S = TypeVar("S", bound=SupervisedSetting)


class SupervisedTask(Task[S]):
    """A task of inputs and targets, trained by :class:`SupervisedRun`.

    A subclass draws batches (:meth:`sample`) and builds the network (:meth:`build`). Loss and
    metric are the mean squared error unless it overrides them.

    Attributes:
        splits: names of the evaluation sets.
        keep: the rule that selects the step at which each seed's network is stored beside the rows;
            without a rule, none is stored.
    """

    splits: ClassVar[tuple[str, ...]] = ("interpolation", "extrapolation")
    keep: ClassVar[Selection | None] = None

    def start(self, setting: S, seeds: Sequence[int], device: torch.device) -> SupervisedRun:
        return SupervisedRun(self, setting, seeds, device)

    def steps(self, setting: S) -> int:
        return setting.steps

    def check(self, setting: S) -> None:
        """Builds the network on the meta device, then rehearses a small training step.

        Raises:
            TypeError, ValueError: if either fails; the message says why.
        """
        network = footprint.without_memory(lambda: self.build(setting))
        rehearse(self, setting, network)

    def example(self, setting: S, streams: Streams) -> Batch | None:
        """Returns a training batch for :meth:`check`, which runs before :meth:`prepare`.

        A task with downloaded data returns a made-up batch, or None to have the network built only.
        """
        return self.sample(setting, "train", streams)

    def trained(self, setting: S, seeds: int) -> int:
        """Returns the bytes of parameters, gradients and the optimiser's moments."""
        return footprint.trained(self.parameters(setting), setting.optimiser, seeds)

    def parameters(self, setting: S) -> int:
        """Returns the number of trained parameters per seed."""
        return footprint.parameters(self.name, setting.id, lambda: self.build(setting))

    @abstractmethod
    def sample(self, setting: S, split: str, streams: Streams) -> Batch:
        """Draws a training batch (``split="train"``) or a whole evaluation set for R seeds at once.

        The slice of seed k must depend on generator k of ``streams`` alone. Draws that are fixed
        per seed, such as the sections of the static task, come from ``streams.fork("...")``.
        """

    @abstractmethod
    def build(self, setting: S) -> nn.Module:
        """Builds the network of one seed; torch's generator is seeded for it beforehand."""

    def predict(
        self, network: Replicas, setting: S, split: str, batch: Batch, streams: Streams
    ) -> Tensor:
        """Returns each seed's predictions for a training batch or an evaluation set, (R, ...).

        Args:
            network: the stacked networks of the block.
            setting, split, batch: as for :meth:`sample`, and its result.
            streams: for an evaluation set, the same streams as :meth:`sample` got, so that a task
                can redraw inputs that are too large to keep.
        """
        prediction: Tensor = network(*batch.inputs, shared=batch.shared)
        return prediction

    def loss(self, setting: S, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns the loss of each seed, (R, ...) x (R, ...) -> (R,)."""
        return (prediction - target).square().flatten(1).mean(1)

    def metrics(
        self, setting: S, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Returns the metrics of each seed on a split, (R, ...) x (R, ...) -> {name: (R,)}."""
        return {"mse": mean_squared_error(prediction, target)}

    def references(
        self, setting: S, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns metrics of an evaluation set that need no training, {name: (R,)}."""
        return {}

    def curves(
        self, setting: S, split: str, batch: Batch, prediction: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Returns curves taken at the last step, {metric: (x of (P,), values of (R, P))}."""
        return {}


class SupervisedRun:
    """Trains a block of seeds of one setting; see :class:`nalu_ray.task.Run`.

    A seed whose loss or gradient stops being finite, or whose gradient its optimiser cannot square,
    is frozen at that step: its parameters and buffers stay as they were before it, its last row
    gives the step, and the other seeds go on unchanged.
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
        self.records: list[records.Record] = []
        self.sets = {split: self._evaluation_set(split) for split in task.splits}

    def advance(self) -> Progress:
        """Trains up to the next evaluation and evaluates every split, or pauses on the way."""
        setting = self.setting
        if self.step == 0:
            self._evaluate()
        stop = _next_stop(self.step, setting.steps, setting.evaluations)
        self._train(stop, PAUSE_SECONDS)
        if self.step < stop:
            return Progress(self.step, setting.steps)
        self._mark_lost()
        self._evaluate()
        return Progress(self.step, setting.steps, records.medians(self.records, self.step))

    def rows(self) -> pd.DataFrame:
        """Returns the records as rows, and one row per seed that says how it ended."""
        return records.rows(self.records, self.seeds, self.diverged, self.step)

    def files(self) -> dict[str, bytes]:
        """Returns the file of the networks that the task's rule selects, if it has one."""
        return self.keeper.files(self.task.name, self.setting, self.seeds, self.replicas)

    def close(self) -> None:
        """Does nothing: a supervised run starts no process."""

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
        """Resumes exactly from a saved state."""
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
        """Takes the optimiser's step; frozen seeds keep their parameters and earlier buffers."""
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
        """Freezes the seeds that are not ``sound``, (R,) of bool; returns whether any is frozen."""
        newly = ~sound.cpu() & (self.diverged < 0)
        self.diverged[newly] = self.step
        return bool((self.diverged >= 0).any())

    # -- evaluation --------------------------------------------------------------------------

    def _evaluation_set(self, split: str) -> Batch:
        streams = Streams(self.task.name, self.seeds, split)
        batch = self._to_device(self.task.sample(self.setting, split, streams))
        again = streams.fork(split)  # for inputs that are redrawn at each evaluation
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
        self.records.append(records.record(self.step, split, metric, values, x))

    def _to_device(self, batch: Batch) -> Batch:
        if self.device.type == "cpu":
            return batch
        inputs = tuple(tensor.to(self.device, non_blocking=True) for tensor in batch.inputs)
        targets = batch.targets.to(self.device, non_blocking=True)
        return Batch(inputs, targets, batch.shared)


def _next_stop(step: int, steps: int, evaluations: int) -> int:
    stops = (-(-steps * i // evaluations) for i in range(1, evaluations + 1))
    return next(stop for stop in stops if stop > step)
