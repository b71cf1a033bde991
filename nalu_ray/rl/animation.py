"""Episodes as a GIF, or as an MP4 where ffmpeg is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from nalu_ray.envs import AGENT, FLOOR, TARGET, WALL, World
from nalu_ray.errors import ConfigError
from nalu_ray.results.store.atomic import write_bytes
from nalu_ray.rl.board import ending
from nalu_ray.rl.playback import Moment

WIDTH = 224  # pixels that a picture is made at least as wide as
CAPTION = 44  # pixels below it
PAUSE = 1.5  # seconds that the end of an episode stays
KINDS = (".gif", ".mp4")


def mistakes(path: Path) -> list[str]:
    """Returns why no animation can be written under that name here; nothing if it can."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        return [f"{path}: an animation's name ends in {' or '.join(KINDS)}"]
    if kind == ".mp4" and shutil.which("ffmpeg") is None:
        return [f"{path}: MP4 needs ffmpeg, which is not on PATH; .gif needs nothing"]
    return []


def save(path: Path, world: World, moments: Sequence[Moment], fps: float) -> Path:
    """Writes moments, one picture each, whole or not at all; the same bytes for the same moments.

    Args:
        path: its ending says what is written, see :func:`mistakes`.
        world: whose pictures are shown.
        moments: of one or more episodes.
        fps: moments a second.

    Raises:
        OSError: it could not be written.
        ConfigError: ffmpeg refused.
    """
    pictures = [picture(world, moment) for moment in moments]
    seconds = [1 / fps if moment.outcome is None else PAUSE for moment in moments]
    encode = _mp4 if path.suffix.lower() == ".mp4" else _gif
    return write_bytes(path, encode(pictures, seconds, fps))


def picture(world: World, moment: Moment) -> Image.Image:
    """Returns a moment enlarged, with its figures below."""
    scale = 2 * -(-WIDTH // (2 * world.frame_pixels))  # even, as MP4 wants its sides
    side = scale * world.frame_pixels
    grid = Image.fromarray(world.frames[moment.frame])
    image = Image.new("RGB", (side, side + CAPTION), FLOOR)
    image.paste(grid.resize((side, side), Image.Resampling.NEAREST))
    font = ImageFont.load_default(14)
    draw = ImageDraw.Draw(image)
    says = moment.action or ending(moment)
    for line, text in enumerate((f"T = {moment.instruction}    t = {moment.t}", says)):
        draw.text((8, side + 4 + 18 * line), text, fill="white", font=font)
    return image


def _gif(pictures: Sequence[Image.Image], seconds: Sequence[float], fps: float) -> bytes:
    # one palette for all: the world's colours as they are, and the greys of the text
    palette = Image.new("P", (1, 1))
    greys = [(level, level, level) for level in range(5, 256, 10)]
    palette.putpalette([v for rgb in (FLOOR, WALL, AGENT, TARGET, *greys) for v in rgb])
    frames = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    durations = [round(1000 * each) for each in seconds]
    buffer = io.BytesIO()
    frames[0].save(
        buffer, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0
    )
    return buffer.getvalue()


def _mp4(pictures: Sequence[Image.Image], seconds: Sequence[float], fps: float) -> bytes:
    width, height = pictures[0].size
    repeated = (
        picture.tobytes()
        for picture, each in zip(pictures, seconds, strict=True)
        for _ in range(max(1, round(each * fps)))
    )
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "animation.mp4")
        command = [
            "ffmpeg", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24",
            "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-", "-pix_fmt", "yuv420p",
            "-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", str(target),
        ]  # fmt: skip
        done = subprocess.run(command, input=b"".join(repeated), capture_output=True, check=False)
        if done.returncode:
            raise ConfigError([f"ffmpeg: {done.stderr.decode(errors='replace').strip()}"])
        return target.read_bytes()
