"""How fast this machine trains: measured by its earlier trials, kept in the user's cache."""

from __future__ import annotations

import json
import logging
import math
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nalu_ray.errors import explain, first_line
from nalu_ray.results.store.atomic_files import write_text
from nalu_ray.results.store.paths import cache_folder
from nalu_ray.sweep.dispatch import TrialSpec
from nalu_ray.task import Task

log = logging.getLogger(__name__)

STEP_MICROSECONDS = 2000.0
"""The part of a step's time that does not grow with the number of seeds, in microseconds."""
SAVE_SECONDS = 5.0
LIKE_STEPS = 4.0  # a speed also stands for trials of up to this many times more or fewer steps
_MOST = 2000
# fields that change a run's numbers, not the time of a step
_TIMELESS = {
    *("lr", "lr_end", "lr_factor", "schedule", "warmup", "clip", "clip_value", "steps", "folder"),
    *("adam_beta2", "adam_eps", "momentum", "weight_decay", "rmsprop_decay", "entropy", "gamma"),
    *("weight_init", "gate_init", "memory_init", "train_range", "test_range", "threshold"),
}


class Speed(BaseModel):
    """The measured time of one kind of trial.

    Attributes:
        machine, task: names.
        fields: the setting's fields that matter for its speed, where they are not the default.
        steps, seeds: of the trial.
        gpu: whether it ran on a GPU.
        seconds: time of a step of all seeds, the trial's start and evaluations included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    machine: str
    task: str
    fields: dict[str, Any]
    steps: int = Field(ge=1)
    seeds: int = Field(ge=1)
    gpu: bool = False
    seconds: float = Field(gt=0, allow_inf_nan=False)

    def differs(self, other: Speed, axes: Sequence[str]) -> tuple[int, float, float]:
        """Returns how far apart two kinds of trials are: in fields, in seeds, in steps.

        Args:
            other: the speed of the other trials.
            axes: the fields that count.

        Returns:
            The number of fields in which they differ, and the absolute logarithms of the ratios of
            their seeds and of their steps.
        """
        names = sum(self.fields.get(name) != other.fields.get(name) for name in axes)
        pairs = (self.seeds, other.seeds), (self.steps, other.steps)
        seeds, steps = (round(abs(math.log(ours / theirs)), 6) for ours, theirs in pairs)
        return names, seeds, steps

    def family(self, axes: Sequence[str]) -> str:
        """Returns a text that trials share if they differ in steps, seeds and ``axes`` alone."""
        fields = {name: value for name, value in self.fields.items() if name not in axes}
        return json.dumps([self.machine, self.task, self.gpu, fields], sort_keys=True)


class Starts(BaseModel):
    """The time around trials on a Ray of this machine, in seconds.

    Attributes:
        machine: its name.
        ray: start of Ray.
        worker: from there to the first trial's work.
        trial: between two trials of a slot.
    """

    model_config = ConfigDict(extra="forbid")

    machine: str = ""
    ray: float = Field(8.0, ge=0, allow_inf_nan=False)
    worker: float = Field(7.0, ge=0, allow_inf_nan=False)
    trial: float = Field(0.3, ge=0, allow_inf_nan=False)


class SpeedFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid")

    speeds: list[Speed] = []
    starts: list[Starts] = []


class Speeds:
    """Measured speeds, and the file that keeps them.

    Args:
        path: the file; None keeps them in memory alone.
        machine: name of the machine whose speeds are used; default: this one.
    """

    def __init__(self, path: Path | None = None, machine: str | None = None) -> None:
        self.path, self.machine = path, platform.node() if machine is None else machine
        kept = _read(path) if path else SpeedFile()
        self._starts = {starts.machine: starts for starts in kept.starts}
        self._speeds = {_key(speed): speed for speed in kept.speeds}
        self._families: dict[tuple[str, ...], dict[str, list[Speed]]] = {}
        self._saved = -math.inf
        self._is_new = False

    @classmethod
    def of_this_machine(cls) -> Speeds:
        """Returns the measured speeds of this machine."""
        return cls(file())

    @property
    def starts(self) -> Starts:
        """Measured times around trials; typical ones where none are measured."""
        return self._starts.get(self.machine, Starts(machine=self.machine))

    def seconds(self, task: Task[Any], spec: TrialSpec, step_microseconds: float) -> float | None:
        """Returns the expected time of a trial by earlier ones of its kind; None without any.

        Trials are of one kind if they have the same value of the first axis (the layer, say). They
        may differ in the other axes, in the number of seeds and, up to a factor, in the number of
        steps. The most similar ones are used.

        Args:
            task, spec: the trial.
            step_microseconds: time per step and seed by the preset, to convert between blocks of
                different sizes.
        """
        asked, axes = self._of(task, spec, 1.0), task.axes[1:]
        alike = [
            speed
            for speed in self._family(axes).get(asked.family(axes), [])
            if 1 / LIKE_STEPS <= speed.steps / asked.steps <= LIKE_STEPS
        ]
        if not alike:
            return None
        nearest = min(speed.differs(asked, axes) for speed in alike)
        times = [
            speed.seconds
            * block(asked.seeds, step_microseconds)
            / block(speed.seeds, step_microseconds)
            for speed in alike
            if speed.differs(asked, axes) == nearest
        ]
        return statistics.geometric_mean(times) * spec.steps

    def record(self, task: Task[Any], spec: TrialSpec, seconds: float) -> None:
        """Keeps the time that a whole trial took, averaged with that of earlier ones like it."""
        if seconds <= 0 or spec.steps <= 0:
            return
        new = self._of(task, spec, seconds / spec.steps)
        key = _key(new)
        if known := self._speeds.pop(key, None):
            mean = math.sqrt(known.seconds * new.seconds)
            new = new.model_copy(update={"seconds": mean})
        self._speeds[key] = new
        if len(self._speeds) > _MOST:
            del self._speeds[next(iter(self._speeds))]
        self._families.clear()
        self._is_new = True
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self.save()

    def record_start(self, **seconds: float) -> None:
        """Keeps times of :class:`Starts`, by name, averaged with those of earlier commands."""
        known = self.starts
        before = known.model_dump(include=known.model_fields_set & set(seconds))
        means = {name: (before.get(name, new) + new) / 2 for name, new in seconds.items()}
        self._starts[self.machine] = known.model_copy(update=means)
        self._is_new = True

    def save(self) -> None:
        """Writes the file if something is new; warns if that fails."""
        if self.path is None or not self._is_new:
            return
        self._saved, self._is_new = time.monotonic(), False
        kept = SpeedFile(speeds=[*self._speeds.values()], starts=[*self._starts.values()])
        try:
            write_text(self.path, kept.model_dump_json(indent=1, exclude_unset=True) + "\n")
        except OSError as error:
            log.warning("cannot keep measured speeds in %s: %s", self.path, error.strerror)

    def _of(self, task: Task[Any], spec: TrialSpec, seconds: float) -> Speed:
        return Speed(
            machine=self.machine,
            task=spec.task,
            fields=_fields(task, spec),
            steps=spec.steps,
            seeds=len(spec.seeds),
            gpu=spec.gpus > 0,
            seconds=seconds,
        )

    def _family(self, axes: tuple[str, ...]) -> dict[str, list[Speed]]:
        if axes not in self._families:
            families = self._families[axes] = {}
            for speed in self._speeds.values():
                families.setdefault(speed.family(axes), []).append(speed)
        return self._families[axes]


def file() -> Path:
    """Returns the file of measured speeds: in ``NALU_RAY_CACHE``, or in the user's cache."""
    return cache_folder() / "speed.json"


