"""Penalties that a setting adds to the loss of each seed.

The name of a term is one of:

* ``sparsity``: what units of the network return under this name from ``penalty()``, summed, or a
  penalty of the task (:meth:`nalu_ray.training.supervised.SupervisedTask.penalties`);
* ``0.sparsity``: the same of one unit, by its path in the network; the path may be a pattern;
* ``l1@*.W``, ``l2@*.W``: sum of magnitudes, or of squares, of the parameters that match a pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce

import torch
from torch import Tensor, nn

from nalu_ray.errors import did_you_mean, short
from nalu_ray.training import members, patterns
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.terms import Below, Term

NORMS = ("l1", "l2")
Named = Mapping[str, Tensor]


@dataclass(frozen=True)
class Matched:
    """A term, and what of a network it stands for.

    Attributes:
        term: the term.
        of_units: path and name of each unit's penalty.
        parameters: names of the parameters of a norm.
        of_task: whether it is a penalty of the task.
    """

    term: Term
    of_units: tuple[tuple[str, str], ...] = ()
    parameters: tuple[str, ...] = ()
    of_task: bool = False


def resolve(
    terms: Sequence[Term],
    offers: Mapping[str, Collection[str]],
    parameters: Sequence[str],
    of_task: Collection[str] = (),
) -> list[Matched]:
    """Finds what each term stands for.

    Args:
        terms: the setting's.
        offers: names of penalties by unit, as of :func:`nalu_ray.training.members.offered`.
        parameters: names of the trained parameters.
        of_task: names of the task's penalties.

    Raises:
        ValueError: if a term stands for nothing; the message lists what there is.
    """
    return [_use(term, offers, parameters, of_task) for term in terms]


def _use(
    term: Term,
    offers: Mapping[str, Collection[str]],
    parameters: Sequence[str],
    of_task: Collection[str],
) -> Matched:
    norm, at, pattern = term.name.partition("@")
    if at:
        if norm not in NORMS:
            raise ValueError(f"penalty: {did_you_mean('norm', norm, NORMS)}")
        return Matched(term, parameters=tuple(patterns.matching("penalty", pattern, parameters)))
    every = {
        (path, name): f"{path}.{name}" if path else name
        for path, names in offers.items()
        for name in names
    }
    chosen = tuple(
        key
        for key, full in every.items()
        if term.name == key[1] or ("." in term.name and fnmatchcase(full, term.name))
    )
    if chosen or term.name in of_task:
        return Matched(term, chosen, of_task=term.name in of_task)
    norms = "over parameters there are l1@PATTERN and l2@PATTERN"
    known = dict.fromkeys([*(name for _, name in every), *every.values(), *of_task])
    if not known:
        raise ValueError(
            f"penalty: unknown penalty {short(term.name)!r}: no unit of this network has any; "
            f"{norms}"
        )
    raise ValueError(f"penalty: {did_you_mean('penalty', term.name, known)}; {norms}")


class Penalties:
    """The penalties of a block of seeds, added to its loss.

    Args:
        terms: the setting's.
        replicas: the stacked networks.
        of_task: returns the task's penalties, {name: (R,)}.

    Raises:
        ValueError: if a term stands for nothing.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        replicas: Replicas,
        of_task: Callable[[], Named] = dict,
    ) -> None:
        self.replicas, self.of_task = replicas, of_task
        self.uses: list[Matched] = []
        if not terms:
            return
        offers = members.offered(replicas.module)
        self.uses = resolve(terms, offers, replicas.names, _names_of(of_task, terms))
        self._inputs = {
            use.term: tuple(path for path, name in use.of_units if offers[path][name])
            for use in self.uses
        }
        self._masks = {
            use.term: patterns.mask(replicas, use.parameters).to(replicas.flat.dtype)
            for use in self.uses
            if use.parameters
        }

    def watch(self, step: int | None) -> None:
        """Has the networks keep the inputs of the units whose penalty needs them at a step.

        Args:
            step: steps of training so far; None for all terms, whatever their schedule.
        """
        if self.uses:
            paths = [path for use in self._active(step) for path in self._inputs[use.term]]
            self.replicas.watch(dict.fromkeys(paths))

    def add(self, step: int | None, loss: Tensor) -> Tensor:
        """Returns the loss of each seed, (R,), with its penalties.

        Args:
            step: as for :meth:`watch`.
            loss: of the task, (R,).
        """
        active = self._active(step)
        if not active:
            return loss
        values = dict(zip([use.term for use in active], self._values(active), strict=True))
        total = loss
        for term, value in values.items():
            coefficient: float | Tensor = term.coefficient
            if step is not None:
                coefficient = term.schedule.at(step, term.coefficient)
            if isinstance(term.schedule, Below) and step is not None:
                coefficient = coefficient * (loss.detach() < term.schedule.bound)
            total = total + coefficient * value
        return total

    def _active(self, step: int | None) -> list[Matched]:
        if step is None:
            return self.uses
        return [use for use in self.uses if use.term.schedule.at(step, use.term.coefficient)]

    def _values(self, uses: Sequence[Matched]) -> list[Tensor]:
        """Returns each use's penalty, (R,)."""
        of_units = [use for use in uses if use.of_units]
        values = dict(zip(of_units, self._of_units(of_units), strict=True)) if of_units else {}
        of_task = self.of_task() if any(use.of_task for use in uses) else {}
        result = []
        for use in uses:
            parts = [values[use]] if use.of_units else []
            parts += [of_task[use.term.name]] if use.of_task else []
            parts += [self._norm(use.term)] if use.parameters else []
            result.append(reduce(torch.add, parts))
        return result

    def _norm(self, term: Term) -> Tensor:
        flat = self.replicas.flat
        size = flat.abs() if term.name.startswith("l1@") else flat.square()
        return (size * self._masks[term]).sum(1)

    def _of_units(self, uses: Sequence[Matched]) -> tuple[Tensor, ...]:
        watched = [path for use in uses for path in self._inputs[use.term]]
        inputs = self.replicas.watched(dict.fromkeys(watched))
        paths = dict.fromkeys(path for use in uses for path, _ in use.of_units)

        def values(network: nn.Module, *given: Tensor) -> tuple[Tensor, ...]:
            seen = dict(zip(inputs, given, strict=True))
            named = {
                path: members.penalty(network.get_submodule(path), seen.get(path)) for path in paths
            }
            return tuple(
                reduce(torch.add, [named[path][name] for path, name in use.of_units])
                for use in uses
            )

        result: tuple[Tensor, ...] = self.replicas.apply(values, *inputs.values())
        return result


def _names_of(of_task: Callable[[], Named], terms: Sequence[Term]) -> Collection[str]:
    """Returns the names of the task's penalties, where a term may stand for any."""
    return set(of_task()) if any("@" not in term.name for term in terms) else ()
