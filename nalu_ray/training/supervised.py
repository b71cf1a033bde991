"""Supervised tasks, and the one loop that trains them: draw, step, evaluate, record, go on."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import pandas as pd
import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from nalu_ray.results.specs import Selection
from nalu_ray.seeding import Streams, entropy
from nalu_ray.task import Batch, Progress, Task
from nalu_ray.training import footprint, records
from nalu_ray.training.best_networks import Keeper
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.freezing import freezer
from nalu_ray.training.gradients import clip_rows
from nalu_ray.training.learning_rate import schedule
from nalu_ray.training.members import measured
from nalu_ray.training.metrics import mean_squared_error
from nalu_ray.training.optimisers import largest_gradient, optimiser
from nalu_ray.training.redraw import Redraw, parse_rule
from nalu_ray.training.rehearsal import check_network, measured_activations, rehearse, step_parts
from nalu_ray.training.replicas import Replicas, Tensors
from nalu_ray.training.step import Step
from nalu_ray.training.task_rules import chosen_seeds

# between evaluations that are far apart, to report progress and to have the state kept
PAUSE_SECONDS = 10.0

S = TypeVar("S", bound=SupervisedSetting)


class SupervisedTask(Task[S]):
    """A task of inputs and targets, trained by :class:`SupervisedRun`.

    A subclass draws batches (:meth:`sample`) and builds the network (:meth:`build`). Loss and
    metric are the mean squared error unless it overrides them. What units of the network say
    beside their forward (bounds, penalties, figures) is found by name, see ``docs/units.md``.

    Attributes:
        splits: names of the evaluation sets.
        keep: the rule that selects the step at which each seed's network is stored beside the rows;
            without a rule, none is stored.
        stop_metric: the metric, the lower the better, that the setting's ``stop`` compares; None
            for the first of the split.
        flush_denormals: let the CPU take numbers below 1e-38 for 0 in training and evaluation. It
            calculates with them many times slower. Not for a task whose optimiser reads squares of
            gradients as small as that (a tiny ``adam_eps``).
    """

    splits: ClassVar[tuple[str, ...]] = ("interpolation", "extrapolation")
    keep: ClassVar[Selection | None] = None
    stop_metric: ClassVar[str | None] = None
    flush_denormals: ClassVar[bool] = False

    def start(self, setting: S, seeds: Sequence[int], device: torch.device) -> SupervisedRun:
        return SupervisedRun(self, setting, seeds, device)

    def steps(self, setting: S) -> int:
        return setting.steps

    def check(self, setting: S) -> None:
        """Builds the network on the meta device, then rehearses a small training step.

        The task's own rules are called, too; ``stop`` with the metrics that the step's predictions
        allow.

        Raises:
            TypeError, ValueError: if either fails; the message says why.
        """
        network = footprint.without_memory(lambda: self.build(setting))
        check_network(self, setting, network)
        if setting.stop is not None and not self.own("stop"):
            self.stopping_split()
        rehearse(self, setting, network)
        footprint.note(self.name, setting.id, measured_activations(self, setting, network))

    def example(self, setting: S, streams: Streams) -> Batch | None:
        """Returns a training batch for :meth:`check`, which runs before :meth:`prepare`.

        A task with downloaded data returns a made-up batch, or None to have the network built only.
        """
        return self.sample(setting, "train", streams)

    def trained(self, setting: S, seeds: int) -> int:
        """Returns the bytes of parameters, gradients and the optimiser's moments."""
        fields = [name for name in footprint.OF_FIELD if getattr(setting, name)]
        return footprint.trained(self.parameters(setting), setting.optimiser, seeds, fields)

    def activations(self, setting: S, seeds: int) -> int:
        """Returns the bytes that the network makes of a batch or a set; 0 before :meth:`check`."""
        known = footprint.noted(self.name, setting.id)
        if known is None:
            return 0
        batch, examples = (getattr(setting, name, None) or 0 for name in ("batch", "test_size"))
        return known.of(seeds, batch, examples, len(self.splits))

    def parameters(self, setting: S) -> int:
        """Returns the number of trained parameters per seed."""
        return footprint.count(self.name, setting.id, lambda: self.build(setting)).parameters

    def state(self, setting: S, counted: int) -> int:
        """Returns the numbers in a recurrent cell's state per example, beyond those counted."""
        counts = footprint.count(self.name, setting.id, lambda: self.build(setting))
        return max(0, counts.state - counted)

    def stopping_split(self) -> str:
        """Returns the split by whose metric the setting's ``stop`` ends a seed early.

        Raises:
            ValueError: if the task has none that may decide.
        """
        for split in ("interpolation", "validation"):
            if split in self.splits:
                return split
        raise ValueError(f"stop: the task {self.name} has no split interpolation or validation")

    @abstractmethod
    def sample(self, setting: S, split: str, streams: Streams) -> Batch:
        """Draws a training batch (``split="train"``) or a whole evaluation set for R seeds at once.

        The slice of seed k must depend on generator k of ``streams`` alone. Draws that are fixed
        per seed, such as the sections of the static task, come from ``streams.fork("...")``.

        The same batch may be returned again. A GPU keeps its copy until a torch operation changes a
        tensor of it; a change through NumPy goes unseen.
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
        """Returns the loss of each seed, (R, ...) x (R or 1, ...) -> (R,).

        Raises:
            ValueError: the shapes differ, so that numbers would be compared with other examples'.
        """
        if prediction.shape[1:] != target.shape[1:]:
            shape, target_shape = tuple(prediction.shape[1:]), tuple(target.shape[1:])
            raise ValueError(
                f"the network answers with shape {shape}, where targets have {target_shape}"
            )
        return (prediction - target).square().flatten(1).mean(1)

    def metrics(
        self, setting: S, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Returns the metrics of each seed on a split, (R, ...) x (R, ...) -> {name: (R,)}."""
        return {"mse": mean_squared_error(prediction, target)}

    def penalties(self, setting: S, replicas: Replicas) -> dict[str, Tensor]:
        """Returns penalties of the task's own, {name: (R,)}, for the setting's ``penalty``."""
        return {}

    def penalty_names(self, setting: S) -> Collection[str]:
        """Returns the names of :meth:`penalties`; builds two small networks to ask it."""
        if not self.own("penalties"):
            return ()
        return set(self.penalties(setting, Replicas(lambda: self.build(setting), (0, 1))))

    def measure(self, setting: S, replicas: Replicas) -> dict[str, Tensor]:
        """Returns figures of the parameters, {name: (R,)}, logged under the split ``weights``.

        By default, they are what the units' own ``measure()`` returns; the largest of a name.
        """
        return measured(replicas)

    def after_step(self, setting: S, step: int, replicas: Replicas) -> dict[str, Tensor]:
        """Returns new values of parameters, {name: (R, *shape)}, written back after each step.

        The units' bounds and projections come after it. As of :meth:`stuck` and :meth:`stop`, the
        result of a seed must depend on that seed's numbers and on the arguments alone: a resumed
        run remembers nothing else.

        Args:
            setting: the setting that is trained.
            step: steps of training so far, this one included.
            replicas: the stacked networks; ``replicas.parameters()`` has the values by name.
        """
        return {}

    def stuck(self, setting: S, step: int, loss: Tensor, replicas: Replicas) -> Tensor | None:
        """Returns which seeds start afresh after a step, (R,) of bool.

        None, the default, leaves it to the setting's ``redraw``. Fresh parameters are drawn as that
        says, and buffers stay; without it, the network and its buffers are initialised anew.

        Args:
            setting, step, replicas: as for :meth:`after_step`.
            loss: of the step, without penalties, (R,).
        """
        return None

    def stop(
        self, setting: S, step: int, split: str, figures: Mapping[str, Tensor]
    ) -> Tensor | None:
        """Returns which seeds are done at an evaluation, (R,) of bool; None for none of them.

        By default, those whose first metric, or ``stop_metric``, is below the setting's ``stop``.

        Args:
            setting, step: as for :meth:`after_step`.
            split: one of ``splits``, or ``weights`` for the figures of :meth:`measure`.
            figures: the metrics of the split, {name: (R,)}.
        """
        if setting.stop is None or split != self.stopping_split():
            return None
        return figures[self.stop_metric or next(iter(figures))].detach() < setting.stop

    def own(self, name: str) -> Callable[..., Any] | None:
        """Returns a method of this name if the task has overridden the default, else None."""
        if getattr(type(self), name) is getattr(SupervisedTask, name):
            return None
        method: Callable[..., Any] = getattr(self, name)
        return method

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
    gives the step, and the other seeds go on unchanged. Where ``clip_value`` limits the values of
    a gradient, an infinite one counts as limited, and only NaN ends the seed.
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
            eps=setting.adam_eps,
            decay=setting.rmsprop_decay,
            shapes=dict(zip(self.replicas.names, self.replicas.shapes, strict=True)),
        )
        self.penalties, self.updates = step_parts(task, setting, self.replicas, self.optimiser)
        self.redraw = self._redraw()
        self.schedule = schedule(
            setting.schedule, self.optimiser, setting.steps, setting.lr_end, setting.warmup
        )
        self.streams = Streams(task.name, seeds, "train", shared=setting.shared_inputs)
        self.forward = Step(self.replicas, self.penalties, self._loss, self.streams, setting.engine)
        self.keeper = Keeper(task.keep, flat, self.replicas.buffers)
        self.diverged = torch.full((len(seeds),), -1, dtype=torch.int64)
        self.done = self.diverged.clone()
        self.step = 0
        self.records: list[records.Record] = []
        # copies of live batches on the device, with the versions of the tensors copied
        self._copies: MutableMapping[Batch, tuple[list[int], Batch]] = WeakIdKeyDictionary()
        self.sets = {split: self._evaluation_set(split) for split in task.splits}

    @property
    def frozen(self) -> Tensor:
        """Which seeds train no more, (R,) of bool: they diverged, or are done early."""
        return (self.diverged >= 0) | (self.done >= 0)

    def advance(self) -> Progress:
        """Trains up to the next evaluation and evaluates every split, or pauses on the way."""
        with _flushing(self.task.flush_denormals):
            return self._advance()

    def _advance(self) -> Progress:
        setting = self.setting
        if self.step == 0:
            self._evaluate()
        stop = _next_stop(self.step, setting.steps, setting.evaluations)
        self._train(stop, PAUSE_SECONDS)
        if self.step == stop:
            self._mark_lost()
            self._evaluate()
        over = self.step == setting.steps or bool(self.frozen.all())
        if over:
            self._draw_curves()
        step = setting.steps if over else self.step
        return Progress(step, setting.steps, records.medians(self.records, self.step))

    def rows(self) -> pd.DataFrame:
        """Returns the records as rows, and one row per seed that says how it ended."""
        return records.rows(self.records, self.seeds, self.diverged, self.done, self.step)

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
            "done": self.done.clone(),
            "updates": self.updates.state_dict(),
            "redraw": self.redraw.state_dict() if self.redraw else {},
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
        self.diverged, self.done = state["diverged"].clone(), state["done"].clone()
        self.updates.load_state_dict(state["updates"])
        if self.redraw:
            self.redraw.load_state_dict(state["redraw"])
        self.step, self.records = state["step"], list(state["records"])

    def _redraw(self) -> Redraw | None:
        """Returns what gives stuck seeds a fresh start, if the setting or the task says so."""
        task, setting, replicas = self.task, self.setting, self.replicas
        rule, stuck = setting.redraw and parse_rule(setting.redraw), task.own("stuck")
        if not rule and not stuck:
            return None
        return Redraw(
            rule or None,
            replicas,
            self.optimiser,
            task.name,
            self.seeds,
            build=lambda: task.build(setting),
            of_task=stuck and (lambda step, loss: stuck(setting, step, loss, replicas)),
        )

    # -- training ----------------------------------------------------------------------------

    def _train(self, until: int, seconds: float = math.inf) -> None:
        replicas = self.replicas
        most = largest_gradient(self.setting.optimiser, replicas.flat.dtype)
        seeds = freezer(self.diverged, self.done, most, self.device)
        end = time.monotonic() + seconds
        while self.step < until and not seeds.all_frozen:
            buffers = replicas.buffers  # each call makes new ones
            batch = self._to_device(self.task.sample(self.setting, "train", self.streams))
            loss, total, gradient = self.forward(self.step, self.setting.steps - self.step, batch)
            self._clip(gradient)
            frozen = seeds.look(self.step, total, gradient)
            replicas.flat.grad = gradient
            self._update(frozen, buffers)
            self.schedule.step()
            self.step += 1
            if self.redraw and (fresh := self.redraw.after(self.step, loss, seeds.alive)):
                self.updates.constrain(fresh)
            if time.monotonic() >= end:
                break
        seeds.settle()

    def _clip(self, gradient: Tensor) -> None:
        """Limits each value of the gradient, then its norm, as far as the setting says."""
        if (most := self.setting.clip_value) is not None:
            gradient.clamp_(-most, most)
        if (norm := self.setting.clip) is not None:
            clip_rows(gradient, norm)

    @torch.no_grad()
    def _update(self, frozen: Tensor | None, buffers: Tensors) -> None:
        """Takes the optimiser's step; frozen seeds keep their parameters and earlier buffers."""
        if frozen is None:
            self.updates.step(self.step)
            return
        # a weight decay moves a row whatever its gradient
        before = self.replicas.flat.clone()
        self.updates.step(self.step)
        self.replicas.put_back(frozen, before, buffers)

    def _mark_lost(self) -> None:
        """Marks seeds whose last update left parameters that are not finite."""
        lost = ~self.replicas.flat.detach().isfinite().all(dim=1).cpu() & ~self.frozen
        self.diverged[lost] = self.step

    def _loss(self, batch: Batch, streams: Streams) -> Tensor:
        """Returns each seed's loss on a training batch, (R,)."""
        prediction = self.task.predict(self.replicas, self.setting, "train", batch, streams)
        return self.task.loss(self.setting, prediction, batch.targets)

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
        flat, buffers, alive = self.replicas.flat, self.replicas.buffers, ~self.frozen
        every = {
            split: self.task.metrics(
                self.setting, split, self._evaluated(split, batch), batch.targets
            )
            for split, batch in self.sets.items()
        }
        with self.replicas.evaluating():
            every[records.WEIGHTS] = self.task.measure(self.setting, self.replicas)
        for split, figures in every.items():
            for metric, values in figures.items():
                self._record(split, metric, values)
            self.keeper.see(self.step, split, figures, flat, alive, buffers=buffers)
            self._finish(split, figures)

    @torch.no_grad()
    def _evaluated(self, split: str, batch: Batch) -> Tensor:
        streams = Streams(self.task.name, self.seeds, split)
        with self.replicas.evaluating():
            return self.task.predict(self.replicas, self.setting, split, batch, streams)

    def _finish(self, split: str, figures: dict[str, Tensor]) -> None:
        """Marks the seeds that are done early."""
        answer = self.task.stop(self.setting, self.step, split, figures)
        if (done := chosen_seeds("stop", answer, len(self.seeds))) is not None:
            self.done[done.cpu() & ~self.frozen] = self.step

    @torch.no_grad()
    def _draw_curves(self) -> None:
        """Records the curves of the last step; a seed that was done before is still there."""
        if not self.task.own("curves"):
            return
        for split, batch in self.sets.items():
            prediction = self._evaluated(split, batch)
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

    def _to_device(self, batch: Batch) -> Batch:
        """Returns a batch on the device; one that a task returns again is copied once."""
        if self.device.type == "cpu":
            return batch
        versions = [tensor._version for tensor in (*batch.inputs, batch.targets)]
        known, copy = self._copies.get(batch, (None, batch))
        if known != versions:
            inputs = tuple(_sent(tensor, self.device) for tensor in batch.inputs)
            copy = Batch(inputs, _sent(batch.targets, self.device), batch.shared)
            self._copies[batch] = versions, copy
        return copy


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    # only a copy from pinned memory runs beside the host's next work
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@contextmanager
def _flushing(asked: bool) -> Iterator[None]:
    """Sets how this thread's processor takes denormal numbers, and sets it back."""
    torch.set_flush_denormal(asked)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _next_stop(step: int, steps: int, evaluations: int) -> int:
    stops = (-(-steps * i // evaluations) for i in range(1, evaluations + 1))
    return next(stop for stop in stops if stop > step)
