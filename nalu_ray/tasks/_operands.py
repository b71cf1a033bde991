"""Sections of a vector: which elements make a and b, their sums, and redrawing what misses."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from nalu_ray.seeding import Streams

REDRAWS = 200

Sections = tuple[Tensor, Tensor]
"""The elements of a and of b, (R, section) indices each."""


@functools.lru_cache(maxsize=8)
def sections(
    task: str, seeds: tuple[int, ...], inputs: int, section: int, overlap: int
) -> Sections:
    """Returns the elements that make a and b, (R, section) indices each.

    Both are contiguous and share exactly ``overlap`` elements; which comes first, and where the
    pair and the gap between them lie, is random for each seed.
    """
    streams = Streams(task, seeds, "sections")
    draws = [_place(rng, inputs, section, overlap) for rng in streams.generators]
    starts = torch.tensor(draws)
    steps = torch.arange(section)
    return starts[:, :1] + steps, starts[:, 1:] + steps


def _place(rng: np.random.Generator, inputs: int, section: int, overlap: int) -> list[int]:
    room = inputs - (2 * section - overlap)
    gap = int(rng.integers(0, room + 1)) if overlap == 0 else 0
    first = int(rng.integers(0, room - gap + 1))
    second = first + section - overlap + gap
    return [first, second] if rng.integers(2) else [second, first]


def operands(x: Tensor, chosen: Sections, shared: bool = False) -> tuple[Tensor, Tensor]:
    """Returns a and b, (R, N) each, of x, (R, N, inputs), or of one shared x, (1, N, inputs)."""
    if shared:
        a, b = (x[0].T[index].sum(1) for index in chosen)
        return a, b
    width = chosen[0].shape[1]
    index = torch.cat(chosen, dim=1)[:, None].expand(-1, x.shape[1], -1)
    a, b = x.gather(2, index).unflatten(2, (2, width)).sum(3).unbind(2)
    return a, b


def redraw(
    x: Tensor,
    streams: Streams,
    bounds: tuple[float, float],
    wanted: Callable[[Tensor], Tensor],
    fallback: Tensor,
) -> Tensor:
    """Draws the unwanted examples of x again until there are none.

    An example that is never wanted becomes one of the fallback's, (R, M, inputs). Each seed draws
    from its own generator as often as it needs, so its examples do not depend on its block.
    """
    for _ in range(REDRAWS):
        bad = ~wanted(x)
        if not bad.any():
            return x
        for seed in bad.any(dim=1).nonzero().flatten().tolist():
            count = int(bad[seed].sum())
            x[seed, bad[seed]] = torch.from_numpy(streams.one(seed, (count, x.shape[2]), *bounds))
    bad = ~wanted(x)
    repeated = fallback[:, torch.arange(x.shape[1]) % fallback.shape[1]]
    x[bad] = repeated[bad]
    return x
