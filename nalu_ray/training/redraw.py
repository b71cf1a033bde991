"""Fresh parameters for seeds that are stuck.

The rule of the iNALU's authors (Schlör, Ring and Hotho, 2020): every so many steps, once a seed has
stored more than a number of training losses, it starts afresh if its loss has stopped falling at a
high value: mean(older half) <= mean(newer half) + sd(newer half), and mean(newer half) above a
bound. All its parameters are then drawn from U(-range, range), and its losses are forgotten.

A task may say instead which seeds are stuck
(:meth:`nalu_ray.training.supervised.SupervisedTask.stuck`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pydantic import Field, ValidationError
from torch import Tensor, nn
from torch.optim import Optimizer

from nalu_ray.errors import short
from nalu_ray.input.values import StrictModel, reason
from nalu_ray.seeding import Streams
from nalu_ray.training import patterns
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.task_rules import chosen_seeds
from nalu_ray.training.updates import moments


class Rule(StrictModel):
    """The rule's numbers, written ``every:losses:above:range``."""

    every: int = Field(ge=2, multiple_of=2, description="steps between two checks, an even number")
    losses: int = Field(ge=0, description="losses that a seed must have more of")
    above: float = Field(description="bound that the newer half's mean must exceed")
    range: float = Field(gt=0, description="largest magnitude of a fresh parameter")

    def __str__(self) -> str:
        return ":".join(patterns.written(value) for value in self.model_dump().values())


FORM = ":".join(Rule.model_fields)


def parse_rule(text: str) -> Rule:
    """Reads ``every:losses:above:range``.

    Raises:
        ValueError: if the text has another form, or a number is out of range.
    """
    parts = text.split(":")
    if len(parts) != len(Rule.model_fields):
        raise ValueError(f"{short(text)!r}: write {FORM}")
    values = {
        name: patterns.number(part, field.annotation or float)
        for (name, field), part in zip(Rule.model_fields.items(), parts, strict=True)
    }
    try:
        return Rule(**values)
    except ValidationError as error:
        field = error.errors()[0]["loc"][0]
        raise ValueError(f"{short(text)!r}: {field}: {reason(error)}") from None


class Redraw:
    """Applies a rule to a block of seeds; each seed draws from a stream of its own.

    Losses are kept as sums over half the steps between two checks. A seed's own begin after a
    check, so that they have two equal halves; a start that the task chose counts from the next one.

    Args:
        rule: the setting's, which draws trained parameters alone; without one, a seed that starts
            afresh is initialised as at the start of a run, its buffers too.
        replicas: the stacked networks.
        optimiser: over ``replicas.flat``; the moments of a seed that starts afresh become 0.
        task, seeds: names of the streams.
        build: builds the network of one seed.
        of_task: the task's choice by step and loss, (R,) of bool; None leaves it to the rule.
    """

    def __init__(
        self,
        rule: Rule | None,
        replicas: Replicas,
        optimiser: Optimizer,
        task: str,
        seeds: Sequence[int],
        *,
        build: Callable[[], nn.Module],
        of_task: Callable[[int, Tensor], Tensor | None] | None = None,
    ) -> None:
        self.rule, self.replicas, self.optimiser = rule, replicas, optimiser
        self.build, self.of_task = build, of_task
        self.streams = Streams(task, seeds, "redraw")
        self._sums: list[Tensor] = []  # of losses and of their squares, (2, R) per half check
        self._since = [0] * len(seeds)  # half check at which a seed's losses begin, an even number

    def after(self, step: int, loss: Tensor, alive: Tensor) -> list[int]:
        """Stores a step's losses, and redraws the seeds that are stuck.

        Args:
            step: steps of training so far, this one included.
            loss: (R,) of the step.
            alive: (R,) seeds that still train.

        Returns:
            The places of the seeds that started afresh.
        """
        stuck = self._by_rule(self.rule, step, loss, alive) if self.rule else []
        answer = self.of_task(step, loss) if self.of_task else None
        if (chosen := chosen_seeds("stuck", answer, len(alive))) is not None:
            stuck = (chosen.to(alive.device) & alive).nonzero().flatten().tolist()
        for index in stuck:
            self._start_afresh(index)
        return stuck

    def _by_rule(self, rule: Rule, step: int, loss: Tensor, alive: Tensor) -> list[int]:
        half = rule.every // 2
        values = loss.detach().double()
        if (step - 1) % half == 0:
            self._sums.append(values.new_zeros(2, len(values)))
        self._sums[-1] += torch.stack([values, values.square()])
        if step % rule.every:
            return []
        sums = torch.stack(self._sums).cpu()  # one wait for the device, not one per seed
        trains = alive.tolist()
        return [
            index
            for index in range(len(values))
            if trains[index] and self._is_stuck(rule, index, sums)
        ]

    def _is_stuck(self, rule: Rule, index: int, every: Tensor) -> bool:
        sums = every[self._since[index] :, :, index]
        losses = len(sums) * (rule.every // 2)
        if losses <= rule.losses:
            return False
        (older, _), (newer, squares) = (
            (half.sum(0) / (losses // 2)).tolist() for half in sums.chunk(2)
        )
        deviation = math.sqrt(max(0.0, squares - newer * newer))
        return bool(older <= newer + deviation and newer > rule.above)

    @torch.no_grad()
    def _start_afresh(self, index: int) -> None:
        flat, size = self.replicas.flat, sum(self.replicas.sizes[:-1])
        if self.rule:
            drawn = self.streams.one(index, (size,), -self.rule.range, self.rule.range)
            flat[index, :size] = torch.from_numpy(drawn).to(flat)
        else:
            init = int(self.streams.generators[index].integers(2**63))
            fresh = Replicas(self.build, [init], flat.device)
            row = torch.arange(len(flat)) == index
            self.replicas.put_back(row, fresh.flat, fresh.buffers)
        for moment in moments(self.optimiser, flat).values():
            moment[index] = 0
        self._since[index] = len(self._sums) + len(self._sums) % 2

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for :meth:`load_state_dict`."""
        sums = torch.stack(self._sums) if self._sums else torch.empty(0)
        return {"sums": sums, "since": list(self._since), "streams": self.streams.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from a saved state."""
        device = self.replicas.flat.device
        self._sums = [part.clone() for part in state["sums"].to(device)]
        self._since = list(state["since"])
        self.streams.load_state_dict(state["streams"])
