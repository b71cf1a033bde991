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


@dataclass(frozen=True)
class Activations:
    """Bytes per example and seed.

    Attributes:
        inputs: of an example as it is drawn.
        training: the peak of a forward and backward pass.
        evaluation: the peak of a forward pass without gradients.
    """

    inputs: float
    training: float
    evaluation: float

    def of(self, seeds: int, batch: int, examples: int, sets: int) -> int:
        """Returns the peak bytes of a number of seeds, an upper bound.

        Args:
            seeds: that are stacked.
            batch: examples of a training step, per seed.
            examples: of an evaluation set, per seed.
            sets: evaluation sets, which stay in memory.
        """
        made = OVERHEAD * max(batch * self.training, examples * self.evaluation)
        return int(seeds * (sets * examples * self.inputs + made))


def per_example(peak_of: Callable[[int], int], few: int, seeds: int) -> float:
    """Returns the growth of a peak from ``few`` to twice as many examples, per example and seed."""
    return max(0, peak_of(2 * few) - peak_of(few)) / (few * seeds)


def peak(work: Callable[[], object]) -> int:
    """Returns the most bytes of tensors alive at a time, of those that a call makes or views."""
    live = _Live()
    with live:
        work()
    return live.most


class _Live(TorchDispatchMode):
    """Counts the memory of the tensors that operations return, as long as they are alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most: int = 0
        self._now: int = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = operation(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        self.most = max(self.most, self._now)
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
