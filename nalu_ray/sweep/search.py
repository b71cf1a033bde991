"""Ranges of values to search: ``lr=log:1e-4:1`` and ``lr=uniform:0.1:0.3``.

Sampled values are rounded, so that a sample is a setting like any other: it has an id, stored rows,
and a place in the tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from nalu_ray.errors import ConfigError, of_value, shown
from nalu_ray.input.values import ValueReader, reason, scalar_types

Algorithm = Literal["random", "optuna"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
MOST_SAMPLES = 10_000
DIGITS = 3  # significant digits of a sampled value

_WRITTEN = re.compile(r"(log|uniform):([^:]+):([^:]+)")


@dataclass(frozen=True)
class Range:
    """Numbers to draw from.

    Attributes:
        low, high: the limits, both included.
        log: whether the logarithm is uniform instead of the number.
        whole: whether only whole numbers are drawn.
    """

    low: float
    high: float
    log: bool
    whole: bool

    def rounded(self, value: float) -> float | int:
        """Returns a drawn number as a setting has it: within the range, with few digits."""
        if self.whole:
            return int(value)
        size = abs(value) if self.log else self.high - self.low
        digits = DIGITS - 1 - math.floor(math.log10(size))
        return min(max(round(float(value), digits), self.low), self.high)

    def __str__(self) -> str:
        return f"{'log' if self.log else 'uniform'}:{self.low:g}:{self.high:g}"


@dataclass(frozen=True)
class Search:
    """What to search and how.

    Attributes:
        ranges: ranges by field of the setting.
        samples: number of points, each with a value of every field.
        seed: seed of the random numbers.
        algorithm: what chooses the points.
    """

    ranges: Mapping[str, Range]
    samples: int
    seed: int = 0
    algorithm: Algorithm = "random"

    @property
    def adaptive(self) -> bool:
        """Whether its points depend on the results of earlier points."""
        return self.algorithm != "random"

    def describe(self) -> str:
        """Returns the search as a line of a plan."""
        fields = ", ".join(f"{name}={limits}" for name, limits in self.ranges.items())
        return f"search: {self.samples} samples of {fields}; {self.algorithm}, seed {self.seed}"


def read_range(name: str, text: str, field_type: Any) -> Range | None:
    """Reads a value of the command line as a range.

    Args:
        name: the field.
        text: the value.
        field_type: the field's type with its limits.

    Returns:
        The range; None if the text is none, or if the field takes no numbers.

    Raises:
        ConfigError: it is a range with wrong limits.
    """
    types = scalar_types(field_type)
    match = _WRITTEN.fullmatch(text)
    if match is None or not types or not types <= {int, float}:
        return None
    log, limits, reader = match[1] == "log", match.groups()[1:], ValueReader(field_type)
    try:
        low, high = (reader.read(limit) for limit in limits)
    except ValueError as error:
        raise ConfigError([of_value(name, text, reason(error))]) from error
    bounded = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    if not bounded or low >= high or (log and low <= 0):
        rule = "two finite numbers above 0" if log else "two finite numbers"
        raise ConfigError([f"{name}={shown(text)}: {match[1]} needs {rule}, the lower one first"])
    return Range(low, high, log, whole=float not in types)
