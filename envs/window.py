"""A window for people to watch an episode in; needs pygame."""

from __future__ import annotations

import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

SIDE = 560  # pixels of the screen, about


class Window:
    """Shows square pictures, enlarged, at a steady pace.

    Args:
        picture_pixels: side of a picture.
        fps: pictures a second, at most.

    Raises:
        DependencyNotInstalled: if there is no pygame.
    """

    def __init__(self, picture_pixels: int, fps: int) -> None:
        try:
            import pygame  # noqa: PLC0415 (optional)
        except ImportError as error:
            raise DependencyNotInstalled(
                'render_mode="human" needs pygame: pip install "gymnasium[toy-text]"'
            ) from error
        self._pygame, self._fps = pygame, fps
        self._scale = max(1, SIDE // picture_pixels)
        side = picture_pixels * self._scale
        pygame.display.init()
        pygame.display.set_caption("TimeGridworld")
        self._surface = pygame.display.set_mode((side, side))
        self._clock = pygame.time.Clock()

    def show(self, picture: NDArray[np.uint8]) -> None:
        """Shows an RGB picture, (P, P, 3), once the last one had its time."""
        large = picture.repeat(self._scale, 0).repeat(self._scale, 1)
        # pygame counts columns first.
        self._pygame.surfarray.blit_array(self._surface, large.swapaxes(0, 1))
        self._pygame.event.pump()
        self._pygame.display.update()
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Closes the window."""
        self._pygame.display.quit()
