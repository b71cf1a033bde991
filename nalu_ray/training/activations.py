"""Memory of a network's activations per example, measured on two small batches."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Of live tensors: the allocator keeps freed pieces that do not fit, and operations copy inputs.
# Measured: 1.1 to 2.8.
OVERHEAD = 3.0
# Of a measurement, which comes before a run and must not be noticed.
MOST_BYTES = 2**29
MOST_OPERATIONS = 50_000


@dataclass(frozen=True)
class Activations:
    """Bytes per example and seed.

    Attributes:
        inputs: of an example as it is drawn.
        training: of a forward and backward pass at most.
        evaluation: of a forward pass without gradients at most.
    """

    inputs: float
    training: float
    evaluation: float

    def of(self, seeds: int, batch: int, examples: int, sets: int) -> int:
        """Returns the peak bytes of a number of seeds, an upper bound.

        Args:
            seeds: that are stacked; a lone one is computed twice.
            batch: examples of a training step, per seed.
            examples: of an evaluation set, per seed.
            sets: evaluation sets, which stay in memory.
        """
        made = OVERHEAD * max(batch * self.training, examples * self.evaluation)
        return int(max(seeds, 2) * (sets * examples * self.inputs + made))


def per_example(alive: Callable[[int], list[int]], few: int, seeds: int) -> float:
    """Returns the bytes that live tensors grow by, per example and seed.

    Memory that does not depend on the examples, such as that of weights, may be larger and at its
    peak elsewhere. So what counts is the largest growth at the same operation.

    Args:
        alive: :func:`live_bytes` of a step with so many examples.
        few: examples of the smaller step; the larger one has twice as many.
        seeds: that are stacked.
    """
    less, more = alive(few), alive(2 * few)
    if len(less) == len(more):
        growth = max((y - x for x, y in zip(less, more, strict=True)), default=0)
    else:
        growth = max(more, default=0) - max(less, default=0)
    return max(0, growth) / (few * seeds)


def live_bytes(work: Callable[[], object]) -> list[int]:
    """Returns the bytes of live tensors after each operation, of those that a call makes or views.

    Raises:
        MemoryError: it makes more than ``MOST_BYTES``, or calls more than ``MOST_OPERATIONS``.
    """
    live = _Live()
    with live:
        work()
    return live.bytes


class _Live(TorchDispatchMode):
    """Counts the memory of the tensors that operations return, as long as they are alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: list[int] = []
        self._now: int = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = operation(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        self.bytes.append(self._now)
        if self._now > MOST_BYTES or len(self.bytes) > MOST_OPERATIONS:
            raise MemoryError("too much for a measurement")
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._seen:
            return
        self._seen.add(key)
        self._now += storage.nbytes()
        weakref.finalize(storage, self._forget, key, storage.nbytes())

    def _forget(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self._now -= size
