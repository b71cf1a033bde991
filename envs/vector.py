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

from . import draws
from .batch import Batch
from .layout import BoolArray, IntArray
from .world import ACTIONS, World

Observation = dict[str, NDArray[Any]]
Infos = dict[str, Any]
Seeds = int | Sequence[int | None] | None


class TimeGridworldVectorEnv(VectorEnv[Observation, IntArray, NDArray[Any]]):
    """N copies of :class:`envs.time_gridworld.TimeGridworldEnv`, stepped as NumPy arrays.

    Spaces, rewards and rules are those of the single environment. After ``reset(seed=s)``,
    environment i lives through exactly the episodes of a single one after ``reset(seed=s + i)``.

    Infos are (N,) arrays: ``t``, ``instruction``, ``distance``, and in steps ``arrived``, whether
    the step reached the target, set where the step ended an episode (``_arrived``). In the mode
    ``SameStep`` the last observation and info of an ended episode are under ``final_obs`` and
    ``final_info``, in the form of Gymnasium's ``SyncVectorEnv``.

    Args:
        num_envs: N.
        autoreset_mode: when an environment whose episode ended begins the next, a member of
            Gymnasium's ``AutoresetMode`` or its value: ``NextStep`` (in the next step, whose
            action it ignores), ``SameStep`` (at once), or ``Disabled`` (never:
            ``reset(options={"reset_mask": ended})`` does it).
        observation: ``"pixels"`` or ``"frame"``.
        copy: false for observations that lie in the environment's memory: its next step changes
            them, which saves little (benchmarks/gridworld.py).
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
        self._batch = Batch(self.world, num_envs)
        self._started = False
        self._pixels: NDArray[np.uint8] | None = None
        if observation == "pixels" and not copy:
            self._pixels = np.empty((num_envs, *self.world.frames.shape[1:]), np.uint8)

    @property
    def frame(self) -> IntArray:
        """(N,) frame ids of the current observation. The next step changes the array."""
        return self._batch.frame

    @property
    def t(self) -> IntArray:
        """(N,) time in the current episode. The next step changes the array."""
        return self._batch.t

    @property
    def instruction(self) -> IntArray:
        """(N,) T, also where it is not shown. The next step changes the array."""
        return self._batch.instruction

    @property
    def distance(self) -> IntArray:
        """(N,) fewest actions from start to target. The next step changes the array."""
        return self._batch.distance

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Infos]:
        """Begins an episode in every environment, or in those of ``options["reset_mask"]``.

        Args:
            seed: one for each environment, where ``None`` means its next episode; a number s
                means s, s + 1, ...; ``None``, the next episode everywhere.
            options: ``reset_mask``, (N,) bool; ``instruction``, ``agent`` and ``target``, each a
                number or (N,), fix what would be drawn.

        Raises:
            ValueError: if seeds, options or the mask do not fit.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        options = dict(options or {})
        which = self._to_reset(options.pop("reset_mask", None))
        fixed = self.world.fixed_starts(options, self.num_envs)
        self._seed(which, seed)
        self._batch.begin(which, {name: values[which] for name, values in fixed.items()})
        self._started = True
        return self._observe(), self._batch.infos()

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Observation, NDArray[np.float64], BoolArray, BoolArray, Infos]:
        """Takes (N,) actions; returns observations, rewards, terminations, truncations, infos.

        Raises:
            ResetNeeded: before the first reset, or if an episode ended and autoreset is disabled.
            ValueError: if an action is none.
        """
        batch, mode = self._batch, self.autoreset_mode
        actions = self._checked(actions)
        again = np.flatnonzero(batch.ended)
        arrived = batch.advance(actions)
        if len(again):
            batch.begin(again)
            arrived[again] = False
        rewards, ended = batch.rewards(arrived), batch.ended.copy()
        finals: Infos = {}
        if mode is AutoresetMode.SAME_STEP and ended.any():
            finals = self._finals(ended, arrived)
            batch.begin(np.flatnonzero(ended))
        infos = {**batch.infos(), "arrived": arrived, "_arrived": ended.copy(), **finals}
        return self._observe(), rewards, ended, np.zeros(self.num_envs, np.bool_), infos

    def render(self) -> tuple[Any, ...] | None:
        """Returns the pictures of all environments, (P, P, 3) each; without render_mode None."""
        return None if self.render_mode is None else tuple(self.world.frames[self.frame])

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Returns copies of all that changes: (N,) arrays by name."""
        if not self._started:
            raise ResetNeeded("there is no state to save: call reset()")
        return {name: values.copy() for name, values in self._batch.state().items()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Goes on exactly from the state of an environment with the same arguments.

        Raises:
            ValueError: if names, shapes or types of the arrays are not this environment's.
        """
        self._batch.load(state)
        self._started = True

    def _to_reset(self, mask: Any) -> IntArray:
        if mask is None:
            return np.arange(self.num_envs)
        if not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.any()):
            raise ValueError(f"reset_mask={mask!r}: a bool array, not all false, is needed")
        if mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask has shape {mask.shape}, not ({self.num_envs},)")
        if not self._started:
            raise ResetNeeded("reset_mask: all environments must be reset before some are")
        return np.flatnonzero(mask)

    def _seed(self, which: IntArray, seed: Seeds) -> None:
        seeds = range(seed, seed + self.num_envs) if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds were given for {self.num_envs} environments")
        if not self._started:
            self._batch.key[:] = draws.keys(self.np_random, self.num_envs)
        if seeds is None:
            return
        for i in which:
            if (own := seeds[i]) is not None:
                self._batch.seed(i, own)

    def _checked(self, actions: NDArray[Any]) -> IntArray:
        if not self._started:
            raise ResetNeeded("no episode was begun: call reset()")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._batch.ended.any():
            ended = np.flatnonzero(self._batch.ended).tolist()
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
        instruction = self._batch.shown()[:, None].astype(np.float32)
        frame = self._batch.frame
        if self.observation == "frame":
            return {"frame": frame.copy() if self.copy else frame, "instruction": instruction}
        # "clip" lets NumPy write straight into the buffer; no frame id is outside.
        pixels = np.take(self.world.frames, frame, axis=0, out=self._pixels, mode="clip")
        return {"pixels": pixels, "instruction": instruction}

    def _finals(self, ended: BoolArray, arrived: BoolArray) -> Infos:
        """Returns last observations and infos of the ended episodes, as ``SyncVectorEnv`` does."""
        which = np.flatnonzero(ended)
        frame = self._batch.frame[which]
        seen = frame if self.observation == "frame" else self.world.frames[frame]
        shown = self._batch.shown()[which, None].astype(np.float32)
        observations = np.empty(self.num_envs, object)
        observations[which] = [
            {self.observation: one, "instruction": instruction}
            for one, instruction in zip(seen, shown, strict=True)
        ]
        final_info: Infos = {}
        ended = ended.copy()
        for name, values in {**self._batch.infos(), "arrived": arrived}.items():
            # Zero, as Gymnasium has it, where no episode ended.
            final_info |= {name: values * ended, f"_{name}": ended}
        final = {"final_obs": observations, "final_info": final_info}
        return {**final, "_final_obs": ended, "_final_info": ended}
