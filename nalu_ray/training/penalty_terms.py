"""Terms of the setting's field ``penalty``, and how their coefficients change while training.

A term is written ``name:coefficient[:schedule[:arguments]]``; several are separated by ``;``.
:mod:`nalu_ray.training.penalties` says what the names stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field, ValidationError, model_validator

from nalu_ray.errors import did_you_mean, short
from nalu_ray.input.values import StrictModel, reason
from nalu_ray.training import patterns

FORM = "name:coefficient[:schedule[:arguments]]"


class Schedule(StrictModel):
    """How a coefficient changes over the steps of training.

    Attributes:
        name: as written; the fields are the arguments, in order.
    """

    name: ClassVar[str]

    def at(self, step: int, coefficient: float) -> float:
        """Returns the coefficient after ``step`` steps of training."""
        raise NotImplementedError

    @property
    def begins(self) -> int:
        """The number of steps before which the coefficient is 0."""
        return 0


class Constant(Schedule):
    """The coefficient at every step."""

    name = "constant"

    def at(self, step: int, coefficient: float) -> float:
        return coefficient


class Ramp(Schedule):
    """0 up to one step, the coefficient from a later one on, a line in between."""

    name = "linear"
    from_step: int = Field(ge=0)
    to_step: int = Field(ge=0)

    @model_validator(mode="after")
    def _rises(self) -> Ramp:
        if self.from_step >= self.to_step:
            raise ValueError("from_step must be below to_step")
        return self

    def at(self, step: int, coefficient: float) -> float:
        done = (step - self.from_step) / (self.to_step - self.from_step)
        return coefficient * min(1.0, max(0.0, done))

    @property
    def begins(self) -> int:
        return self.from_step


class Growth(Schedule):
    """Multiplied by a factor every so many steps, up to the highest value."""

    name = "growth"
    factor: float = Field(gt=0)
    every: int = Field(ge=1)
    highest: float = Field(ge=0)

    def at(self, step: int, coefficient: float) -> float:
        try:
            return min(self.highest, coefficient * self.factor ** (step // self.every))
        except OverflowError:  # a power beyond any float
            return self.highest if coefficient else 0.0


class Below(Schedule):
    """The coefficient from a step on, while the seed's own training loss is below a bound."""

    name = "below"
    bound: float
    from_step: int = Field(ge=0)

    def at(self, step: int, coefficient: float) -> float:
        return coefficient if step >= self.from_step else 0.0

    @property
    def begins(self) -> int:
        return self.from_step


SCHEDULES: dict[str, type[Schedule]] = {
    schedule.name: schedule for schedule in (Constant, Ramp, Growth, Below)
}


@dataclass(frozen=True)
class Term:
    """One penalty of a setting: its name, coefficient and schedule."""

    name: str
    coefficient: float
    schedule: Schedule

    def __str__(self) -> str:
        schedule = [self.schedule.name, *self.schedule.model_dump().values()]
        parts = [self.coefficient, *([] if schedule == ["constant"] else schedule)]
        texts = [part if isinstance(part, str) else patterns.written(part) for part in parts]
        return ":".join([self.name, *texts])


def parse(text: str) -> list[Term]:
    """Reads terms.

    Raises:
        ValueError: if the text is none; the message says what is wrong, and what is allowed.
    """
    terms = [_term(part.strip()) for part in text.split(";") if part.strip()]
    for index, term in enumerate(terms):
        if term in terms[:index]:
            raise ValueError(f"{str(term)!r} is written twice")
    return terms


def _term(text: str) -> Term:
    name, *parts = (part.strip() for part in text.split(":"))
    if not name or not parts:
        raise ValueError(f"{short(text)!r}: write {FORM}")
    coefficient = patterns.number(parts[0])
    if coefficient < 0:
        raise ValueError(f"{short(text)!r}: the coefficient must be at least 0")
    schedule_name, *arguments = parts[1:] or [Constant.name]
    if schedule_name not in SCHEDULES:
        raise ValueError(did_you_mean("schedule", schedule_name, SCHEDULES))
    return Term(name, coefficient, _schedule(text, SCHEDULES[schedule_name], arguments))


def _schedule(text: str, schedule: type[Schedule], arguments: Sequence[str]) -> Schedule:
    names = list(schedule.model_fields)
    if len(names) != len(arguments):
        form = ":".join([schedule.name, *names])
        raise ValueError(f"{short(text)!r}: write the schedule as {form}")
    values = {}
    for name, argument in zip(names, arguments, strict=True):
        value_type = schedule.model_fields[name].annotation or float
        values[name] = patterns.number(argument, value_type)
    try:
        return schedule(**values)
    except ValidationError as error:
        wrong = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise ValueError(
            f"{short(text)!r}: {wrong + ': ' if wrong else ''}{reason(error)}"
        ) from None
