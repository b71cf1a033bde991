"""Moves, distances and pictures of a grid, against plain Python written here."""

from __future__ import annotations

import pytest

from envs import layout
from envs.world import World

# . . #
# # . .
# . . .
WALLED = World(size=3, walls=((0, 2), (1, 0)), cell_pixels=4, border=1)
WORLDS = [
    World(size=3, cell_pixels=3, border=2),
    World(size=2, cell_pixels=1, border=0),
    World(size=2, cell_pixels=2, border=0),
    WALLED,
]


def test_moves_by_hand() -> None:
    """Cells: 0 (0, 0), 1 (0, 1), 2 (1, 1), 3 (1, 2), 4 (2, 0), 5 (2, 1), 6 (2, 2)."""
    up, down, left, right, stay = range(5)
    after = WALLED.moves
    assert after.shape == (7, 5)
    assert after[0].tolist() == [0, 0, 0, 1, 0]
    assert after[1].tolist() == [1, 2, 0, 1, 1]
    assert after[2].tolist() == [1, 5, 2, 3, 2]
    assert (after[3, up], after[4, up], after[6, up]) == (3, 4, 3)
    assert (after[3, down], after[4, right], after[6, left], after[6, stay]) == (6, 5, 5, 6)
    assert after[4, left] == 4


def test_distances_by_hand_and_around_walls() -> None:
    assert WALLED.distances[0].tolist() == [0, 1, 2, 3, 4, 3, 4]
    assert (WALLED.distances == WALLED.distances.T).all()
    free = World().distances
    cells = [(row, col) for row in range(5) for col in range(5)]
    expected = [[abs(a - c) + abs(b - d) for c, d in cells] for a, b in cells]
    assert free.tolist() == expected


def draw(world: World, agent: int, target: int) -> list[list[tuple[int, ...]]]:
    """One picture, pixel by pixel."""
    side, pixels, border = world.size, world.cell_pixels, world.border
    free = [(r, c) for r in range(side) for c in range(side) if (r, c) not in world.walls]
    picture = []
    for y in range((side + 2 * border) * pixels):
        line = []
        for x in range((side + 2 * border) * pixels):
            cell = (y // pixels - border, x // pixels - border)
            colour = layout.FLOOR if cell in free else layout.WALL
            if cell == free[agent]:
                colour = layout.AGENT
            if cell == free[target]:
                inside = pixels // 2
                start = (pixels - inside) // 2
                middle = range(start, start + inside)
                on_agent = agent == target and y % pixels in middle and x % pixels in middle
                colour = layout.AGENT if on_agent else layout.TARGET
            line.append(colour)
        picture.append(line)
    return picture


@pytest.mark.parametrize("world", WORLDS)
def test_every_picture_of_small_worlds(world: World) -> None:
    assert len(world.frames) == world.cells**2
    for agent in range(world.cells):
        for target in range(world.cells):
            found = world.frames[agent * world.cells + target]
            expected = draw(world, agent, target)
            assert found.tolist() == [[list(pixel) for pixel in line] for line in expected]


def test_pictures_of_the_papers_world_all_differ() -> None:
    frames = World().frames
    assert frames.shape == (625, 56, 56, 3)
    assert len({frame.tobytes() for frame in frames}) == 625
    assert frames[24 * 25 + 3].tolist() == [
        [list(pixel) for pixel in line] for line in draw(World(), 24, 3)
    ]


def test_colours_are_told_apart() -> None:
    colours = [layout.AGENT, layout.TARGET, layout.FLOOR, layout.WALL]
    assert layout.TARGET == (255, 0, 0)
    assert len(set(layout.AGENT)) == 1
    for i, one in enumerate(colours):
        for other in colours[:i]:
            assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) > 100
