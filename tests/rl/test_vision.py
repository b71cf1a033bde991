"""Vision: pixels, numbers of pictures and the table give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from envs import World
from nalu_ray.rl.agent.vision import Vision, _distinct_cells

WORLDS = [
    World(size=3, cell_pixels=4, instructions=(3, 5)),
    World(size=3, cell_pixels=1, border=0, walls=((1, 1),)),
    World(),
]


@pytest.fixture(params=WORLDS, ids=["small", "bare", "paper"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param
    return found


def made(world: World) -> Vision:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        vision = Vision(world.frames, world.cell_pixels, 6, 16)
        torch.nn.init.normal_(vision.linear.bias, std=0.1)
    return vision


def some(world: World, *shape: int) -> Tensor:
    return torch.randint(len(world.frames), shape, generator=torch.Generator().manual_seed(0))


def test_pixels_are_the_table(world: World) -> None:
    vision = made(world)
    frames = some(world, 40)
    pixels = torch.from_numpy(world.frames[frames.numpy()])
    seen = vision(pixels)
    assert seen.shape == (40, 16)
    assert seen.std() > 0.01
    for found in (vision.table()[frames], vision.table(frames), vision.numbered(frames)):
        torch.testing.assert_close(found, seen, rtol=0, atol=1e-6)


def test_leading_axes(world: World) -> None:
    vision = made(world)
    frames = some(world, 2, 3, 4)
    pixels = torch.from_numpy(world.frames[frames.numpy()])
    seen = vision(pixels)
    assert seen.shape == (2, 3, 4, 16)
    torch.testing.assert_close(vision.numbered(frames), seen, rtol=0, atol=1e-6)
    torch.testing.assert_close(vision(pixels[0]), seen[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(vision(pixels[0, 1, 2]), seen[0, 1, 2], rtol=0, atol=1e-6)


def test_equal_gradients(world: World) -> None:
    frames = some(world, 4).repeat(5, 2)
    pixels = torch.from_numpy(world.frames[frames.numpy()])
    weight = torch.randn(5, 8, 16, generator=torch.Generator().manual_seed(1))
    vision, gradients = made(world), []
    for see in (
        lambda: vision(pixels),
        lambda: vision.numbered(frames),
        lambda: vision.table()[frames],
    ):
        vision.zero_grad()
        (see() * weight).sum().backward()
        gradients.append([value.grad.clone() for value in vision.parameters()])
    for others in gradients[1:]:
        for found, wanted in zip(others, gradients[0], strict=True):
            assert wanted.abs().max() > 0
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_cells_put_together_are_the_pictures(world: World) -> None:
    side = world.size + 2 * world.border
    width = world.cell_pixels
    cells, kinds = _distinct_cells(world.frames, width, side)
    # floor, agent, target, both, and wall where one is drawn
    assert len(cells) == 4 + bool(world.border or world.walls) - (width == 1)
    assert kinds.shape == (len(world.frames), side**2)
    colours = (cells * 255).round().byte().reshape(-1, 3, width, width)
    tiles = colours[kinds].reshape(-1, side, side, 3, width, width)
    drawn = tiles.permute(0, 1, 4, 2, 5, 3).reshape(world.frames.shape)
    assert np.array_equal(drawn.numpy(), world.frames)


def test_cells_of_noise_are_told_apart() -> None:
    """Cells that differ in one bit somewhere are different kinds."""
    frames = np.zeros((24, 4, 4, 3), np.uint8)
    frames.reshape(24, -1)[np.arange(24), np.arange(24)] = 1
    cells, kinds = _distinct_cells(frames, 2, 2)
    assert len(cells) == 13
    assert len(kinds.flatten().unique()) == 13


def test_cells_are_compared_whole_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """np.unique over rows takes sixty times as long as over values, a loop even more."""
    unique, calls = np.unique, []

    def counted(values: Any, **options: Any) -> Any:
        calls.append((values.shape, options.get("axis")))
        return unique(values, **options)

    monkeypatch.setattr(np, "unique", counted)
    cells, _ = _distinct_cells(World().frames, 8, 7)
    assert cells.shape == (5, 3 * 8 * 8)
    assert calls == [((625 * 49,), None)]


def test_a_picture_of_broken_cells() -> None:
    with pytest.raises(ValueError, match="cell_pixels=3"):
        Vision(np.zeros((2, 8, 8, 3), np.uint8), 3, 4, 4)
