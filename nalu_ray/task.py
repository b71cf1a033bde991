"""The contract a task fulfils. One module in :mod:`nalu_ray.tasks`, found by the registry.

Everything else (command-line help, ``--list``, the plan, tables, figures, the tests that run over
all tasks) is read from the :class:`Task` that the module names ``TASK``.
"""

from __future__ import annotations

import functools
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

import pandas as pd
from pydantic import Field, model_validator
from pydantic_core import to_jsonable_python

from nalu_ray.results.specs import FigureSpec, Selection, TableSpec, TaskSpecs
from nalu_ray.results.store.columns import columns
from nalu_ray.values import Plain, check_text

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from nalu_ray.seeding import Streams
    from nalu_ray.training.replicas import Replicas


class Setting(Plain):
    """One point of a task's grid. Equal values give an equal :attr:`id`, on any machine."""

    def unread(self) -> dict[str, str]:
        """Returns the fields that change nothing about this point, each with the reason.

        A grid does not vary them, and who sets one for such points alone is told the reason.
        """
        return {}

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

        A field of :func:`added` counts only where its value is not its default.
        """
        values = self.model_dump(mode="json")
        later = values_before(type(self)).items()
        return setting_id(
            {name: values[name] for name in values if (name, values[name]) not in later}
        )


def added(since: str, default: Any, **rules: Any) -> Any:
    """A field that a version adds to a setting that has rows stored.

    Settings that have the default keep the id that they had before, and rows of before are read
    with it. So the default must be what runs did before, and never change.

    Args:
        since: the version that has the field first.
        default: what runs did before.
        rules: of pydantic's ``Field``.
    """
    extra = {"since": since, "before": to_jsonable_python(default)}
    return Field(default, json_schema_extra=extra, **rules)


@functools.cache
def values_before(setting_type: type[Setting]) -> dict[str, Any]:
    """Returns the value, as JSON has it, that runs had before each field of :func:`added` came."""
    found = {name: field.json_schema_extra for name, field in setting_type.model_fields.items()}
    return {
        name: extra["before"]
        for name, extra in found.items()
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
    """Inputs and targets of a block of seeds, the seeds as the leading axis R of each.

    ``inputs`` is a tuple: the network is called as ``network(*inputs)``. Where all seeds get the
    same inputs (``shared``), the leading axis of each input is 1, and the network's first products
    become one: faster, and equal to a seed alone only to rounding.
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    shared: bool = False


@dataclass(frozen=True)
class Progress:
    """Where a run stands: ``step`` of ``steps``, and the figures worth showing while it runs."""

    step: int
    steps: int
    shown: Mapping[str, float] = field(default_factory=dict)


class Run(Protocol):
    """One trial at work: one setting, a block of seeds."""

    def advance(self) -> Progress:
        """Works up to the next report. The run is over when ``step == steps``."""
        ...

    def rows(self) -> pd.DataFrame:
        """Returns columns ``seed, step, split, metric, x, value, reason``.

        The last row of each seed has metric ``completed``, also when the seed diverged.
        """
        ...

    def files(self) -> Mapping[str, bytes]:
        """Returns what is kept beside the rows of a run that came to its end, by name."""
        ...

    def close(self) -> None:
        """Ends what the run started, however it went; called once, nothing comes after."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns all that a fresh run of the same setting and seeds needs to go on exactly."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` returned."""
        ...


class Task(ABC, Generic[S]):
    """One experiment of the paper.

    Attributes:
        name: as on the command line; the module's name.
        title, section: of the paper; the section is empty for what is not in it, and may be any
            text, such as that of another paper.
        setting_type: model of one point of the grid, each field with its help line.
        axes: setting fields that tell trials apart in names, in order (``layer``, ``op``).
        tables, figures: what is printed from the stored rows.
        unit: what a seed's steps are called where their rate is shown.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    section: ClassVar[str] = ""
    setting_type: type[S]
    axes: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[tuple[TableSpec, ...]] = ()
    figures: ClassVar[tuple[FigureSpec, ...]] = ()
    unit: ClassVar[str] = "seed-steps"

    @abstractmethod
    def start(self, setting: S, seeds: Sequence[int], device: torch.device) -> Run:
        """Builds the run of a block of seeds."""

    @abstractmethod
    def steps(self, setting: S) -> int:
        """Returns the steps of one seed, for progress and time estimates."""

    def check(self, setting: S) -> None:
        """Makes sure that a setting can be run, before anything is.

        Raises:
            TypeError, ValueError: it cannot; the message names the field and what is allowed.
        """

    def prepare(self) -> None:
        """Fetches what trials on this machine need; called once, before the first of them.

        Raises:
            RuntimeError: it is not to be had; the message says what was tried and what to do.
        """

    def memory(self, setting: S, seeds: int) -> int:
        """Returns the bytes that a trial of so many seeds holds at its peak, beyond a bare worker.

        The plan splits a block that would not fit.
        """
        return 0

    def trained(self, setting: S, seeds: int) -> int:
        """Returns the bytes of so many seeds' parameters and of all that goes with them.

        They count beside :meth:`memory`.
        """
        return 0

    def processes(self, setting: S) -> int:
        """Returns how many processes a trial starts beside its own; they share its CPUs."""
        return 0

    def label(self, setting: S) -> str:
        """Returns a trial's readable name, such as ``static nalu mul lr=0.01``."""
        values = [str(getattr(setting, axis)) for axis in self.axes]
        rate = getattr(setting, "lr", None)
        return " ".join([self.name, *values] + ([] if rate is None else [f"lr={rate:g}"]))

    def where(self) -> str:
        """Returns where the paper has it, such as `` (section 4.1)``; empty if it has not."""
        return f" (section {self.section})" if self.section else ""

    def specs(self) -> TaskSpecs:
        """Returns what the store keeps so that ``report`` needs no task code."""
        return TaskSpecs(
            task=self.name,
            title=self.title,
            section=self.section,
            tables=tuple(_labelled(table, ("rows", "columns")) for table in self.tables),
            figures=tuple(_labelled(figure, ("lines", "panels")) for figure in self.figures),
            axes=self.axes,
            fields=dict(columns(self.setting_type)),
            added=values_before(self.setting_type),
        )


