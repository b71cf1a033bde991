"""The time-tracking gridworld, one environment at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from numpy.typing import ArrayLike, NDArray

from . import draws
from .world import ACTIONS, World

Observation = dict[str, Any]
Info = dict[str, Any]

WINDOW_SIDE = 560  # pixels of the screen, about


class TimeGridworldEnv(gymnasium.Env[Observation, np.int64]):
    """Reach the red square exactly at time T.

    ## Description
    A grey agent and a red target stand on two random cells of a 5 x 5 grid. The agent gets a time
    T, drawn from 5 to 12. Every action takes one unit of time, starting at t = 0, and the agent
    should step onto the target for the first time at t = T. It has to keep count of the time, which
    no picture shows. From T = 8 on every start allows it, as no two cells are further apart. An
    agent that has learned to count does so for values of T beyond those in training.

    ## Observation space
    A dictionary:

    * ``pixels``: uint8 (56, 56, 3), the whole world in cells of 8 x 8 pixels, with a wall around
      it. With ``observation="frame"`` it is ``frame`` instead, the number of that picture (int64);
      the picture is ``env.world.frames[frame]``.
    * ``instruction``: float32 (1,), T; with ``show="first"`` at t = 0 only, and 0 afterwards.

    ## Action space
    ``Discrete(5)``: 0 up, 1 down, 2 left, 3 right, 4 pass. A move into a wall or off the grid
    leaves the agent where it is; time passes.

    ## Rewards
    0 in every step but the one that reaches the target, at time t (:func:`rewards`):

    * ``symmetric`` (default): m - c * abs(T - t), with m = 1 and c = 0.1;
    * ``early``: m - c * (T - t) if t <= T, else 0;
    * ``exact``: m if t = T, else 0.

    ## Starting state
    T, the agent's cell and the target's are uniform, the two cells distinct. Options of ``reset``
    fix any of them: ``{"instruction": 19, "agent": 0, "target": 24}``; cells are numbered row by
    row, walls left out. The episodes after ``reset(seed=s + i)`` are those of environment i of
    :class:`envs.vector.TimeGridworldVectorEnv` after ``reset(seed=s)``.

    ## End of an episode
    The agent stepped onto the target, or t reached L = 20. Both *terminate* the episode: the time
    limit belongs to the task, and the value after it is 0. ``truncated`` is always false.

    ## Info
    ``t``, ``instruction`` (T, whatever is shown) and ``distance``, the fewest actions from the
    agent's first cell to the target: T can be met if T >= distance. The last step of an episode
    adds ``arrived``, false after a time-out.

    ## Arguments
    Every field of :class:`envs.world.World` by name (``size``, ``walls``, ``instructions``,
    ``time_limit``, ``reward`` and so on), and:

    * ``observation``: ``"pixels"`` or ``"frame"``;
    * ``render_mode``: ``None``, ``"rgb_array"``, or ``"human"``, a window, which needs pygame.

    ## Reference
    Trask et al., "Neural Arithmetic Logic Units" (2018), section 4.5, gives the grid, 56 x 56
    pixels, the actions, T of 5 to 12, the two ends of an episode and m as the highest reward, for
    t = T. It does not give m, L, the reward of other arrivals, or how the cells are drawn: the
    defaults are ours. It gives T "at the start of the episode", which ``show="first"`` takes
    literally; by default T stays in view, as in its agents, whose memory gets T as an input.
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        *,
        observation: str = "pixels",
        render_mode: str | None = None,
        **arguments: Any,
    ) -> None:
        self.world = World(**arguments)
        self.observation_space = self.world.observation_space(observation)
        self.action_space = spaces.Discrete(len(ACTIONS))
        self.observation = observation
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode={render_mode!r}: None, rgb_array or human is needed")
        self.render_mode = render_mode
        self._window: Window | None = None
        self._key: NDArray[np.uint64] | None = None
        self._episode = self._t = 0
        self._ended = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        super().reset(seed=seed)
        fixed = self.world.fixed_starts(options or {}, 1)
        if seed is not None or self._key is None:
            self._key, self._episode = draws.keys(self.np_random, 1), 0
        episodes = np.array([self._episode], np.uint64)
        self._episode += 1
        drawn = draws.starts(
            self._key, episodes, self.world.cells, self.world.instruction_range, fixed
        )
        self._instruction, self._agent, self._target = (int(value[0]) for value in drawn)
        self._distance = int(self.world.distances[self._agent, self._target])
        self._t, self._ended = 0, False
        self._show()
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        if self._ended:
            raise ResetNeeded("the episode has ended, or none has begun: call reset()")
        if not 0 <= action < len(ACTIONS):
            raise ValueError(f"action {action!r}: 0 to {len(ACTIONS) - 1} are allowed")
        self._agent = int(self.world.moves[self._agent, action])
        self._t += 1
        arrived = self._agent == self._target
        self._ended = arrived or self._t == self.world.time_limit
        reward = float(rewards(self.world, self._instruction, self._t)) if arrived else 0.0
        info = self._info()
        if self._ended:
            info["arrived"] = arrived
        self._show()
        return self._observe(), reward, self._ended, False, info

    @property
    def frame(self) -> int:
        """Number of the current picture."""
        return self._agent * self.world.cells + self._target

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """Returns the picture, uint8 (P, P, 3), in the mode ``rgb_array``."""
        if self._ended and self._t == 0:
            raise ResetNeeded("there is nothing to draw: call reset()")
        return self._picture() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None

    def _show(self) -> None:
        """Keeps a human's window up to date."""
        if self.render_mode == "human":
            if self._window is None:
                self._window = Window(self.world.frame_pixels, self.metadata["render_fps"])
            self._window.show(self._picture())

    def _observe(self) -> Observation:
        shown = self._instruction if self.world.show == "always" or self._t == 0 else 0
        instruction = np.array([shown], np.float32)
        if self.observation == "frame":
            return {"frame": np.int64(self.frame), "instruction": instruction}
        return {"pixels": self._picture(), "instruction": instruction}

    def _picture(self) -> NDArray[np.uint8]:
        picture: NDArray[np.uint8] = self.world.frames[self.frame].copy()
        return picture

    def _info(self) -> Info:
        return {"t": self._t, "instruction": self._instruction, "distance": self._distance}


