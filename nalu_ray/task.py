"""The contract of a task: its settings, its batches and its runs.

A task is one module or folder in :mod:`nalu_ray.tasks`, found by the registry. Command-line help,
``--list``, the plan, tables, figures and the tests over all tasks are read from the :class:`Task`
that the module names ``TASK``.
"""

from __future__ import annotations

import functools
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import pandas as pd
from pydantic import Field, model_validator
from pydantic_core import to_jsonable_python

from nalu_ray.input.values import StrictModel, check_text
from nalu_ray.results.specs import FigureSpec, TableSpec, TaskSpecs
from nalu_ray.results.store.columns import columns

if TYPE_CHECKING:  # tables are printed without torch
    import torch
    from torch import Tensor


class Setting(StrictModel):
    """One point of a task's grid. Equal values have an equal :attr:`id` on any machine."""

    def unread(self) -> dict[str, str]:
        """Returns the fields that have no effect at this point, each with the reason.

        A grid does not vary them. The command line refuses such a field with its reason if it is
        set for these points alone.
        """
        return {}

    def unread_parts(self) -> dict[str, dict[int, str]]:
        """Returns the parts of lists, by index, that have no effect at this point, with the reason.

        A grid does not vary them either.
        """
        return {}

    def remarks(self) -> list[str]:
        """Returns a line for each value that is valid but probably not meant; the plan shows it."""
        return []

    def units(self) -> Collection[str]:
        """Returns the layers and cells that are named within a value, such as ``lstm_nalu``.

        Those that are a whole value, also one within a list or options, need not be among them.
        """
        return ()

    @model_validator(mode="after")
    def _can_be_stored(self) -> Setting:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, list | tuple | dict):
                value = json.dumps(value, default=str)
            if isinstance(value, str):
                check_text(name, value)
        return self

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits of the SHA-256 of the canonical JSON.

        A field that :func:`added` declares counts only if its value is not the default.
        """
        values = self.model_dump(mode="json")
        later = values_before(type(self)).items()
        return setting_id(
            {name: values[name] for name in values if (name, values[name]) not in later}
        )


def added(since: str, default: Any, **rules: Any) -> Any:
    """Declares a field that a later version adds to a setting with stored rows.

    Settings at the default keep the id that they had without the field, and older rows are read as
    if they had the default. The default must therefore be the earlier behaviour, and never change.

    Args:
        since: the first version with the field.
        default: the value that describes earlier runs.
        rules: arguments of pydantic's ``Field``.
    """
    extra = {"since": since, "before": to_jsonable_python(default)}
    return Field(default, json_schema_extra=extra, **rules)


@functools.cache
def values_before(setting_type: type[Setting]) -> dict[str, Any]:
    """Returns the JSON value that older rows have for each field that :func:`added` declares."""
    extras = {name: field.json_schema_extra for name, field in setting_type.model_fields.items()}
    return {
        name: extra["before"]
        for name, extra in extras.items()
        if isinstance(extra, dict) and "since" in extra
    }


def setting_id(values: Mapping[str, Any]) -> str:
    """Returns the stable hash of a setting's values."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


S = TypeVar("S", bound=Setting)
Spec = TypeVar("Spec", TableSpec, FigureSpec)


