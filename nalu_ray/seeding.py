"""Random streams: every number comes from a generator named by (task, seed, purpose).

Nothing in the package draws from a global generator, so seed *k* gives the same numbers whatever
other seeds share its trial, its process or its machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


def entropy(task: str, seed: int | str, purpose: str) -> int:
    """Returns 128 bits that depend on nothing but the three names."""
    digest = hashlib.sha256(f"{task}/{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:16], "little")


def generator(task: str, seed: int | str, purpose: str) -> np.random.Generator:
    """Returns a fresh SFC64 generator (the fastest of NumPy's for float32) for the three names."""
    return np.random.Generator(np.random.SFC64(entropy(task, seed, purpose)))


class Streams:
    """One generator a seed, drawn from together: every result has the seeds as its leading axis.

    Task code is written once for a block of seeds; a single seed is a block of one. Seed *k*'s
    slice depends on seed *k*'s generator alone.

    Args:
        task: name of the task.
        seeds: the block's seeds, R of them.
        purpose: what the numbers are for, such as ``"train"`` or ``"interpolation"``.
        shared: draw one stream for the whole block instead (an option that trades independence of
            the *inputs* for speed; rows are marked by the setting's field).
    """

    def __init__(
        self, task: str, seeds: Sequence[int], purpose: str, *, shared: bool = False
    ) -> None:
        self.task, self.seeds, self.purpose = task, tuple(seeds), purpose
        names: Sequence[int | str] = ("shared",) if shared else self.seeds
        self.generators = [generator(task, name, purpose) for name in names]

    def __len__(self) -> int:
        return len(self.generators)

    def fork(self, purpose: str) -> Streams:
        """Returns fresh streams of the same seeds for another purpose."""
        return Streams(self.task, self.seeds, purpose)

    def uniform(
        self,
        shape: Sequence[int],
        low: float = 0.0,
        high: float = 1.0,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Draws U[low, high) as float32 of shape ``(R, *shape)``, into ``out`` where given."""
        block = np.empty((len(self), *shape), np.float32) if out is None else out
        for slot, rng in zip(block, self.generators, strict=True):
            rng.random(out=slot, dtype=np.float32)
        if high - low != 1.0:
            block *= np.float32(high - low)
        if low != 0.0:
            block += np.float32(low)
        return block

    def one(self, index: int, shape: Sequence[int], low: float, high: float) -> FloatArray:
        """Draws U[low, high) as float32 of the given shape from one seed's generator."""
        drawn = self.generators[index].random(tuple(shape), np.float32)
        return drawn * np.float32(high - low) + np.float32(low)

    def integers(self, shape: Sequence[int], low: int, high: int) -> IntArray:
        """Draws integers of [low, high) as int64 of shape ``(R, *shape)``."""
        return np.stack([rng.integers(low, high, tuple(shape)) for rng in self.generators])

    def state_dict(self) -> dict[str, Any]:
        """Returns the generators' positions as plain numbers."""
        return {"states": [_plain(rng.bit_generator.state) for rng in self.generators]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Sets the generators to positions returned by :meth:`state_dict`."""
        for rng, saved in zip(self.generators, state["states"], strict=True):
            inner = {"state": np.array(saved["state"]["state"], np.uint64)}
            rng.bit_generator.state = {**saved, "state": inner}


def _plain(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