def _labelled(spec: Spec, axes: Sequence[str]) -> Spec:
    """Gives each axis of layers the registered labels, for layers that it does not list."""
    known = {name: getattr(spec, name) for name in axes}
    of_layers = {name: axis for name, axis in known.items() if axis and axis.field == "layer"}
    if not of_layers:
        return spec
    from nalu_ray import layers  # noqa: PLC0415 (keeps torch optional)

    labels = {name: layers.get_cell(name).label for name in layers.cell_names()}
    labels |= {name: layers.get(name).label for name in layers.names()}
    return spec.model_copy(
        update={name: axis.model_copy(update={"more": labels}) for name, axis in of_layers.items()}
    )


class SupervisedTask(Task[S]):
    """A task of inputs and targets, trained by :class:`nalu_ray.training.supervised.SupervisedRun`.

    A new one says how to draw a batch, how to build the network and what to measure; the loss is
    the mean squared error unless it says otherwise.

    Attributes:
        splits: the evaluation sets.
        keep: where each seed's parameters are kept, as a file beside the rows; none are without.
    """

    splits: ClassVar[tuple[str, ...]] = ("interpolation", "extrapolation")
    keep: ClassVar[Selection | None] = None

    def start(self, setting: S, seeds: Sequence[int], device: torch.device) -> Run:
        from nalu_ray.training.supervised import SupervisedRun  # noqa: PLC0415 (keeps torch optional)

        return SupervisedRun(self, cast(Any, setting), seeds, device)

    def check(self, setting: S) -> None:
        """Builds the network without memory for its parameters, and rehearses a step of it."""
        from nalu_ray.training.footprint import without_memory  # noqa: PLC0415 (keeps torch optional)
        from nalu_ray.training.rehearsal import rehearse  # noqa: PLC0415

        network = without_memory(lambda: self.build(setting))
        rehearse(self, cast(Any, setting), network)

    def example(self, setting: S, streams: Streams) -> Batch | None:
        """Returns a batch as of training, for :meth:`check`, before :meth:`prepare` was called.

        A task whose training data is fetched makes one up, or returns none: then check only builds.
        """
        return self.sample(setting, "train", streams)

    def trained(self, setting: S, seeds: int) -> int:
        """Parameters, gradients and moments."""
        from nalu_ray.training import footprint  # noqa: PLC0415 (keeps torch optional)

        count = footprint.parameters(self.name, setting.id, lambda: self.build(setting))
        return footprint.trained(count, cast(Any, setting).optimiser, seeds)

    @abstractmethod
    def sample(self, setting: S, split: str, streams: Streams) -> Batch:
        """Draws one training batch (``split="train"``) or a whole evaluation set, R seeds at once.

        Seed k's slice must depend on ``streams``'s generator k alone. What is fixed within a seed
        (the sections of the static task) comes from ``streams.fork("...")``.
        """

    @abstractmethod
    def build(self, setting: S) -> nn.Module:
        """Builds one seed's network; torch's generator has been seeded for it."""

    def predict(
        self, network: Replicas, setting: S, split: str, batch: Batch, streams: Streams
    ) -> Tensor:
        """Returns each seed's predictions for a training batch or an evaluation set, (R, ...).

        Args:
            network: the block's networks, called together.
            setting, split, batch: of :meth:`sample`.
            streams: for an evaluation set, as :meth:`sample` got them, so that a task may draw
                again what is too large to be held.
        """
        prediction: Tensor = network(*batch.inputs, shared=batch.shared)
        return prediction

    def loss(self, setting: S, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns what each seed minimises, (R, ...) x (R, ...) -> (R,)."""
        return (prediction - target).square().flatten(1).mean(1)

    def metrics(
        self, setting: S, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Returns each seed's figures on a split, (R, ...) x (R, ...) -> {name: (R,)}."""
        from nalu_ray.training.metrics import mean_squared_error  # noqa: PLC0415

        return {"mse": mean_squared_error(prediction, target)}

    def references(
        self, setting: S, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns figures of an evaluation set that need no training, {name: (R,)}."""
        return {}

    def curves(
        self, setting: S, split: str, batch: Batch, prediction: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Returns curves taken at the last step, {metric: (x of (P,), values of (R, P))}."""
        return {}
