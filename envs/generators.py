"""The random generators of many environments, seeded as Gymnasium seeds them."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from gymnasium.utils import seeding

from . import draws

Seeds = int | Sequence[int | None] | None
UNKNOWN = -1  # Gymnasium's seed of a generator that came from elsewhere


class Generators:
    """N generators; one without a seed takes fresh entropy when it is first used."""

    def __init__(self, count: int) -> None:
        self._made: list[np.random.Generator | None] = [None] * count
        self._seeds = [UNKNOWN] * count

    @property
    def seeds(self) -> tuple[int, ...]:
        """(N,) seeds, ``UNKNOWN`` where a generator came from elsewhere."""
        self.all()
        return tuple(self._seeds)

    def all(self) -> tuple[np.random.Generator, ...]:
        """Returns the generators, (N,)."""
        return tuple(map(self._get, range(len(self._made))))

    def replace(self, given: np.random.Generator | Sequence[np.random.Generator]) -> None:
        """Takes other generators: one for all environments, or N.

        Raises:
            ValueError: if their number is neither.
        """
        count = len(self._made)
        made = [given] * count if isinstance(given, np.random.Generator) else list(given)
        if len(made) != count:
            raise ValueError(f"{len(made)} generators were given for {count} environments")
        self._made, self._seeds = [*made], [UNKNOWN] * count

    def forget_seeds(self) -> None:
        """Marks the seeds as unknown, as after loading a state."""
        self.replace(self.all())

    def seeded(self, seed: Seeds) -> list[int | None]:
        """Returns a seed or ``None`` per environment: a number s means s, s + 1, ...

        Raises:
            ValueError: if the number of seeds is not N.
        """
        count = len(self._made)
        if seed is None:
            return [None] * count
        if isinstance(seed, int | np.integer):
            return [*range(int(seed), int(seed) + count)]
        if len(seed) != count:
            raise ValueError(f"{len(seed)} seeds were given for {count} environments")
        return [None if value is None else operator.index(value) for value in seed]

    def keys(self, seeds: dict[int, int | None]) -> draws.UIntArray:
        """Draws keys for environments by number; reseeds those with a seed.

        Raises:
            gymnasium.error.Error: if a seed is negative; then nothing was seeded.
        """
        made = {i: seeding.np_random(seed) for i, seed in seeds.items() if seed is not None}
        for i, (generator, seed) in made.items():
            self._made[i], self._seeds[i] = generator, seed
        return np.array([draws.keys(self._get(i), 1)[0] for i in seeds], np.uint64)

    def _get(self, i: int) -> np.random.Generator:
        generator = self._made[i]
        if generator is None:
            generator, self._seeds[i] = seeding.np_random()
            self._made[i] = generator
        return generator
