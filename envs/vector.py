"""Many time-tracking gridworlds at once, without a Python loop over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from .episodes import Episodes
from .generators import Generators, Seeds
from .layout import BoolArray, IntArray
from .world import ACTIONS, World

Observation = dict[str, NDArray[Any]]
Infos = dict[str, Any]


class TimeGridworldVectorEnv(VectorEnv[Observation, IntArray, NDArray[Any]]):
    """N copies of :class:`envs.time_gridworld.TimeGridworldEnv`, stepped as NumPy arrays.

    Spaces, rewards and rules are those of the single environment. After ``reset(seed=s)``,
    environment i lives through exactly the episodes of a single one after ``reset(seed=s + i)``.

    It returns exactly what Gymnasium's ``SyncVectorEnv`` of single ones does. Infos are (N,)
    arrays, zero where the mask of the same name (``_t``) is false: ``t``, ``instruction`` and
    ``distance``; in a step that ended an episode ``arrived``, whether it reached the target. In the
    mode ``SameStep`` the last observation and info of an ended episode, ``arrived`` among them, are
    under ``final_obs`` and ``final_info``.

    Args:
        num_envs: N.
        autoreset_mode: when an environment whose episode ended begins the next, a member of
            Gymnasium's ``AutoresetMode`` or its value: ``NextStep`` (in the next step, whose
            action it ignores), ``SameStep`` (at once), or ``Disabled`` (never:
            ``reset(options={"reset_mask": ended})`` does it).
        observation: ``"pixels"`` or ``"frame"``.
        copy: whether observations are copies; without it the next step changes them, which saves
            little (benchmarks/gridworld.py).
        render_mode: ``None`` or ``"rgb_array"``.
        arguments: fields of :class:`envs.world.World`.

    Attributes:
        world: the rules and tables.

    Raises:
        ValueError: if an argument is not allowed.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        observation: str = "pixels",
        copy: bool = True,
        render_mode: str | None = None,
        **arguments: Any,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs!r}: 1 or more is needed")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode={render_mode!r}: None or rgb_array is needed")
        self.world = World(**arguments)
        self.num_envs, self.copy, self.observation = num_envs, copy, observation
        self.autoreset_mode, self.render_mode = AutoresetMode(autoreset_mode), render_mode
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": 4,
            "autoreset_mode": self.autoreset_mode,
        }
        self.single_observation_space = self.world.observation_space(observation)
        self.single_action_space = spaces.Discrete(len(ACTIONS))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._episodes = Episodes(self.world, num_envs)
        self._generators = Generators(num_envs)
        self._started = False
        self._pixels: NDArray[np.uint8] | None = None
        if observation == "pixels" and not copy:
            self._pixels = np.empty((num_envs, *self.world.frames.shape[1:]), np.uint8)

    @property
    def frame(self) -> IntArray:
        """(N,) frame ids of the current observation. The next step changes the array."""
        return self._episodes.frame

    @property
    def t(self) -> IntArray:
        """(N,) time in the current episode. The next step changes the array."""
        return self._episodes.t

    @property
    def instruction(self) -> IntArray:
        """(N,) T, also where it is not shown. The next step changes the array."""
        return self._episodes.instruction

    @property
    def distance(self) -> IntArray:
        """(N,) fewest actions from start to target. The next step changes the array."""
        return self._episodes.distance

    @property  # type: ignore[override]
    def np_random(self) -> tuple[np.random.Generator, ...]:
        """(N,) generators, each drawn from when its environment is seeded and never after it.

        What is set, one generator for all or N, gives the first reset its random numbers.
        """
        return self._generators.all()

    @np_random.setter
    def np_random(self, value: np.random.Generator | Sequence[np.random.Generator]) -> None:
        self._generators.replace(value)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """(N,) seeds; -1 where unknown: after ``np_random`` was set, or a state loaded."""
        return self._generators.seeds

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Infos]:
        """Begins an episode in every environment, or in those of ``options["reset_mask"]``.

        Args:
            seed: one per environment, where ``None`` means its next episode; a number s means s,
                s + 1, ...; ``None`` means the next episode everywhere.
            options: ``reset_mask``, (N,) bool; ``instruction``, ``agent`` and ``target``, each a
                number or (N,), replace random draws.

        Raises:
            ValueError: if seeds, options or the mask are not allowed.
        """
        options = dict(options or {})
        mask = self._to_reset(options.pop("reset_mask", None))
        which = np.flatnonzero(mask)
        fixed = self.world.fixed_starts(options, self.num_envs)
        self._seed(which, seed)
        self._episodes.begin(which, {name: values[which] for name, values in fixed.items()})
        self._started = True
        infos = self._episodes.infos()
        return self._observe(), _masked(infos, None if mask.all() else mask)

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Observation, NDArray[np.float64], BoolArray, BoolArray, Infos]:
        """Takes (N,) actions; returns observations, rewards, terminations, truncations, infos.

        Raises:
            ResetNeeded: before the first reset, or if an episode ended and autoreset is disabled.
            ValueError: if an action is not allowed.
        """
        episodes, mode = self._episodes, self.autoreset_mode
        actions = self._checked(actions)
        again = np.flatnonzero(episodes.ended)
        arrived = episodes.advance(actions)
        if len(again):
            episodes.begin(again)
            arrived[again] = False
        rewards, ended = episodes.rewards(arrived), episodes.ended.copy()
        ends: Infos = {}
        if ended.any():
            if mode is AutoresetMode.SAME_STEP:
                ends = self._finals(ended, arrived)
                episodes.begin(np.flatnonzero(ended))
            else:
                ends = _masked({"arrived": arrived}, ended)
        infos = {**_masked(episodes.infos()), **ends}
        return self._observe(), rewards, ended, np.zeros(self.num_envs, np.bool_), infos

    def render(self) -> tuple[Any, ...] | None:
        """Returns the pictures of all environments, (P, P, 3) each; without render_mode None."""
        if not self._started:
            raise ResetNeeded("there is nothing to draw: call reset()")
        return None if self.render_mode is None else tuple(self.world.frames[self.frame])

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Returns a copy of the state, (N,) arrays by name."""
        if not self._started:
            raise ResetNeeded("there is no state to save: call reset()")
        return {name: values.copy() for name, values in self._episodes.state().items()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Resumes exactly from the state of an environment with the same arguments.

        Raises:
            ValueError: if the arrays have other names, shapes or types.
        """
        self._episodes.load(state)
        self._generators.forget_seeds()
        self._started = True

    def _to_reset(self, mask: Any) -> BoolArray:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.any()):
            raise ValueError(f"reset_mask={mask!r}: a bool array, not all false, is needed")
        if mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask has shape {mask.shape}, not ({self.num_envs},)")
        if not (self._started or mask.all()):
            raise ResetNeeded("reset_mask: all environments must be reset before some are")
        return mask

    def _seed(self, which: IntArray, seed: Seeds) -> None:
        seeds = self._generators.seeded(seed)
        new = {i: seeds[i] for i in which.tolist() if seeds[i] is not None or not self._started}
        keys = self._generators.keys(new)
        self._episodes.seed(np.array([*new], np.int64), keys)

    def _checked(self, actions: NDArray[Any]) -> IntArray:
        if not self._started:
            raise ResetNeeded("no episode has begun: call reset()")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._episodes.ended.any():
            ended = np.flatnonzero(self._episodes.ended).tolist()
            raise ResetNeeded(f"episodes of environments {ended} have ended: reset them first")
        given = np.asarray(actions)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            raise ValueError(
                f"actions are {given.dtype} {given.shape}: integers ({self.num_envs},) are needed"
            )
        taken = given.astype(np.int64, copy=False)
        # As unsigned numbers, negative ones are too large as well.
        if (taken.view(np.uint64) >= len(ACTIONS)).any():
            raise ValueError(f"actions {given}: 0 to {len(ACTIONS) - 1} are allowed")
        return taken

    def _observe(self) -> Observation:
        instruction = self._episodes.shown()[:, None].astype(np.float32)
        frame = self._episodes.frame
        if self.observation == "frame":
            return {"frame": frame.copy() if self.copy else frame, "instruction": instruction}
        # "clip" lets NumPy write straight into the buffer; no frame id is outside.
        pixels = np.take(self.world.frames, frame, axis=0, out=self._pixels, mode="clip")
        return {"pixels": pixels, "instruction": instruction}

    def _finals(self, ended: BoolArray, arrived: BoolArray) -> Infos:
        """Returns last observations and infos of the ended episodes, as ``SyncVectorEnv`` does."""
        which = np.flatnonzero(ended)
        frame = self._episodes.frame[which]
        seen = frame if self.observation == "frame" else self.world.frames[frame]
        shown = self._episodes.shown()[which, None].astype(np.float32)
        observations = np.empty(self.num_envs, object)
        observations[which] = [
            {self.observation: view, "instruction": instruction}
            for view, instruction in zip(seen, shown, strict=True)
        ]
        final_info = _masked({**self._episodes.infos(), "arrived": arrived}, ended)
        final = {"final_obs": observations, "final_info": final_info}
        return {**final, "_final_obs": ended.copy(), "_final_info": ended.copy()}


def _masked(values: dict[str, NDArray[Any]], mask: BoolArray | None = None) -> Infos:
    """Returns values, each with its mask; zero where the mask is false, as in Gymnasium."""
    infos: Infos = {}
    first = next(iter(values.values()))
    masks = np.ones((len(values), len(first)), np.bool_)
    if mask is not None:
        masks &= mask
    for (name, value), row in zip(values.items(), masks, strict=True):
        infos[name] = value if mask is None else value * mask
        infos[f"_{name}"] = row
    return infos
