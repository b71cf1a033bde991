"""From a preset's values to the points of its grid: types, order, and fields that nothing reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from nalu_ray.errors import SHOWN, of_value, printable, shown
from nalu_ray.input.values import ValueReader, reason

if TYPE_CHECKING:
    from nalu_ray.sweep.presets import Override, Preset
    from nalu_ray.task import Setting


class FieldReaders:
    """Converts values to the types of a setting's fields; knows the fields' defaults."""

    def __init__(self, setting_type: type[Setting]) -> None:
        self.fields = setting_type.model_fields
        self.defaults = {
            name: info.get_default(call_default_factory=False) for name, info in self.fields.items()
        }
        self._readers: dict[str, ValueReader] = {}

    def __getitem__(self, name: str) -> ValueReader:
        if name not in self._readers:
            info = self.fields[name]
            self._readers[name] = ValueReader(Annotated[info.annotation, info])
        return self._readers[name]

    def axes(self, axes: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Returns axes with typed values; a value that does not fit is left unchanged."""
        return {
            name: [self[name].read_or_leave(value) for value in values]
            for name, values in axes.items()
        }

    def values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns typed single values, as :meth:`axes` does."""
        return {name: self[name].read_or_leave(value) for name, value in values.items()}


def typed(
    preset: Preset, changes: Mapping[str, Sequence[Any]], readers: FieldReaders
) -> tuple[Preset, list[str]]:
    """Returns a preset with typed values and the ``changes`` as its own, and its mistakes.

    Args:
        preset: the preset as its file has it.
        changes: field to the values that the command line gives it.
        readers: read the values of the task's fields.

    Returns:
        The preset, and one line per mistake.
    """
    mistakes = list(_hidden_mistakes(preset, changes, readers))
    sweep = preset.model_copy(
        update={
            "axes": readers.axes(preset.axes),
            "set": readers.values(preset.set),
            "changes": readers.axes(changes),
            "samples": [readers.values(point) for point in preset.samples],
        }
    )
    possible = {
        name: [sweep.set.get(name, default)] for name, default in readers.defaults.items()
    } | {name: list(values) for name, values in sweep.axes.items()}
    for name, values in [*sweep.changes.items(), *sampled(sweep).items()]:
        possible[name] = [*possible[name], *values]
    made: dict[str, list[Override]] = {"recipes": [], "overrides": []}
    for section, overrides in made.items():
        for index, override in enumerate(getattr(preset, section)):
            known = possible if section == "overrides" else None
            when, wrong = _typed_when(override.when, known, readers)
            mistakes += [f"sweep: {section}.{index}.when.{line}" for line in wrong]
            fixed, axes = readers.values(override.set), readers.axes(override.axes)
            update = {"when": when, "set": fixed, "axes": axes}
            overrides.append(override.model_copy(update=update))
            given = {name: [value] for name, value in fixed.items()}
            for name, values in [*given.items(), *axes.items()]:
                possible[name] = [*possible[name], *values]
    return sweep.model_copy(update=made), mistakes


def _hidden_mistakes(
    preset: Preset, changes: Mapping[str, Sequence[Any]], readers: FieldReaders
) -> Iterator[str]:
    """Yields mistakes in values that other values replace at every point."""
    replaced = {*changes, *sampled(preset)}
    taken = {*preset.axes, *replaced}
    hidden = [("set", name, [value]) for name, value in preset.set.items() if name in taken]
    hidden += [("axes", name, values) for name, values in preset.axes.items() if name in replaced]
    for section, name, values in hidden:
        for value in values:
            try:
                readers[name].read(value)
            except ValueError as error:
                yield of_value(f"sweep: {section}.{name}", value, reason(error))


def _typed_when(
    when: Mapping[str, Sequence[Any]],
    possible: Mapping[str, Sequence[Any]] | None,
    readers: FieldReaders,
) -> tuple[dict[str, list[Any]], list[str]]:
    """Returns the typed values of ``when``, and a mistake per value that no point can have.

    Args:
        when: values by field.
        possible: the values that points have by field; None if others may be named.
        readers: of the setting's fields.
    """
    typed: dict[str, list[Any]] = {}
    mistakes = []
    for name, values in when.items():
        typed[name] = []
        if not values:
            mistakes.append(f"{name}=[]: an empty list matches no point; leave {name} out")
        for value in values:
            try:
                typed[name].append(readers[name].read(value))
            except ValueError as error:
                mistakes.append(of_value(name, value, reason(error)))
                continue
            if possible is not None and typed[name][-1] not in possible[name]:
                values_there = ", ".join(dict.fromkeys(map(shown, possible[name])))
                there = printable(values_there, most=SHOWN)
                mistakes.append(f"{name}={shown(value)}: no point has it; there is {there}")
    return typed, mistakes


@dataclass
class Candidate:
    """A point before validation.

    Attributes:
        values: field values; other fields have their default.
        unvaried: field values without axes and changes.
        varied: fields that axes and changes set.
        seeds: requested seeds.
    """

    values: dict[str, Any]
    unvaried: dict[str, Any]
    varied: Collection[str]
    seeds: tuple[int, ...]


@dataclass
class Use:
    """Records which of the fields that a sweep varies are read by some point."""

    sweep: Preset
    read: set[str] = field(default_factory=set)
    reasons: dict[str, set[str]] = field(default_factory=dict)

    def settle(self, setting: Setting, candidate: Candidate) -> Setting:
        """Returns the setting; what it does not read of varied fields gets its unvaried values."""
        unread, varied = setting.unread(), candidate.varied
        idle = {name: unread[name] for name in varied if name in unread}
        values = {name: value for name, value in candidate.values.items() if name not in idle}
        changed = {name: candidate.unvaried[name] for name in idle if name in candidate.unvaried}
        for name, reasons in setting.unread_parts().items():
            if name not in varied or name in unread:
                continue
            given = getattr(setting, name)
            usual = candidate.unvaried.get(name, type(setting).model_fields[name].default)
            usual = usual * len(given) if len(usual) == 1 else usual
            if len(usual) != len(given):
                continue  # building the network says so
            kept = tuple(usual[i] if i in reasons else part for i, part in enumerate(given))
            if kept != given:
                changed[name] = kept
                if kept == tuple(usual):
                    idle[name] = "; ".join(reasons.values())
        for name, why in idle.items():
            self.reasons.setdefault(name, set()).add(why)
        self.read.update(name for name in varied if name not in idle)
        if not idle and not changed:
            return setting
        return type(setting).model_validate({**values, **changed})

    def mistakes(self) -> list[str]:
        """Returns a line per requested field that no point reads."""
        # with changes, an axis of the file may no longer be read
        asked = {**self.sweep.changes, **sampled(self.sweep)} or self.sweep.axes
        return [
            f"{name}={shown(list(values)).strip('[]')}: it has no effect, as "
            f"{printable('; '.join(sorted(self.reasons[name])), most=200)}"
            for name, values in asked.items()
            if name in self.reasons and name not in self.read
        ]


def candidates(
    preset: Preset, defaults: Mapping[str, Any], parse_seeds: Callable[[Any], tuple[int, ...]]
) -> Iterator[Candidate]:
    """Yields every point of a typed preset; its changes come last.

    Args:
        preset: from :func:`typed`.
        defaults: the value of each field that nothing sets.
        parse_seeds: reads a point's seeds.
    """
    fields = sampled(preset)
    asked = {*preset.changes, *fields}
    axes = {name: values for name, values in preset.axes.items() if name not in fields}
    grid = _product({**axes, **preset.changes})
    # itertools.product would first walk the whole grid, which may be far too large
    for base, sample in ((base, sample) for base in grid for sample in preset.samples or [{}]):
        chosen = {**base, **sample}
        start = Candidate({**preset.set, **chosen}, dict(preset.set), [*chosen], ())
        for point, seeds in _overridden(
            start, preset.seeds, [*preset.recipes, *preset.overrides], defaults, asked
        ):
            point.seeds = parse_seeds(seeds)
            yield point


def _overridden(
    point: Candidate,
    seeds: Any,
    overrides: Sequence[Override],
    defaults: Mapping[str, Any],
    asked: Collection[str],
) -> Iterator[tuple[Candidate, Any]]:
    """Yields what the overrides make of a point, in order, each with its seeds.

    An override sees what those before it have set, their axes included. It leaves the fields
    ``asked`` for on the command line alone.
    """
    if not overrides:
        yield point, seeds
        return
    override, *later = overrides
    here = {**defaults, **point.values}
    if not all(here[key] in allowed for key, allowed in override.when.items()):
        yield from _overridden(point, seeds, later, defaults, asked)
        return
    fixed, axes = (
        {name: value for name, value in given.items() if name not in asked}
        for given in (override.set, override.axes)
    )
    seeds = seeds if override.seeds is None else override.seeds
    for extra in _product(axes):
        values = {**point.values, **fixed, **extra}
        unvaried = {**point.unvaried, **override.set}
        made = Candidate(values, unvaried, [*point.varied, *extra], ())
        yield from _overridden(made, seeds, later, defaults, asked)


def sampled(preset: Preset) -> dict[str, list[Any]]:
    """Returns the values that the points of a search give to each of their fields."""
    names = dict.fromkeys(name for point in preset.samples for name in point)
    return {name: [point[name] for point in preset.samples if name in point] for name in names}


def _product(axes: Mapping[str, Sequence[Any]]) -> Iterable[dict[str, Any]]:
    for combination in itertools.product(*axes.values()):
        yield dict(zip(axes, combination, strict=True))
