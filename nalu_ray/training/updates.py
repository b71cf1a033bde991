"""What a setting and the units say about a training step beside the optimiser's own rule.

* ``bounds`` of a unit: its parameters are clamped after each step;
* ``projected()`` of a unit: values that are written back after a step;
* ``lr_factor=*.G:0.1``: the step of some parameters, times a factor;
* ``phases=8|*.W_hat+*.M_hat;2|*.g``: a cycle of steps in which only some parameters move;
* ``after_step`` of the task: values that are written back after a step, before the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nalu_ray.errors import short
from nalu_ray.training import members, patterns
from nalu_ray.training.replicas import Replicas, chosen
from nalu_ray.training.task_rules import new_values


class Factor(NamedTuple):
    """A factor of the learning rate of the parameters that match a pattern."""

    pattern: str
    factor: float

    def __str__(self) -> str:
        return f"{self.pattern}:{patterns.written(self.factor)}"


class Phase(NamedTuple):
    """A number of steps in which only the parameters that match a pattern move."""

    steps: int
    patterns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.steps}|{'+'.join(self.patterns)}"


def parse_factors(text: str) -> list[Factor]:
    """Reads ``pattern:factor;pattern:factor``.

    Raises:
        ValueError: if the text has another form.
    """
    factors = []
    for part in _parts(text):
        pattern, _, factor = part.rpartition(":")
        if not pattern:
            raise ValueError(f"{short(part)!r}: write pattern:factor;pattern:factor")
        factors.append(Factor(pattern, patterns.number(factor)))
        if factors[-1].factor < 0:
            raise ValueError(f"{short(part)!r}: the factor must be at least 0")
    return factors


def parse_phases(text: str) -> list[Phase]:
    """Reads ``steps|pattern+pattern;steps|pattern``; a comma may stand for the ``+``.

    Raises:
        ValueError: if the text has another form.
    """
    phases = []
    for part in _parts(text):
        steps, _, listed = part.partition("|")
        names = tuple(name.strip() for name in listed.replace(",", "+").split("+"))
        if not all(names):
            raise ValueError(f"{short(part)!r}: write steps|pattern+pattern;steps|pattern")
        phases.append(Phase(int(patterns.number(steps, int)), names))
        if phases[-1].steps < 1:
            raise ValueError(f"{short(part)!r}: the steps must be at least 1")
    return phases


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def factors_of(factors: Sequence[Factor], names: Sequence[str]) -> dict[str, float]:
    """Returns the factor of each parameter that a pattern matches; the first match counts.

    Raises:
        ValueError: if a pattern matches no parameter.
    """
    by_name: dict[str, float] = {}
    for pattern, factor in factors:
        for name in patterns.matching("lr_factor", pattern, names):
            by_name.setdefault(name, factor)
    return by_name


def moving(phases: Sequence[Phase], names: Sequence[str]) -> list[set[str]]:
    """Returns the parameters that move in each phase.

    Raises:
        ValueError: if a pattern matches no parameter.
    """
    return [
        {name for part in phase.patterns for name in patterns.matching("phases", part, names)}
        for phase in phases
    ]


class Updates:
    """Takes steps of an optimiser as the setting and the units of the network say.

    Args:
        replicas: the stacked networks.
        optimiser: over ``replicas.flat``.
        factors, phases: the setting's.
        of_task: returns the task's new values after a step, {name: (R, *shape)}.

    Raises:
        ValueError: if a pattern matches no parameter.
        TypeError: if a unit's bounds are not fit.
    """

    def __init__(
        self,
        replicas: Replicas,
        optimiser: Optimizer,
        factors: Sequence[Factor] = (),
        phases: Sequence[Phase] = (),
        of_task: Callable[[int], Mapping[str, Tensor]] | None = None,
    ) -> None:
        self.replicas, self.optimiser, self.of_task = replicas, optimiser, of_task
        columns = _Columns(replicas)
        bounds = members.bounds(replicas.module)
        self._low = columns({name: low for name, (low, _) in bounds.items()}, -torch.inf)
        self._high = columns({name: high for name, (_, high) in bounds.items()}, torch.inf)
        self._bounded = bool(bounds)
        by_name = factors_of(factors, replicas.names)
        self._factors = columns(by_name, 1.0) if by_name else None
        self._cycle = Cycle(replicas, optimiser, phases) if phases else None
        self._projected = list(members.units_with(replicas.module, "projected"))
        self._recorded: Callable[[], dict[str, Tensor]] | None = None

    @torch.no_grad()
    def step(self, step: int) -> None:
        """Moves the parameters along ``replicas.flat.grad``.

        Args:
            step: steps of training so far.
        """
        flat = self.replicas.flat
        before = None if self._factors is None else flat.clone()
        if self._cycle is None:
            self.optimiser.step()
        else:
            self._cycle.step(step)
        if self._factors is not None and before is not None:
            # exact at a factor of 0 and of 1
            flat.copy_(torch.lerp(before, flat, self._factors))
        if self.of_task is not None:
            self._write(new_values(self.of_task(step + 1), self.replicas.parameters()))
        self.constrain()

    @torch.no_grad()
    def constrain(self, seeds: Sequence[int] | None = None) -> None:
        """Brings the parameters into their units' bounds and projections.

        Args:
            seeds: places of the seeds whose parameters may change; None for all.
        """
        flat = self.replicas.flat
        before = None if seeds is None else flat.clone()
        if self._bounded:
            torch.clamp(flat, self._low, self._high, out=flat)
        if self._projected:
            self._project()
        if before is not None:  # a second projection may move what the first one gave
            other_seeds = torch.ones(len(flat), dtype=torch.bool)
            other_seeds[seeds] = False
            flat.copy_(chosen(other_seeds, before, flat))

    def _write(self, values: Mapping[str, Tensor]) -> None:
        """Writes values back, (R, *shape) each; they must be no views of the parameters."""
        parameters = self.replicas.parameters()
        for name, value in values.items():
            parameters[name].copy_(value)

    def _project(self) -> None:
        if self._recorded is None:
            self._recorded = self.replicas.record(
                lambda flat, buffers: self.replicas.apply(
                    self._projections, flat=flat, buffers=buffers
                )
            )
        self._write(self._recorded())

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for :meth:`load_state_dict`."""
        return {"counts": self._cycle.counts if self._cycle else []}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from a saved state."""
        if self._cycle:
            self._cycle.counts = list(state["counts"])

    def _projections(self, network: nn.Module) -> dict[str, Tensor]:
        """Returns the units' new values, by the parameter's name in the network."""
        shapes = dict(zip(self.replicas.names, self.replicas.shapes, strict=True))
        values = {}
        for path in self._projected:
            for name, value in members.tensors(network, path, "projected").items():
                full = f"{path}.{name}" if path else name
                about = members.about(network, path, "projected")
                if full not in shapes:
                    raise TypeError(f"{about}: {name!r} is no trained parameter of its own")
                if value.shape != shapes[full]:
                    sizes = f"{list(shapes[full])}, got {list(value.shape)}"
                    raise TypeError(f"{about}: {name} must be of the parameter's shape {sizes}")
                values[full] = value
        return values


class Cycle:
    """Phases of training, in turn; each moves some parameters as an optimiser of its own would.

    Values and moments of the others stand still. Parameters that move in the same phases share a
    count of steps, which Adam corrects its moments by.

    Args:
        replicas: the stacked networks.
        optimiser: over ``replicas.flat``.
        phases: the setting's.
    """

    def __init__(self, replicas: Replicas, optimiser: Optimizer, phases: Sequence[Phase]) -> None:
        self.flat, self.optimiser = replicas.flat, optimiser
        sets = moving(phases, replicas.names)
        groups: dict[tuple[int, ...], list[str]] = {}
        for name in replicas.names:
            phase_indices = tuple(index for index, names in enumerate(sets) if name in names)
            groups.setdefault(phase_indices, []).append(name)
        groups.pop((), None)  # these never move
        self.masks = [patterns.mask(replicas, names) for names in groups.values()]
        self.turns = [
            [number for number, phase_indices in enumerate(groups) if index in phase_indices]
            for index, phase in enumerate(phases)
            for _ in range(phase.steps)
        ]
        self.counts = [0] * len(groups)

    def step(self, step: int) -> None:
        """Moves the parameters whose turn it is."""
        for number in self.turns[step % len(self.turns)]:
            self._move(number)

    def _move(self, number: int) -> None:
        state = self.optimiser.state[self.flat]
        before = {name: value.clone() for name, value in moments(self.optimiser, self.flat).items()}
        values = self.flat.clone()
        if "step" in state:
            state["step"].fill_(self.counts[number])
        self.optimiser.step()
        self.counts[number] += 1
        mask = self.masks[number]
        self.flat.copy_(torch.where(mask, self.flat, values))
        for name, after in moments(self.optimiser, self.flat).items():
            # an optimiser makes its moments in its first step, of zeros
            old = before.get(name, torch.zeros_like(after))
            after.copy_(torch.where(mask, after, old))


def moments(optimiser: Optimizer, flat: Tensor) -> dict[str, Tensor]:
    """Returns an optimiser's tensors of the parameters' shape, by name."""
    state = optimiser.state[flat]
    return {
        name: value
        for name, value in state.items()
        if isinstance(value, Tensor) and value.shape == flat.shape
    }


class _Columns:
    """Numbers by parameter as numbers by column of ``replicas.flat``, (P,)."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas

    def __call__(self, numbers: Mapping[str, float], default: float) -> Tensor:
        flat = self.replicas.flat
        parts = [
            flat.new_full((size,), numbers.get(name, default))
            for name, size in zip([*self.replicas.names, ""], self.replicas.sizes, strict=True)
        ]
        return torch.cat(parts).detach()
