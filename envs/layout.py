"""Tables of a grid: its free cells, moves, distances and pictures. Pure functions of the layout."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Pixels = NDArray[np.uint8]

AGENT = (150, 150, 150)
TARGET = (255, 0, 0)
FLOOR = (0, 0, 0)
WALL = (52, 62, 92)

# (rows, columns) by action: up, down, left, right, pass
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))


def free_cells(size: int, walls: tuple[tuple[int, int], ...]) -> BoolArray:
    """Returns (size, size), true where the agent can stand."""
    free = np.ones((size, size), np.bool_)
    for wall in walls:
        free[wall] = False
    return free


def moves(free: BoolArray) -> IntArray:
    """Returns the next cell by cell and action, (F, 5); a blocked move stays where it is."""
    cells = np.flatnonzero(free)
    # Border and walls are -1, so that a neighbour can always be looked up.
    numbers = np.full((free.shape[0] + 2, free.shape[1] + 2), -1, np.int64)
    numbers[1:-1, 1:-1][free] = np.arange(len(cells))
    row, col = np.divmod(cells, free.shape[1])
    after = np.stack([numbers[row + 1 + down, col + 1 + right] for down, right in STEPS], axis=1)
    return np.where(after < 0, np.arange(len(cells))[:, None], after)


def distances(moves: IntArray) -> IntArray:
    """Returns the fewest moves between cells, (F, F); -1 if there is no path."""
    shortest = np.full((len(moves), len(moves)), -1, np.int64)
    reached = np.eye(len(moves), dtype=np.bool_)
    steps = 0
    while reached.any():
        shortest[reached] = steps
        # Moves go both ways, so a cell is next to what was reached if it moves there.
        reached = reached[:, moves].any(axis=2) & (shortest < 0)
        steps += 1
    return shortest


def frames(free: BoolArray, cell_pixels: int, border: int) -> Pixels:
    """Draws every pair (agent, target), (F * F, P, P, 3); see :attr:`envs.world.World.frames`."""
    grid = np.full((*(np.array(free.shape) + 2 * border), 3), WALL, np.uint8)
    rows, cols = np.nonzero(free)
    rows, cols = rows + border, cols + border
    grid[rows, cols] = FLOOR
    count = len(rows)
    cells = np.broadcast_to(grid, (count, count, *grid.shape)).copy()
    every = np.arange(count)
    cells[every, :, rows, cols] = AGENT
    cells[:, every, rows, cols] = TARGET
    drawn = cells.reshape(count**2, *grid.shape).repeat(cell_pixels, 1).repeat(cell_pixels, 2)
    _draw_arrivals(drawn.reshape(count, count, *drawn.shape[1:]), rows, cols, cell_pixels)
    return drawn


def _draw_arrivals(drawn: Pixels, rows: IntArray, cols: IntArray, cell_pixels: int) -> None:
    """Draws the agent smaller where it stands on the target, so that both are seen."""
    side = cell_pixels // 2
    inset = (cell_pixels - side) // 2
    for cell, (row, col) in enumerate(zip(rows, cols, strict=True)):
        top, left = row * cell_pixels + inset, col * cell_pixels + inset
        drawn[cell, cell, top : top + side, left : left + side] = AGENT
