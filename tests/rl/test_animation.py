"""Animations: their size, number of pictures, times, colours and captions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from envs import World
from nalu_ray.errors import ConfigError
from nalu_ray.rl import animation
from nalu_ray.rl.agent.stored import Agent
from nalu_ray.rl.animation import Moment, play
from tests.rl.scripted import scripted

WORLD = World(size=3, cell_pixels=4, instructions=(3, 5), time_limit=8)


def moments(rule: str = "exact", episodes: int = 2) -> list[Moment]:
    agent = Agent(scripted(WORLD, rule), WORLD)
    return list(play(agent, 5, episodes=episodes, time_limit=10))


def test_a_gif(tmp_path: Path) -> None:
    shown = moments()
    assert len(shown) == 12
    path = animation.save(tmp_path / "new" / "a.gif", WORLD, shown, 4)
    with Image.open(path) as image:
        assert (image.format, image.n_frames) == ("GIF", 12)
        assert image.info["loop"] == 0
        # 20 pixels enlarged twelve times, and the caption
        assert image.size == (240, 240 + animation.CAPTION)
        for number, moment in enumerate(shown):
            image.seek(number)
            assert image.info["duration"] == (250 if number % 6 < 5 else 1500)
            world = np.asarray(image.convert("RGB"))[6:240:12, 6:240:12]
            assert np.array_equal(world, WORLD.frames[moment.frame])


def caption(moment: Moment) -> np.ndarray:
    return np.asarray(animation.picture(WORLD, moment))[240:]


def test_the_caption_tells_t_the_time_the_action_and_the_outcome() -> None:
    one = Moment(1, 3, 2, 5, 1, "up", (0.2,) * 5)
    shown = caption(one)
    assert (shown > 200).any()
    for other in (
        Moment(1, 3, 3, 5, 1, "up", (0.2,) * 5),
        Moment(1, 3, 2, 6, 1, "up", (0.2,) * 5),
        Moment(1, 3, 2, 5, 1, "down", (0.2,) * 5),
        Moment(1, 3, 2, 5, 1, arrived=True),
    ):
        assert (caption(other) != shown).any()
    assert np.array_equal(caption(Moment(2, 4, 2, 5, 1, "up", (0.1,) * 5)), shown)


@pytest.mark.parametrize(
    ("world", "side"),
    [
        (World(), 224),  # 56 pixels, four times
        (World(size=2, cell_pixels=5, border=0, instructions=(1, 3)), 240),  # 10 pixels
        (World(size=2, cell_pixels=75, instructions=(1, 3)), 600),  # 300 pixels
        (World(size=2, cell_pixels=75, border=0, instructions=(1, 3)), 300),  # 150 pixels
    ],
)
def test_pictures_are_large_enough_and_even(world: World, side: int) -> None:
    found = animation.picture(world, Moment(1, 1, 0, 3, 1, "up"))
    assert found.size == (side, side + animation.CAPTION)
    assert side % 2 == animation.CAPTION % 2 == 0


def test_the_same_bytes(tmp_path: Path) -> None:
    first = animation.save(tmp_path / "a.gif", WORLD, moments(), 4).read_bytes()
    assert animation.save(tmp_path / "b.gif", WORLD, moments(), 4).read_bytes() == first
    assert animation.save(tmp_path / "c.gif", WORLD, moments("straight"), 4).read_bytes() != first


def test_what_cannot_be_written_is_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert animation.mistakes(Path("a.gif")) == []
    assert animation.mistakes(Path("A.GIF")) == []
    (line,) = animation.mistakes(Path("a.png"))
    assert line == "a.png: an animation's name ends in .gif or .mp4"
    (line,) = animation.mistakes(Path("a.mp4"))
    assert "ffmpeg" in line
    assert ".gif" in line


FFMPEG = """#!{python}
import json, sys
from pathlib import Path
raw = sys.stdin.buffer.read()
if {fails}:
    sys.exit("unknown encoder")
Path(sys.argv[-1]).write_text(json.dumps([len(raw), sys.argv[1:]]))
"""


def ffmpeg(folder: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """A stand-in that writes what it was given."""
    program = folder / "ffmpeg"
    program.write_text(FFMPEG.format(python=sys.executable, fails=fails))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_an_mp4_by_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ffmpeg(tmp_path, monkeypatch, fails=False)
    path = tmp_path / "a.mp4"
    assert animation.mistakes(path) == []
    animation.save(path, WORLD, moments(), 4)
    text = path.read_text()
    # ten steps, and both ends six times as long
    size = (10 + 2 * 6) * 240 * 284 * 3
    assert text.startswith(f"[{size}, ")
    assert '"-s", "240x284", "-r", "4"' in text


def test_ffmpeg_s_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ffmpeg(tmp_path, monkeypatch, fails=True)
    with pytest.raises(ConfigError, match="ffmpeg: unknown encoder"):
        animation.save(tmp_path / "a.mp4", WORLD, moments(), 4)
    assert not (tmp_path / "a.mp4").exists()
