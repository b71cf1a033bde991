"""What static and recurrent arithmetic share: the operations, and the sections they are made of.

The operands a and b are the sums of two sections of a vector. Where they lie is random per seed and
fixed within a seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from nalu_ray.results.specs import Axis
from nalu_ray.seeding import Streams

Sections = tuple[Tensor, Tensor]
"""The elements of a and of b, (R, section) indices each."""

StaticOperation = Literal["add", "sub", "mul", "div", "square", "sqrt"]
RecurrentOperation = Literal["a", StaticOperation]


@dataclass(frozen=True)
class Operation:
    """One operation on a and b.

    Attributes:
        label: the formula as tables print it.
        apply: a and b of any shape to the result, elementwise.
        operands: 1 if the result does not depend on b.
    """

    label: str
    apply: Callable[[Tensor, Tensor], Tensor]
    operands: int = 2


OPERATIONS = {
    "a": Operation("a", lambda a, b: a, operands=1),
    "add": Operation("a + b", lambda a, b: a + b),
    "sub": Operation("a - b", lambda a, b: a - b),
    "mul": Operation("a × b", lambda a, b: a * b),
    "div": Operation("a / b", lambda a, b: a / b),
    "square": Operation("a²", lambda a, b: a * a, operands=1),
    "sqrt": Operation("√a", lambda a, b: a.sqrt(), operands=1),
    "reciprocal": Operation("1 / a", lambda a, b: 1 / a, operands=1),
}


DIVISORS = {"div": 1, "reciprocal": 0}
"""Which of a and b an operation divides by."""


def axis(names: Iterable[str], others: bool = True) -> Axis:
    """Returns these operations as an axis of tables and figures, in order.

    With ``others``, stored operations that are not named follow.
    """
    labels = {name: OPERATIONS[name].label for name in names}
    more = {name: each.label for name, each in OPERATIONS.items() if name not in labels}
    return Axis(field="op", labels=labels, others=others, more=more if others else {})


def check_sections(inputs: int, section: int, overlap: int) -> None:
    """Checks that both sections fit into the inputs.

    Raises:
        ValueError: they do not; the message names the fields.
    """
    if overlap > section:
        raise ValueError(f"overlap={overlap} is more than section={section}")
    if (span := 2 * section - overlap) > inputs:
        raise ValueError(
            f"section={section} with overlap={overlap} takes {span} elements, "
            f"more than inputs={inputs}"
        )


def check_domain(op: str, low: float, high: float) -> None:
    """Checks that an operation is defined for inputs of U(low, high).

    Raises:
        ValueError: it is not; the message names the operation and the range.
    """
    if op == "sqrt" and low < 0:
        raise ValueError(f"op=sqrt needs ranges of 0 or more, not {low}:{high}")
    if op in DIVISORS and low < 0 < high:
        raise ValueError(f"op={op} needs ranges that do not cross 0, not {low}:{high}")


@functools.lru_cache(maxsize=8)
def sections(
    task: str, seeds: tuple[int, ...], inputs: int, section: int, overlap: int
) -> Sections:
    """Returns the elements that make a and b, (R, section) indices each.

    Both are contiguous and share exactly ``overlap`` elements. Which comes first, and where the
    pair and the gap between them lie, is random for each seed.
    """
    streams = Streams(task, seeds, "sections")
    draws = [_starts(rng, inputs, section, overlap) for rng in streams.generators]
    starts = torch.tensor(draws)
    steps = torch.arange(section)
    return starts[:, :1] + steps, starts[:, 1:] + steps


def _starts(rng: np.random.Generator, inputs: int, section: int, overlap: int) -> list[int]:
    room = inputs - (2 * section - overlap)
    gap = int(rng.integers(0, room + 1)) if overlap == 0 else 0
    first = int(rng.integers(0, room - gap + 1))
    second = first + section - overlap + gap
    return [first, second] if rng.integers(2) else [second, first]


def divisible(
    op: str,
    x: Tensor,
    both: tuple[Tensor, Tensor],
    chosen: Sections,
    least: float,
    *,
    shared: bool,
) -> bool:
    """Moves, in place, an element of each divisor that was drawn as exactly 0 away from 0.

    Float32 numbers of a range around 0 hit it once in 2^24, which is every few runs. The result
    would be infinite and end the seed, whatever its unit. Where all seeds share their inputs, each
    element that is 0 moves, so that they do not depend on which seeds there are.

    Args:
        op: the operation; nothing is done unless it divides.
        x: inputs, (R, N, inputs), or (1, N, inputs) if shared.
        both: a and b of x, (R, N) each.
        chosen: the elements of a and of b; those beyond the inputs stand for none.
        least: how far an element moves, in the direction of its sign.
        shared: whether all seeds share x.

    Returns:
        Whether an element has changed, and a and b with it.
    """
    if op not in DIVISORS:
        return False
    if shared:
        zero = x == 0
        x += torch.where(zero, torch.copysign(x.new_tensor(least), x), 0.0)
        return bool(zero.any())
    zeros = (both[DIVISORS[op]] == 0).nonzero().tolist()
    places = chosen[DIVISORS[op]].amin(1)
    for seed, example in zeros:
        element = x[seed, example, places[seed]]
        element += torch.copysign(element.new_tensor(least), element)
    return bool(zeros)


def operands(x: Tensor, chosen: Sections, shared: bool = False) -> tuple[Tensor, Tensor]:
    """Returns a and b, (R, N) each, of x, (R, N, inputs), or of one shared x, (1, N, inputs)."""
    if shared:
        a, b = (x[0].T[index].sum(1) for index in chosen)
        return a, b
    width = chosen[0].shape[1]
    index = torch.cat(chosen, dim=1)[:, None].expand(-1, x.shape[1], -1)
    a, b = x.gather(2, index).unflatten(2, (2, width)).sum(3).unbind(2)
    return a, b
