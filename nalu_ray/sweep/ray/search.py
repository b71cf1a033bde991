"""Points of a search, drawn from the search spaces of Ray Tune."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ray import tune
from ray.tune.search.optuna import OptunaSearch
from ray.tune.search.sample import Domain

from nalu_ray.seeding import entropy, generator
from nalu_ray.sweep.search import Range, Search


def draw(search: Search, task: str) -> list[dict[str, Any]]:
    """Returns the points of a random search: a value per field, rounded.

    Each field has its own random numbers, and more samples continue the same sequence.

    Args:
        search: what to search.
        task: name of the task.
    """
    columns = {
        name: _values(limits, search, generator(task, search.seed, f"search {name}"))
        for name, limits in search.ranges.items()
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


class Study:
    """A search by Optuna, through Ray Tune's ``OptunaSearch``: the lowest score is the best.

    The same scores give the same points.

    Args:
        search: what to search.
        task: name of the task.
        cell: name of what is searched for, such as a setting's id; each has its own random numbers.
    """

    def __init__(self, search: Search, task: str, cell: str) -> None:
        import optuna  # noqa: PLC0415 (optional)

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.search = search
        space = {name: domain(limits) for name, limits in search.ranges.items()}
        self._searcher = OptunaSearch(
            OptunaSearch.convert_search_space(space),
            metric="score",
            mode="min",
            seed=entropy(task, search.seed, f"optuna {cell}") % 2**32,
        )
        self._points: list[dict[str, Any]] = []
        self._told = 0

    def suggest(self, count: int) -> list[dict[str, Any]]:
        """Returns further points, a value per field, rounded."""
        first = len(self._points)
        for number in range(first, first + count):
            values: Mapping[str, Any] = self._searcher.suggest(str(number)) or {}
            ranges = self.search.ranges
            self._points.append({name: ranges[name].rounded(values[name]) for name in ranges})
        return self._points[first:]

    def tell(self, scores: list[float]) -> None:
        """Takes the scores of the last points; one without a finite score counts as failed."""
        for number, score in enumerate(scores, start=self._told):
            lost = not math.isfinite(score)
            result = None if lost else {"score": score, "training_iteration": 1}
            self._searcher.on_trial_complete(str(number), result, error=lost)
        self._told += len(scores)


def domain(limits: Range) -> Domain:
    """Returns a range as a search space of Ray Tune, whose upper limit of integers is left out."""
    if limits.whole:
        make = tune.lograndint if limits.log else tune.randint
        space: Domain = make(int(limits.low), int(limits.high) + 1)
    else:
        space = (tune.loguniform if limits.log else tune.uniform)(limits.low, limits.high)
    return space


def _values(limits: Range, search: Search, random: Any) -> list[float | int]:
    space = domain(limits)
    return [limits.rounded(space.sample(random_state=random)) for _ in range(search.samples)]