def rewards(world: World, instruction: ArrayLike, t: ArrayLike) -> NDArray[np.float64]:
    """Returns the rewards of agents that reach their targets; every other step is worth 0.

    With ``world.reward``: ``symmetric``, m - c * abs(T - t); ``early``, m - c * (T - t) up to T and
    0 after it; ``exact``, m at t = T and 0 elsewhere.

    Args:
        world: reward, m and c are read.
        instruction: T, (N,).
        t: times of the arrivals, (N,).
    """
    early = np.subtract(instruction, t, dtype=np.float64)
    if world.reward == "exact":
        return np.where(early == 0, world.m, 0.0)
    reward = world.m - world.c * np.abs(early)
    return reward if world.reward == "symmetric" else np.where(early >= 0, reward, 0.0)


class Window:
    """Shows square pictures, enlarged, at a steady pace.

    Args:
        picture_pixels: side of a picture.
        fps: maximum number of pictures per second.

    Raises:
        DependencyNotInstalled: if pygame is not installed.
    """

    def __init__(self, picture_pixels: int, fps: int) -> None:
        try:
            import pygame  # noqa: PLC0415 (optional)
        except ImportError as error:
            raise DependencyNotInstalled(
                'render_mode="human" needs pygame: pip install "gymnasium[toy-text]"'
            ) from error
        self._pygame, self._fps = pygame, fps
        self._scale = max(1, WINDOW_SIDE // picture_pixels)
        side = picture_pixels * self._scale
        pygame.display.init()
        pygame.display.set_caption("TimeGridworld")
        self._surface = pygame.display.set_mode((side, side))
        self._clock = pygame.time.Clock()

    def show(self, picture: NDArray[np.uint8]) -> None:
        """Shows an RGB picture, (P, P, 3), after the last one had its time."""
        large = picture.repeat(self._scale, 0).repeat(self._scale, 1)
        # pygame counts columns first.
        self._pygame.surfarray.blit_array(self._surface, large.swapaxes(0, 1))
        self._pygame.event.pump()
        self._pygame.display.update()
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Closes the window."""
        self._pygame.display.quit()