def block(seeds: int, step_microseconds: float) -> float:
    """Returns the relative time of a step of a block of seeds, given the time of one seed's.

    Args:
        seeds: number of seeds of the block.
        step_microseconds: time per step and seed, in microseconds.

    Returns:
        The time, in units of ``step_microseconds``.
    """
    return seeds + STEP_MICROSECONDS / step_microseconds


def expected(
    task: Task[Any], specs: Sequence[TrialSpec], step_microseconds: float, speeds: Speeds
) -> tuple[tuple[float, ...], int]:
    """Returns the expected seconds of each trial, and how many of them are measured.

    The others get the preset's time per step and seed, scaled as the measured ones differ from it.

    Args:
        task, specs: the trials.
        step_microseconds: the preset's time per step and seed, in blocks of the largest size here.
        speeds: measured speeds.
    """
    most = max((len(spec.seeds) for spec in specs), default=1)
    a_seed = most * step_microseconds / 1e6 / block(most, step_microseconds)
    by_preset = [spec.steps * a_seed * block(len(spec.seeds), step_microseconds) for spec in specs]
    measured = [speeds.seconds(task, spec, step_microseconds) for spec in specs]
    pairs = list(zip(measured, by_preset, strict=True))
    known = [(seconds, prior) for seconds, prior in pairs if seconds is not None]
    scale = 1.0
    if known:
        scale = sum(seconds for seconds, _ in known) / sum(prior for _, prior in known)
    times = tuple(scale * prior if seconds is None else seconds for seconds, prior in pairs)
    return times, len(known)


def _read(path: Path) -> SpeedFile:
    try:
        return SpeedFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return SpeedFile()
    except ValidationError as error:
        why = next(iter(explain(error)), "")
    except OSError as error:
        why = error.strerror or first_line(error)
    log.warning("measured speeds in %s are ignored: %s", path, why)
    return SpeedFile()


def _key(speed: Speed) -> str:
    return json.dumps(speed.model_dump(mode="json", exclude={"seconds"}), sort_keys=True)


def _fields(task: Task[Any], spec: TrialSpec) -> dict[str, Any]:
    fields = task.setting_type.model_fields
    return {
        name: value
        for name, value in spec.setting.model_dump(mode="json").items()
        if name in task.axes
        or (name not in _TIMELESS and value != fields[name].get_default(call_default_factory=True))
    }
