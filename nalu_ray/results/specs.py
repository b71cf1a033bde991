"""Tables and figures as data: what a task declares and :mod:`nalu_ray.results` interprets.

The specifications travel with the stored rows as JSON, so that a table is rebuilt anywhere, without
the task's code, torch or Ray. Captions and labels name fields of the settings in braces, and
:mod:`nalu_ray.results.analysis.text` writes the rows' values there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nalu_ray.errors import printable
from nalu_ray.results.publication import Publication
from nalu_ray.results.store.columns import Column

BUDGET = (
    "steps",
    "batch",
    "pool",
    "shared_inputs",
    "evaluations",
    "test_size",
    "test_images",
    "validation_episodes",
    "test_episodes",
)
"""Fields that say how long training was and on how much data a number was measured."""

RECIPE = (
    "hidden",
    "features",
    "optimiser",
    "lr",
    "lr_factor",
    "nac_lr_factor",
    "adam_eps",
    "penalty",
    "sparsity",
)
"""Fields that say how a model was trained, beside its budget: a caption says where they differ."""

SUCCESS = ("rate", "solved_at")
"""Statistics of the seeds that solved."""

OWN_THRESHOLD = "the threshold of success"
"""What a caption calls the metric that is ``solved_below``."""

TRIAL = "trial"
"""Split of the numbers of a whole run, whatever its step: ``parameters``, trained per seed, and
``seed_step_microseconds``, the time per step and seed, evaluations included."""

ANY_PRESET = ("*",)
_PRESETS = (
    "patterns of the presets whose rows it shows; one that begins with '!' leaves presets out"
)


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Selection(_Spec):
    """How one logged step of one seed of one setting is chosen; never by an extrapolation split.

    The split ``weights`` has the figures of the parameters, such as ``sparsity_error``.
    """

    metric: str = "mse"
    split: Literal["interpolation", "validation", "train", "weights"] = "interpolation"
    step: Literal["best", "last"] = "best"

    def describe(self) -> str:
        """Returns the rule as a caption prints it."""
        return f"selected by lowest {self.split} {self.metric}, {self.step} logged step"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class Axis(_Spec):
    """A setting's field laid out along a table's rows or columns, or a figure's lines."""

    field: str
    labels: dict[str, str] = Field(
        {}, description="value as stored -> as printed, in printed order; true and false lower case"
    )
    others: bool = Field(
        True, description="stored values without a label follow, so that a new unit needs no edit"
    )
    more: dict[str, str] = Field(
        {}, description="labels of values that have no place of their own, should they be stored"
    )
    published: dict[str, str] = Field(
        {}, description="value as stored -> id in the published table, where they differ"
    )
    given: dict[str, str] = Field(
        {}, description="stored value -> what is set by hand for it, while others learn it"
    )
    apart: dict[str, dict[str, str]] = Field(
        {},
        description="another field, or field<number -> value as stored -> label of its rows that "
        "have the other field, or have it below the number: a row of their own, such as "
        "value@field, under the first that they fit; published beside it what the value has",
    )

    @field_validator("apart")
    @classmethod
    def _conditions(cls, apart: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for condition in apart:
            field, below, number = condition.partition("<")
            if not field.isidentifier() or (below and not _is_number(number)):
                raise ValueError(f"{condition!r}: write a field, or field<number")
        return apart


class Measure(_Spec):
    """One number of a cell."""

    metric: str
    split: str
    label: str
    statistic: Literal["selected", "mean", "median", "rate", "solved_at"] = Field(
        "selected",
        description="rate: per cent of the seeds below solved_below at the selected step; "
        "solved_at: median, over these seeds, of the first logged step below it",
    )
    relative_to: str | None = Field(None, description="metric whose median over seeds is 100")
    scale: float = 1.0
    percent_of_zero: str | None = Field(
        None,
        description="setting's field L: in percent of the mean absolute error of predicting 0 for "
        "the integers -L to L",
    )
    format: str = Field(
        ".1f",
        pattern=r"^,?\.[0-9]{1,2}[efg]$",
        description="Python's, but .4g prints like table 6: 120.9, .0213, <.0001",
    )
    better: Literal["lower", "higher"] = "lower"
    worst: float | None = Field(
        None,
        description="unscaled value of a seed that diverged or failed, such as 0 of an accuracy; "
        "none: infinitely bad",
    )
    published: tuple[str, str] | None = Field(
        None, description="published (column, split) in layout columns, if not (key, split)"
    )
    published_scale: float = Field(
        1.0,
        description="factor on the published number, for the comparison with ours; the product is "
        "printed after the published number",
    )

    @property
    def highest(self) -> bool:
        """Whether the highest number is the best."""
        return self.better == "higher" or self.statistic == "rate"


class TableSpec(_Spec):
    """A table of the paper, or one of ours in the same shape.

    ``layout`` says where the measures go: ``blocks`` one under the other (Table 7), ``subrows``
    under each row (Table 6), ``columns`` side by side without a column axis (Table 5).
    """

    name: str
    number: int | None = Field(
        None, ge=1, le=11, description="table of the paper whose values stand beside ours"
    )
    title: str = Field("", description="printed before the caption, if it has no number")
    caption: str
    rows: Axis
    columns: Axis | None = None
    measures: dict[str, Measure] = Field(description="published split or column -> number")
    layout: Literal["blocks", "subrows", "columns"] = "blocks"
    reference: str | None = Field(
        None, description="metric of the published 'random' column or row: median over seeds"
    )
    selection: Selection = Selection()
    solved_below: str | None = Field(
        None, description="metric that holds each seed's success threshold for the split it is in"
    )
    solved_like: str | None = Field(
        None,
        description="row of the reference model: a run is solved if its measure is below the upper "
        "99 % confidence limit of the mean of this row's runs",
    )
    where: dict[str, str] = Field(
        {}, description="setting's field -> value as stored: other rows are not in the table"
    )
    reference_by: tuple[str, ...] = Field(
        (), description="setting fields that the reference depends on beside the problem"
    )
    presets: tuple[str, ...] = Field(ANY_PRESET, description=_PRESETS)
    publication: Publication | None = Field(
        None, description="published values beside ours, if not those of a table of the paper"
    )
    pooled: str | None = Field(
        None,
        description="setting's field whose values are pooled: a cell has the runs of one setting "
        "per value; for rates",
    )
    board: bool = Field(False, description="part of the leaderboard")
    least_columns: int = Field(
        1, ge=1, description="left out where no row was run with as many values of the column axis"
    )
    models: Literal["rows", "columns"] | None = Field(
        None, description="axis that is compared: where the best is bold"
    )
    doubtful: tuple[tuple[str, ...], ...] = Field(
        (),
        description="row and printed column of published values that are marked; a third name is "
        "the measure, if the others of the cell are not",
    )
    doubt: str = Field("", description="what the mark means")
    paired_with: str | None = Field(
        None, description="model that the others are compared with seed by seed, if stored"
    )
    words: dict[str, dict[str, str]] = Field(
        {}, description="setting's field -> value as stored -> what texts say for {field}"
    )
    paper: dict[str, str] = Field(
        {}, description="setting's field -> the paper's value: the caption names what differs"
    )
    problem: tuple[str, ...] = Field(
        (), description="setting fields that define the data: one table per combination of values"
    )
    follows: dict[str, str] = Field(
        {},
        description="further field of the data -> the field that it changes with: one table per "
        "value if settings differ in it alone",
    )
    budget: tuple[str, ...] = Field(
        BUDGET,
        description="setting fields of a run's budget: changed from the preset, they make another "
        "table; where they differ within one, the caption says so",
    )

    @property
    def compared(self) -> Literal["rows", "columns"]:
        """Axis of the models: ``models``, else the columns where there are any."""
        return self.models or ("rows" if self.columns is None else "columns")

    @property
    def threshold(self) -> str | None:
        """What a solved run is below, in words; None if the table says nothing of success."""
        if self.solved_like is None:
            return OWN_THRESHOLD if self.solved_below else None
        return f"the upper 99 % limit of the mean of {self.rows.labels[self.solved_like]}"

    @model_validator(mode="after")
    def _has_columns(self) -> TableSpec:
        if (self.layout == "columns") != (self.columns is None):
            raise ValueError("columns: set them for the layouts blocks and subrows only")
        if self.solved_like is not None and self.solved_below is not None:
            raise ValueError(
                "solved_like: a table has one rule of success, and solved_below is set"
            )
        if self.solved_like is not None and self.solved_like not in self.rows.labels:
            raise ValueError(f"solved_like: {self.solved_like!r} is not a labelled row")
        if bool(self.doubtful) != bool(self.doubt):
            raise ValueError("doubt: set it together with doubtful")
        if self.number is not None and self.publication is not None:
            raise ValueError("publication and number: a table has one of them at most")
        for key, measure in self.measures.items():
            if self.pooled is not None and measure.statistic != "rate":
                raise ValueError(f"pooled: measures.{key} must be a rate, not {measure.statistic}")
            if self.solved_like is not None and measure.better == "higher":
                raise ValueError(f"measures.{key}: solved_like needs a measure with better=lower")
            if measure.statistic in SUCCESS and self.threshold is None:
                raise ValueError(
                    f"measures.{key}: {measure.statistic} needs solved_below or solved_like"
                )
        return self


class FigureSpec(_Spec):
    """A curve with a band for each line, in one panel or in one per value of ``panels``.

    ``x`` is ``x`` (a curve that a run logged), ``step`` (a metric during training), or a field of
    the setting: each point is then one setting, read as a cell of a table.
    """

    name: str
    number: str | None = None
    caption: str
    metric: str
    split: str
    x: str = "x"
    x_part: int | None = Field(
        None,
        ge=0,
        description="of a field whose values have parts between colons, the part along x, from 0: "
        "1 is the weight of a penalty; a value without it is left out",
    )
    lines: Axis
    panels: Axis | None = None
    statistic: Literal["mean", "median", "two_sigma", "rate", "solved_at"] = Field(
        "mean",
        description="the line over seeds and its band's rule; two_sigma is the mean with a band of "
        "two standard deviations over seeds to each side; rate and solved_at are those of a table",
    )
    solved_below: str | None = Field(None, description="as of a table")
    presets: tuple[str, ...] = Field(ANY_PRESET, description=_PRESETS)
    publication: Publication | None = Field(None, description="published points beside our curves")
    relative_to: str | None = None
    selection: Selection = Field(
        Selection(), description="picks one setting per line, by its median"
    )
    shade: tuple[float, float] | str | None = Field(
        None,
        description="training range on the x axis, or the setting's field that holds it, or its "
        "limit to both sides",
    )
    x_label: str
    y_label: str
    log_x: bool = Field(
        False,
        description="a field's values stand side by side if one of them has no place on a log axis",
    )
    log_y: bool = False
    select_step: bool = Field(False, description="only the last logged step of each seed (x = 'x')")
    words: dict[str, dict[str, str]] = Field(
        {}, description="setting's field -> value as stored -> what texts say for {field}"
    )
    paper: dict[str, str] = Field(
        {}, description="setting's field -> the paper's value: the caption names what differs"
    )
    problem: tuple[str, ...] = Field(
        (), description="setting fields that define the data: one figure per combination of values"
    )
    follows: dict[str, str] = Field({}, description="as of a table")
    budget: tuple[str, ...] = Field(BUDGET, description="as of a table")

    @property
    def swept(self) -> str | None:
        """The setting's field along the x axis, if it is one."""
        return None if self.x in ("x", "step") else self.x

    @model_validator(mode="after")
    def _can_be_drawn(self) -> FigureSpec:
        allowed = ("median", *SUCCESS) if self.swept else ("mean", "median", "two_sigma")
        if self.statistic not in allowed:
            choice = ", ".join(allowed)
            raise ValueError(f"statistic={self.statistic!r}: with x={self.x!r}, one of {choice}")
        if self.statistic in SUCCESS and self.solved_below is None:
            raise ValueError(f"statistic={self.statistic!r}: needs solved_below")
        if self.x_part is not None and not self.swept:
            raise ValueError(f"x_part: x={self.x!r} is no field of the setting")
        return self


def learning_figure(**fields: Any) -> FigureSpec:
    """Returns the figure of a logged metric during training: by default medians, on a log axis.

    Args:
        fields: those of :class:`FigureSpec`.
    """
    common = {"x": "step", "x_label": "training step", "statistic": "median", "log_y": True}
    return FigureSpec(**{**common, **fields})


class TaskSpecs(_Spec):
    """What the store keeps beside a task's rows, enough to print its tables and figures again."""

    task: str
    title: str
    section: str = ""
    question: str = Field("", description="what the experiment asks, one sentence")
    tables: tuple[TableSpec, ...] = ()
    figures: tuple[FigureSpec, ...] = ()
    searched: dict[str, str] = Field(
        {}, description="preset -> whose recipes were chosen among several, a sentence of captions"
    )
    axes: tuple[str, ...] = Field((), description="setting fields that name a trial, in order")
    fields: dict[str, Column] = Field(
        {}, description="setting fields -> type of their column, the same in every file"
    )
    presets: dict[str, tuple[str, ...]] = Field(
        {}, description="ids of the settings of each shipped preset"
    )
    added: dict[str, Any] = Field(
        {}, description="fields that a later version added: the value of rows without them"
    )

    @classmethod
    def read(cls, data: bytes) -> TaskSpecs:
        """Reads what the store kept.

        Raises:
            ValueError: it is not a specification, or a text in it has control characters.
        """
        specs = cls.model_validate_json(data)
        for text in _texts(specs.model_dump()):
            if printable(text) != text:
                raise ValueError(f"control characters in {text[:60]!r}")
        return specs


def _texts(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, dict):
        yield from itertools.chain.from_iterable(map(_texts, (*values, *values.values())))
    elif isinstance(values, list | tuple):
        yield from itertools.chain.from_iterable(map(_texts, values))