@dataclass(frozen=True)
class Batch:
    """Inputs and targets of a block of seeds; the leading axis R of every tensor is the seeds.

    The network is called as ``network(*inputs)``. If all seeds get the same inputs (``shared``),
    the leading axis of each input is 1. That is faster, as the network's first products become one,
    but a seed's numbers equal those of the seed alone only up to rounding.

    Attributes:
        inputs: (R, ...) each, or (1, ...) each if ``shared``.
        targets: (R, ...).
        shared: whether all seeds get the same inputs.
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    shared: bool = False


@dataclass(frozen=True)
class Progress:
    """The progress of a run: ``step`` of ``steps``, and figures to show while it runs."""

    step: int
    steps: int
    shown: Mapping[str, float] = field(default_factory=dict)


class Run(Protocol):
    """A trial in progress: one setting, a block of seeds.

    A run that trains its seeds in turn may have an attribute ``ended``, the seeds whose rows and
    files are complete: these are stored even if the run fails at a later seed.
    """

    def advance(self) -> Progress:
        """Trains up to the next report. The run is over when ``step == steps``."""
        ...

    def rows(self) -> pd.DataFrame:
        """Returns columns ``seed, step, split, metric, x, value, reason, outcome``.

        The last row of each seed has metric ``completed``, also when the seed diverged. It alone
        has an outcome, see :mod:`nalu_ray.results.store.rows`; without one, its reason is read.
        """
        ...

    def files(self) -> Mapping[str, bytes]:
        """Returns the files that a finished run stores beside its rows, by name."""
        ...

    def close(self) -> None:
        """Stops what the run started. Called once, as the last method, also after a failure."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns the state from which a new run of the same setting and seeds resumes exactly."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes from a state of :meth:`state_dict`."""
        ...


class Task(ABC, Generic[S]):
    """One experiment of the paper.

    Attributes:
        name: name on the command line, also the module's name.
        title, section: title and section of the paper; the section is empty for a task that is not
            in the paper, and may be any text, such as a section of another paper.
        setting_type: model of one point of the grid, with a line of help for each field.
        axes: setting fields in a trial's name, in order (``layer``, ``op``).
        unit_labels: setting fields that name units, and what tables and figures call a unit there:
            its registered label goes into the braces.
        tables, figures: specifications of the tables and figures made from stored rows.
        unit: unit of the steps where their rate is shown.
        uses_ray: whether its runs need Ray themselves, also where a sweep does without.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    section: ClassVar[str] = ""
    setting_type: type[S]
    axes: ClassVar[tuple[str, ...]] = ()
    unit_labels: ClassVar[Mapping[str, str]] = {"layer": "{}"}
    tables: ClassVar[tuple[TableSpec, ...]] = ()
    figures: ClassVar[tuple[FigureSpec, ...]] = ()
    unit: ClassVar[str] = "seed-steps"
    uses_ray: ClassVar[bool] = False

    @abstractmethod
    def start(self, setting: S, seeds: Sequence[int], device: torch.device) -> Run:
        """Builds the run of a block of seeds."""

    @abstractmethod
    def steps(self, setting: S) -> int:
        """Returns the steps per seed, for progress and time estimates."""

    def check(self, setting: S) -> None:
        """Checks that a setting can be run, before anything runs.

        Raises:
            TypeError, ValueError: if it cannot; the message names the field and the allowed values.
        """

    def prepare(self) -> None:
        """Fetches the data that trials on this machine need; called once, before the first trial.

        Raises:
            RuntimeError: if it cannot; the message says what was tried and what to do.
        """

    def memory(self, setting: S, seeds: int) -> int:
        """Returns the peak memory of a trial of ``seeds`` seeds, in bytes above a bare worker.

        The plan splits a block that would not fit.
        """
        return 0

    def trained(self, setting: S, seeds: int) -> int:
        """Returns the bytes of the parameters of ``seeds`` seeds, gradients and moments included.

        They are added to :meth:`memory`.
        """
        return 0

    def activations(self, setting: S, seeds: int) -> int:
        """Returns the bytes that the setting's own network makes of its examples, if measured.

        :meth:`memory` is a formula and may not know a new unit; the larger of the two counts.
        """
        return 0

    def device_memory(self, setting: S, seeds: int) -> int:
        """Returns the peak memory of a trial's tensors on a GPU, in bytes above CUDA's own.

        By default it is that of the same tensors on a CPU. A trial's manifest has the bytes that it
        took.
        """
        made = max(self.memory(setting, seeds), self.activations(setting, seeds))
        return made + self.trained(setting, seeds)

    def parameters(self, setting: S) -> int | None:
        """Returns the number of trained parameters per seed; None if it is not known."""
        return None

    def processes(self, setting: S) -> int:
        """Returns the number of processes that a trial starts; they share its CPUs."""
        return 0

    def label(self, setting: S) -> str:
        """Returns a trial's readable name, such as ``static nalu mul lr=0.01``."""
        values = [str(getattr(setting, axis)) for axis in self.axes]
        rate = getattr(setting, "lr", None)
        return " ".join([self.name, *values] + ([] if rate is None else [f"lr={rate:g}"]))

    def where(self) -> str:
        """Returns `` (section 4.1)``, or an empty text for a task that is not in the paper."""
        return f" (section {self.section})" if self.section else ""

    def specs(self) -> TaskSpecs:
        """Returns the specifications that are stored, so that ``report`` needs no task code."""
        return TaskSpecs(
            task=self.name,
            title=self.title,
            section=self.section,
            tables=tuple(self._labelled(table, ("rows", "columns")) for table in self.tables),
            figures=tuple(self._labelled(figure, ("lines", "panels")) for figure in self.figures),
            axes=self.axes,
            fields=dict(columns(self.setting_type)),
            added=values_before(self.setting_type),
        )

    def _labelled(self, spec: Spec, axes: Sequence[str]) -> Spec:
        """Adds the registry's labels, and the parts given by hand, to an axis over units."""
        of_units = {
            name: axis
            for name in axes
            if (axis := getattr(spec, name)) and axis.field in self.unit_labels
        }
        if not of_units:
            return spec
        from nalu_ray import layers  # noqa: PLC0415 (keeps torch optional)

        entries = [*map(layers.get_cell, layers.cell_names()), *map(layers.get, layers.names())]
        given = {entry.name: entry.given for entry in entries if entry.given}
        known = {}
        for name, axis in of_units.items():
            pattern = self.unit_labels[axis.field]
            labels = {entry.name: pattern.format(entry.label) for entry in entries}
            more = {"more": labels | axis.more, "given": given | axis.given}
            known[name] = axis.model_copy(update=more)
        return spec.model_copy(update=known)
