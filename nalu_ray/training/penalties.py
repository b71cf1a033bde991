"""Penalties that a setting adds to the loss of each seed.

The name of a term is one of:

* ``sparsity``: what units of the network return under this name from ``penalty()``, summed, or a
  penalty of the task (:meth:`nalu_ray.training.supervised.SupervisedTask.penalties`);
* ``0.sparsity``: the same of one unit, by its path in the network; the path may be a pattern;
* ``l1@*.W``, ``l2@*.W``: sum of magnitudes, or of squares, of the parameters that match a pattern.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor, nn

from nalu_ray.errors import did_you_mean, short
from nalu_ray.training import members, patterns
from nalu_ray.training.penalty_terms import Below, Term
from nalu_ray.training.replicas import Replicas

NORMS = ("l1", "l2")
PLAIN_CALLS = 100  # before operations are recorded: it takes what is saved in as many calls
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
    return [_matched(term, offers, parameters, of_task) for term in terms]


def _matched(
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
    choices = dict.fromkeys([*(name for _, name in every), *every.values(), *of_task])
    if not choices:
        raise ValueError(
            f"penalty: unknown penalty {short(term.name)!r}: no unit of this network has any; "
            f"{norms}"
        )
    raise ValueError(f"penalty: {did_you_mean('penalty', term.name, choices)}; {norms}")


class Penalties:
    """The penalties of a block of seeds, added to its loss.

    Args:
        terms: the setting's.
        replicas: the stacked networks.
        of_task: returns the task's penalties, {name: (R,)}.
        recording: whether operations are recorded to repeat them.

    Raises:
        ValueError: if a term stands for nothing.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        replicas: Replicas,
        of_task: Callable[[], Named] = dict,
        *,
        recording: bool = True,
    ) -> None:
        self.replicas, self.of_task, self.recording = replicas, of_task, recording
        self.matched: list[Matched] = []
        self._takes_inputs = False
        self._known: tuple[Any, Tensor] = (), torch.empty(0)
        self._bounds: tuple[Any, Tensor] = (), torch.empty(0)
        self._calls: Counter[Any] = Counter()
        self._recorded: dict[Any, Callable[..., tuple[Tensor, ...]]] = {}
        if not terms:
            return
        offers = members.offered(replicas.module)
        self.matched = resolve(terms, offers, replicas.names, _names_of(of_task, terms))
        self._inputs = [
            [path for path, name in match.of_units if offers[path][name]] for match in self.matched
        ]
        self._takes_inputs = any(self._inputs)
        self._masks = {
            match.parameters: patterns.mask(replicas, match.parameters).to(replicas.flat.dtype)
            for match in self.matched
            if match.parameters
        }

    def watch(self, step: int | None) -> None:
        """Has the networks keep the inputs of the units whose penalty needs them at a step.

        Args:
            step: steps of training so far; None for all terms, whatever their schedule.
        """
        if self._takes_inputs:
            self.replicas.watch(self._watched(self._active(step)))

    def gradient(self, step: int | None, loss: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the loss of each seed with its penalties, (R,), and its gradient, (R, P).

        Args:
            step: as for :meth:`watch`.
            loss: of the task, (R,).
        """
        flat, active = self.replicas.flat, self._active(step)
        if not self.needs_graph(step):
            (gradient,) = torch.autograd.grad(loss.sum(), flat)
            return self.added(step, loss.detach(), gradient)
        weights = self._weights(active, step, loss.detach())

        def penalise(inputs: Named) -> tuple[Tensor, ...]:
            return self._repeated(active, step, weights, inputs)

        return self._with_graph(active, self._with_task(active, weights, loss), penalise)

    def spelled_out(
        self, step: int | None, coefficients: Tensor, loss: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns what :meth:`gradient` does, by operations that can be recorded with a step's.

        Args:
            step: as for :meth:`watch`; it decides which terms count.
            coefficients: of these terms, by :meth:`coefficients`.
            loss: of the task, (R,).
        """
        flat, buffers, active = self.replicas.flat, self.replicas.buffers, self._active(step)
        weights = self._limited(active, step, coefficients, loss.detach())

        def penalise(inputs: Named) -> tuple[Tensor, ...]:
            tensors = (x.detach() for x in inputs.values())
            with torch.no_grad():
                return self._differentiated(
                    active, list(inputs), flat.detach(), buffers, weights, *tensors
                )

        return self._with_graph(active, loss, penalise)

    def _with_graph(
        self,
        active: Sequence[int],
        total: Tensor,
        penalise: Callable[[Named], tuple[Tensor, ...]],
    ) -> tuple[Tensor, Tensor]:
        """Adds penalties of parameters and inputs to a loss whose graph is still there.

        Args:
            active: places of the terms that count.
            total: the loss so far, (R,).
            penalise: returns the penalties' weighted sum by watched inputs, (R,), and its gradients
                by the parameters and by these inputs.
        """
        inputs = self.replicas.watched(self._watched(active))
        value, slope, *slopes = penalise(inputs)
        learned = [
            pair for pair in zip(inputs.values(), slopes, strict=True) if pair[0].requires_grad
        ]
        (gradient,) = torch.autograd.grad(
            [total.sum(), *(x for x, _ in learned)],
            self.replicas.flat,
            [None, *(input_slope for _, input_slope in learned)],
        )
        return total.detach() + value, gradient + slope

    def terms(self, step: int | None) -> tuple[int, ...]:
        """Returns the places of the terms that count at a step."""
        return tuple(self._active(step))

    def coefficients(self, step: int | None) -> Tensor:
        """Returns the coefficients of :meth:`terms` by their schedules, (T, R)."""
        return self._numbers(self._active(step), step, self.replicas.flat, len(self.replicas))

    def of_the_task(self, step: int | None) -> bool:
        """Returns whether a penalty of the task counts at a step."""
        return any(self.matched[index].of_task for index in self._active(step))

    def needs_graph(self, step: int | None) -> bool:
        """Returns whether a step's penalties depend on more than the networks' parameters.

        Args:
            step: as for :meth:`watch`.
        """
        return any(self.matched[i].of_task or self._inputs[i] for i in self._active(step))

    def added(self, step: int | None, loss: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Adds penalties that depend on the networks' parameters alone.

        Args:
            step: as for :meth:`watch`.
            loss: of the task, (R,), without a gradient.
            gradient: of ``loss``, (R, P).
        """
        active = self._active(step)
        if not active:
            return loss, gradient
        value, slope = self._repeated(active, step, self._weights(active, step, loss), {})
        return loss + value, gradient + slope

    def _with_task(self, active: Sequence[int], weights: Tensor, loss: Tensor) -> Tensor:
        positions = [
            position for position, index in enumerate(active) if self.matched[index].of_task
        ]
        of_task = self.of_task() if positions else {}
        for position in positions:
            loss = loss + weights[position] * of_task[self.matched[active[position]].term.name]
        return loss

    def _active(self, step: int | None) -> list[int]:
        """Returns the places of the terms that count at a step."""
        return [
            index
            for index, match in enumerate(self.matched)
            if step is None or match.term.schedule.at(step, match.term.coefficient)
        ]

    def _watched(self, active: Sequence[int]) -> list[str]:
        return list(dict.fromkeys(path for index in active for path in self._inputs[index]))

    def _weights(self, active: Sequence[int], step: int | None, loss: Tensor) -> Tensor:
        """Returns the coefficient of each active term for each seed, (T, R)."""
        return self._limited(active, step, self._numbers(active, step, loss, len(loss)), loss)

    def _numbers(self, active: Sequence[int], step: int | None, like: Tensor, seeds: int) -> Tensor:
        """Returns the coefficient of each active term by its schedule, (T, R)."""
        terms = [self.matched[index].term for index in active]
        numbers = [
            term.coefficient if step is None else term.schedule.at(step, term.coefficient)
            for term in terms
        ]
        if self._known[0] != numbers:  # most often they are those of the last step
            self._known = numbers, like.new_tensor(numbers)[:, None].expand(-1, seeds)
        return self._known[1]

    def _limited(
        self, active: Sequence[int], step: int | None, weights: Tensor, loss: Tensor
    ) -> Tensor:
        """Returns 0 for a seed whose loss is not below a term's bound, else its coefficient."""
        terms = [self.matched[index].term for index in active]
        limits = [
            term.schedule.bound if isinstance(term.schedule, Below) else math.inf for term in terms
        ]
        if step is None or min(limits) == math.inf:
            return weights
        if self._bounds[0] != limits:
            self._bounds = limits, loss.new_tensor(limits)[:, None]
        return weights * (loss < self._bounds[1])

    def _repeated(
        self,
        active: Sequence[int],
        step: int | None,
        weights: Tensor,
        inputs: Mapping[str, Tensor],
    ) -> tuple[Tensor, ...]:
        """Calls :meth:`_differentiated`; by its operations, recorded once, if it is called often.

        A rehearsal, whose step is None, records them at once, to find what cannot be recorded.
        """
        arguments = [weights, *(x.detach() for x in inputs.values())]
        key = (*active, *(x.shape for x in arguments))
        if key not in self._recorded:
            function = partial(self._differentiated, active, list(inputs))
            self._calls[key] += 1
            early = step is not None and self._calls[key] <= PLAIN_CALLS
            if early or not self.recording:
                with torch.no_grad():
                    return function(self.replicas.flat.detach(), self.replicas.buffers, *arguments)
            self._recorded[key] = self.replicas.record(function, *arguments)
        return self._recorded[key](*arguments)

    def _differentiated(
        self,
        active: Sequence[int],
        paths: Sequence[str],
        flat: Tensor,
        buffers: dict[str, Tensor],
        weights: Tensor,
        *inputs: Tensor,
    ) -> tuple[Tensor, ...]:
        """Returns the weighted sum of units' penalties and norms, (R,), and its gradients.

        These are by ``flat`` and by each of the inputs, the units' of ``paths``.
        """
        leaves = [tensor.detach().requires_grad_() for tensor in (flat, *inputs)]
        with torch.enable_grad():
            inputs_by_path = dict(zip(paths, leaves[1:], strict=True))
            values = self._sums(active, leaves[0], buffers, inputs_by_path)
        if not values:  # all are of the task
            return torch.zeros_like(weights[0]), *map(torch.zeros_like, leaves)
        for position, value in values.items():
            if not value.requires_grad:
                name = self.matched[active[position]].term.name
                raise TypeError(f"penalty {name} depends on no trained parameter")
        term_weights = [weights[position] for position in values]
        slopes = torch.autograd.grad(
            [*values.values()], leaves, term_weights, allow_unused=True, materialize_grads=True
        )
        parts = [
            weight * value.detach()
            for weight, value in zip(term_weights, values.values(), strict=True)
        ]
        return reduce(torch.add, parts), *slopes

    def _sums(
        self,
        active: Sequence[int],
        flat: Tensor,
        buffers: dict[str, Tensor],
        inputs: Mapping[str, Tensor],
    ) -> dict[int, Tensor]:
        """Returns units' penalties, and norms, (R,) each, by the term's place in ``active``."""
        matched = [self.matched[index] for index in active]
        paths = dict.fromkeys(path for match in matched for path, _ in match.of_units)
        of_units = {
            position: match.of_units for position, match in enumerate(matched) if match.of_units
        }

        def penalties(network: nn.Module, *tensors: Tensor) -> dict[int, Tensor]:
            inputs_by_path = dict(zip(inputs, tensors, strict=True))
            named = {
                path: members.penalty(network.get_submodule(path), inputs_by_path.get(path))
                for path in paths
            }
            return {
                position: reduce(torch.add, [named[path][name] for path, name in keys])
                for position, keys in of_units.items()
            }

        values: dict[int, Tensor] = {}
        if of_units:
            values = self.replicas.apply(penalties, *inputs.values(), flat=flat, buffers=buffers)
        for position, match in enumerate(matched):
            if match.parameters:
                size = flat.abs() if match.term.name.startswith("l1@") else flat.square()
                values[position] = (size * self._masks[match.parameters]).sum(1)
        return values


def _names_of(of_task: Callable[[], Named], terms: Sequence[Term]) -> Collection[str]:
    """Returns the names of the task's penalties, where a term may stand for any."""
    return set(of_task()) if any("@" not in term.name for term in terms) else ()
