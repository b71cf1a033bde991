"""The world of the time-tracking task: its rules, as data that every environment shares.

Trask et al., "Neural Arithmetic Logic Units" (2018), section 4.5.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from . import layout
from .layout import BoolArray, IntArray, Pixels

ACTIONS = ("up", "down", "left", "right", "pass")
REWARDS = ("symmetric", "early", "exact")
SHOWS = ("always", "first")
OBSERVATIONS = ("pixels", "frame")
LARGEST_TABLE = 2**30


@dataclass(frozen=True)
class World:
    """The validated arguments of the task, and the tables computed from them.

    Free cells are numbered row by row, walls left out; a *frame id* is
    ``agent * cells + target``. Actions: 0 up, 1 down, 2 left, 3 right, 4 pass.

    Args:
        size: cells along a side of the grid.
        cell_pixels: pixels along a side of a cell.
        border: cells of wall drawn around the grid; (5 + 2) * 8 = 56 pixels, as in the paper.
        walls: (row, column) of cells that are wall.
        instructions: T, or its smallest and largest value; all values between are equally likely.
        time_limit: L, the time at which an episode ends at the latest.
        reward: the rule for arrivals, see :func:`envs.time_gridworld.rewards`.
        m: reward of an arrival at t = T.
        c: cost of each unit of time between the arrival and T.
        show: whether T is seen ``always``, or in the ``first`` observation only and 0 after it.

    Raises:
        ValueError: if an argument, or the grid that they make, is not allowed.
    """

    size: int = 5
    cell_pixels: int = 8
    border: int = 1
    walls: tuple[tuple[int, int], ...] = ()
    instructions: int | tuple[int, int] = (5, 12)
    time_limit: int = 20
    reward: Literal["symmetric", "early", "exact"] = "symmetric"
    m: float = 1.0
    c: float = 0.1
    show: Literal["always", "first"] = "always"

    def __post_init__(self) -> None:
        # Lists, as YAML writes them, become tuples: a world is hashable.
        object.__setattr__(self, "walls", _pairs("walls", self.walls))
        if not _is_whole(self.instructions):
            object.__setattr__(self, "instructions", _pair("instructions", self.instructions))
        for name, least in (("size", 2), ("cell_pixels", 1), ("border", 0), ("time_limit", 1)):
            _check_whole(name, getattr(self, name), least)
        _check_one_of("reward", self.reward, REWARDS)
        _check_one_of("show", self.show, SHOWS)
        if not (_is_number(self.m) and self.m > 0):
            raise ValueError(f"m={self.m!r}: a number above 0 is needed")
        if not (_is_number(self.c) and self.c >= 0):
            raise ValueError(f"c={self.c!r}: a number of 0 or more is needed")
        self._check_instructions()
        self._check_walls()
        self._check_table()
        if (self.distances < 0).any():
            raise ValueError(f"walls={self.walls}: every free cell must be reached from any other")

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle holds the arguments; the tables, megabytes, are rebuilt from them.
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    @property
    def instruction_range(self) -> tuple[int, int]:
        """Smallest and largest T."""
        given = self.instructions
        return given if isinstance(given, tuple) else (given, given)

    @property
    def cells(self) -> int:
        """F, the number of free cells."""
        return self.size**2 - len(self.walls)

    @property
    def frame_pixels(self) -> int:
        """P, pixels along a side of a frame."""
        return (self.size + 2 * self.border) * self.cell_pixels

    @cached_property
    def free(self) -> BoolArray:
        """(size, size), true where the agent can stand."""
        return layout.free_cells(self.size, self.walls)

    @cached_property
    def moves(self) -> IntArray:
        """(F, 5), the next cell by cell and action."""
        return layout.moves(self.free)

    @cached_property
    def distances(self) -> IntArray:
        """(F, F), the fewest actions from cell to cell."""
        return layout.distances(self.moves)

    @cached_property
    def frames(self) -> Pixels:
        """(F * F, P, P, 3), the picture of each frame id; read-only, shared by equal grids.

        Where the agent stands on the target, a smaller agent is drawn on it.
        """
        return _frames(self.size, self.walls, self.cell_pixels, self.border)

    def observation_space(self, observation: str) -> spaces.Dict:
        """Returns the space of ``"pixels"`` or ``"frame"`` observations."""
        _check_one_of("observation", observation, OBSERVATIONS)
        side = self.frame_pixels
        seen: spaces.Space[Any] = (
            spaces.Box(0, 255, (side, side, 3), np.uint8)
            if observation == "pixels"
            else spaces.Discrete(self.cells**2)
        )
        instruction = spaces.Box(0, self.time_limit, (1,), np.float32)
        return spaces.Dict({observation: seen, "instruction": instruction})

    def fixed_starts(self, options: dict[str, Any], count: int) -> dict[str, IntArray]:
        """Returns the options of reset as (count,) arrays: instruction, agent, target.

        Raises:
            ValueError: if an option is unknown, of another shape, or out of range.
        """
        allowed = {
            "instruction": (1, self.time_limit),
            "agent": (0, self.cells - 1),
            "target": (0, self.cells - 1),
        }
        fixed = {}
        for name, value in options.items():
            if name not in allowed:
                raise ValueError(f"option {name!r} is unknown; known: {', '.join(allowed)}")
            given, (low, high) = np.asarray(value), allowed[name]
            if given.dtype.kind not in "iu" or given.shape not in ((), (count,)):
                raise ValueError(f"option {name}={value!r}: a whole number, or {count}, is needed")
            if ((given < low) | (given > high)).any():
                raise ValueError(f"option {name}={value!r}: {low} to {high} are allowed")
            fixed[name] = np.broadcast_to(given, count).astype(np.int64)
        if "agent" in fixed and "target" in fixed and (fixed["agent"] == fixed["target"]).any():
            raise ValueError("options agent and target: two distinct cells are needed")
        return fixed

    def _check_instructions(self) -> None:
        low, high = self.instruction_range
        given = f"instructions={self.instructions!r}"
        if not 1 <= low <= high:
            raise ValueError(f"{given}: allowed are T or (smallest, largest), from 1 on")
        if high > self.time_limit:
            raise ValueError(f"{given}: T may be at most time_limit={self.time_limit}")

    def _check_walls(self) -> None:
        for wall in self.walls:
            if not all(0 <= index < self.size for index in wall):
                raise ValueError(f"walls: {wall} is outside rows and columns 0 to {self.size - 1}")
        if len(set(self.walls)) < len(self.walls):
            raise ValueError(f"walls={self.walls}: each cell may be named once")
        if self.cells < 2:
            raise ValueError(f"walls={self.walls}: at least 2 cells of {self.size**2} stay free")

    def _check_table(self) -> None:
        count = (self.cells * self.frame_pixels) ** 2 * 3
        if count > LARGEST_TABLE:
            raise ValueError(
                f"size={self.size}, cell_pixels={self.cell_pixels}: {self.cells}**2 frames of "
                f"{self.frame_pixels}**2 * 3 bytes take {count / 2**30:.1f} GiB; allowed is 1"
            )


@lru_cache(maxsize=4)
def _frames(size: int, walls: tuple[tuple[int, int], ...], cell_pixels: int, border: int) -> Pixels:
    """Draws a grid once per process, for all environments that show it."""
    drawn = layout.frames(layout.free_cells(size, walls), cell_pixels, border)
    drawn.setflags(write=False)
    return drawn


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_whole(value) or (isinstance(value, float) and bool(np.isfinite(value)))


def _check_whole(name: str, value: Any, least: int) -> None:
    if not _is_whole(value) or value < least:
        raise ValueError(f"{name}={value!r}: a whole number of {least} or more is needed")


def _check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: one of {', '.join(allowed)} is needed")


def _pair(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(_is_whole, value)):
        raise ValueError(f"{name}: {value!r} is not a pair of whole numbers")
    return int(value[0]), int(value[1])


def _pairs(name: str, value: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name}={value!r}: pairs (row, column) are needed")
    return tuple(_pair(name, pair) for pair in value)
