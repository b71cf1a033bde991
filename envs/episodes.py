"""Many episodes side by side: their state as arrays, their starts and their steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import draws, time_gridworld
from .layout import BoolArray, IntArray
from .world import ACTIONS, World


class Episodes:
    """State of N episodes in one world; the rules of the task without Gymnasium's conventions.

    Attributes:
        key: (N,) uint64, the start of each environment's random numbers.
        episode: (N,) uint64, number of the episode that each begins next.
        frame: (N,) int64, ``agent * cells + target``.
        t: (N,) int64, time in the episode.
        instruction: (N,) int64, T.
        distance: (N,) int64, fewest actions from the episode's start to the target.
        ended: (N,) bool, whether the last step ended the episode.
    """

    def __init__(self, world: World, count: int) -> None:
        self.world, self.count = world, count
        self.key, self.episode = np.zeros((2, count), np.uint64)
        self.frame, self.t, self.instruction, self.distance = np.zeros((4, count), np.int64)
        self.ended = np.zeros(count, np.bool_)
        every = np.arange(world.cells)
        # Frame id by frame id and action, flat: a move changes the agent's cell alone.
        self._after = (world.moves[:, None] * world.cells + every[:, None]).reshape(-1)
        self._is_arrival = np.eye(world.cells, dtype=np.bool_).reshape(-1)
        self._distances = world.distances.reshape(-1)

    def seed(self, which: IntArray, keys: draws.UIntArray) -> None:
        """Makes the next episode of environments ``which`` the first of their keys."""
        self.key[which], self.episode[which] = keys, 0

    def begin(self, which: IntArray, fixed: dict[str, IntArray] | None = None) -> None:
        """Begins the next episode of environments ``which``; see :func:`envs.draws.starts`."""
        world = self.world
        episode = self.episode[which]
        instruction, agent, target = draws.starts(
            self.key[which], episode, world.cells, world.instruction_range, fixed
        )
        frame = agent * world.cells + target
        self.episode[which] = episode + 1
        self.frame[which], self.t[which] = frame, 0
        self.instruction[which], self.distance[which] = instruction, self._distances[frame]
        self.ended[which] = False

    def advance(self, actions: IntArray) -> BoolArray:
        """Takes (N,) actions, 0 to 4 each; returns which agents are on their target."""
        index = self.frame * len(ACTIONS)
        index += actions
        # "clip" lets NumPy write straight into the array; no index is outside.
        np.take(self._after, index, out=self.frame, mode="clip")
        self.t += 1
        arrived = self._is_arrival[self.frame]
        np.logical_or(arrived, self.t >= self.world.time_limit, out=self.ended)
        return arrived

    def rewards(self, arrived: BoolArray) -> NDArray[np.float64]:
        """Returns the rewards, (N,), of a step after which the agents in ``arrived`` arrived."""
        rewards = np.zeros(self.count)
        which = np.flatnonzero(arrived)
        rewards[which] = time_gridworld.rewards(self.world, self.instruction[which], self.t[which])
        return rewards

    def shown(self) -> IntArray:
        """Returns the instructions, (N,), that the current observations show."""
        if self.world.show == "always":
            return self.instruction
        return np.where(self.t == 0, self.instruction, 0)

    def infos(self) -> dict[str, Any]:
        """Returns copies of t, instruction and distance, by name."""
        return {
            "t": self.t.copy(),
            "instruction": self.instruction.copy(),
            "distance": self.distance.copy(),
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays themselves, by name."""
        return {
            "key": self.key,
            "episode": self.episode,
            "frame": self.frame,
            "t": self.t,
            "instruction": self.instruction,
            "distance": self.distance,
            "ended": self.ended,
        }

    def load(self, state: dict[str, NDArray[Any]]) -> None:
        """Sets the arrays; ValueError if they are not those of an equal batch's :meth:`state`."""
        present = self.state()
        if state.keys() != present.keys():
            raise ValueError(f"state has {sorted(state)}, this environment {sorted(present)}")
        for name, values in present.items():
            given = state[name]
            if (given.shape, given.dtype) != (values.shape, values.dtype):
                raise ValueError(
                    f"state[{name!r}] is {given.dtype} {given.shape}, "
                    f"this environment's {values.dtype} {values.shape}"
                )
        if not ((state["frame"] >= 0) & (state["frame"] < self.world.cells**2)).all():
            raise ValueError(
                f"state['frame'] is of a world with other than {self.world.cells} cells"
            )
        for name, values in present.items():
            np.copyto(values, state[name])
