"""Episodes for people to watch: on a board in the terminal, line by line, as a GIF or an MP4."""

from __future__ import annotations

import dataclasses
import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.console import Group
from rich.table import Table
from rich.text import Text

from nalu_ray.envs import ACTIONS, AGENT, FLOOR, TARGET, WALL, TimeGridworldEnv, World
from nalu_ray.errors import ConfigError
from nalu_ray.results.store.atomic_files import write_bytes
from nalu_ray.rl.agent.stored import Agent

BAR = 20  # characters of a probability of 1
WIDTH = 224  # pixels that a picture is made at least as wide as
CAPTION = 44  # pixels below it
PAUSE = 1.5  # seconds that the end of an episode stays
KINDS = (".gif", ".mp4")


@dataclass(frozen=True)
class Moment:
    """The state of an episode at one time, as it is shown.

    Attributes:
        episode: 1, 2, ...
        frame: number of the world's picture.
        t: time in the episode.
        instruction: T.
        distance: fewest actions from the episode's start to the target.
        action: the agent's action; None at the end.
        probabilities: of the actions, in the order of ``ACTIONS``; empty at the end.
        arrived: at the end, whether the agent is on the target; None before.
    """

    episode: int
    frame: int
    t: int
    instruction: int
    distance: int
    action: str | None = None
    probabilities: tuple[float, ...] = ()
    arrived: bool | None = None

    @property
    def remaining(self) -> int:
        """Time left until T; negative after it."""
        return self.instruction - self.t

    @property
    def outcome(self) -> str | None:
        """How the episode ended: ``exact``, ``early by 2``, ``late by 2`` or ``never``, or None."""
        if self.arrived is None:
            return None
        if not self.arrived:
            return "never"
        if self.remaining == 0:
            return "exact"
        return f"early by {self.remaining}" if self.remaining > 0 else f"late by {-self.remaining}"

    @property
    def feasible(self) -> bool:
        """Whether the target can be reached by T."""
        return self.distance <= self.instruction


def play(
    agent: Agent,
    instruction: int,
    *,
    episodes: int,
    time_limit: int,
    greedy: bool = True,
    seed: int = 0,
) -> Iterator[Moment]:
    """Plays episodes one after another and yields their moments, ends included.

    Args:
        agent: the agent, on the CPU; it plays in its world except for T and the time limit.
        instruction: T.
        episodes: number of episodes.
        time_limit: L, at least T.
        greedy: whether to take the most likely action instead of sampling one.
        seed: seed of starts and sampled actions.
    """
    rules = dataclasses.replace(agent.world, instructions=instruction, time_limit=time_limit)
    env = TimeGridworldEnv(observation="frame", **dataclasses.asdict(rules))
    for episode in range(episodes):
        observation, info = env.reset(seed=seed if episode == 0 else None)
        player = agent.player(1, greedy=greedy, seed=seed + episode)
        ended = False
        while not ended:
            (action,) = player.act(np.array([observation["frame"]]), observation["instruction"])
            now = Moment(episode + 1, env.frame, info["t"], instruction, info["distance"])
            chances = tuple(player.probabilities[0].tolist())
            yield dataclasses.replace(now, action=ACTIONS[action], probabilities=chances)
            observation, _, ended, _, info = env.step(action)
        yield Moment(
            episode + 1, env.frame, info["t"], instruction, info["distance"],
            arrived=info["arrived"],
        )  # fmt: skip


def board(world: World, moment: Moment, episodes: int) -> Table:
    """Returns the world beside the instruction and the agent's action."""
    table = Table.grid(padding=(0, 3))
    table.add_row(board_grid(world, moment.frame), Group(*_facts(moment, episodes)))
    return table


def board_grid(world: World, frame: int) -> Text:
    """Returns the grid with its wall, two characters a cell."""
    agent, target = divmod(frame, world.cells)
    colours = np.full((world.size, world.size, 3), WALL)
    colours[world.free] = FLOOR
    rows, cols = np.nonzero(world.free)
    colours[rows[agent], cols[agent]] = AGENT
    colours[rows[target], cols[target]] = TARGET
    padding = ((world.border, world.border),) * 2
    edged = np.stack([np.pad(colours[..., c], padding, constant_values=WALL[c]) for c in range(3)])
    position = (rows[agent] + world.border, cols[agent] + world.border)
    lines = []
    for row, colours_of_row in enumerate(edged.transpose(1, 2, 0)):
        text = Text()
        for col, colour in enumerate(colours_of_row):
            # an agent on its target is drawn inside it, as in the world's pictures
            overlap = agent == target and (row, col) == position
            text.append("▐▌" if overlap else "  ", f"{_rgb(AGENT)} on {_rgb(colour)}")
        lines.append(text)
    return Text("\n").join(lines)


def line(world: World, moment: Moment, episodes: int) -> str:
    """Returns a moment as a line of plain text: places are (row, column)."""
    agent, target = (_place(world, cell) for cell in divmod(moment.frame, world.cells))
    head = f"episode {moment.episode}/{episodes}  T={moment.instruction}  t={moment.t:<3}"
    head += f"remaining={moment.remaining:<4}agent {agent}  target {target}"
    if moment.action is None:
        return f"{head}  {ending(moment)}"
    chance = moment.probabilities[ACTIONS.index(moment.action)]
    return f"{head}  {moment.action} ({chance:.2f})"


def ending(moment: Moment) -> str:
    """Returns an episode's outcome, and that T was out of reach where it was."""
    outcome = moment.outcome or ""
    return outcome if moment.feasible else f"{outcome} (target {moment.distance} away)"


def _facts(moment: Moment, episodes: int) -> list[Text]:
    lines = [
        Text(f"episode {moment.episode} of {episodes}", "bold"),
        Text(f"T {moment.instruction}   t {moment.t}   remaining {moment.remaining}"),
    ]
    if moment.action is None:
        colour = "green" if moment.outcome == "exact" else "yellow"
        return [*lines, Text(ending(moment), f"bold {colour}"), *(Text() for _ in ACTIONS)]
    lines.append(Text())
    for name, chance in zip(ACTIONS, moment.probabilities, strict=True):
        full = round(BAR * chance)
        bar = "█" * full + "░" * (BAR - full)
        lines.append(Text(f"{name:<6}{bar} {chance:.2f}", "bold" if name == moment.action else ""))
    return lines


def _place(world: World, cell: int) -> str:
    row, col = np.argwhere(world.free)[cell].tolist()
    return f"({row}, {col})"


def _rgb(colour: Iterable[int]) -> str:
    return "rgb({},{},{})".format(*colour)


def mistakes(path: Path) -> list[str]:
    """Returns the reasons why an animation cannot be written to ``path``; empty if it can."""
    ending_of_name = path.suffix.lower()
    if ending_of_name not in KINDS:
        return [f"{path}: an animation's name ends in {' or '.join(KINDS)}"]
    if ending_of_name == ".mp4" and shutil.which("ffmpeg") is None:
        return [f"{path}: MP4 needs ffmpeg, which is not on PATH; .gif works without it"]
    return []


def save(path: Path, world: World, moments: Sequence[Moment], fps: float) -> Path:
    """Writes an animation with one picture per moment, atomically; equal moments give equal bytes.

    Args:
        path: a name that ends in .gif or .mp4.
        world: the world of the moments.
        moments: moments of one or more episodes.
        fps: moments per second.

    Raises:
        OSError: if it cannot be written.
        ConfigError: if ffmpeg fails.
    """
    pictures = [picture(world, moment) for moment in moments]
    seconds = [1 / fps if moment.outcome is None else PAUSE for moment in moments]
    mp4 = path.suffix.lower() == ".mp4"
    return write_bytes(path, _mp4(pictures, seconds, fps) if mp4 else gif(pictures, seconds))


def picture(world: World, moment: Moment) -> Image.Image:
    """Returns a moment enlarged, with its figures below."""
    scale = 2 * -(-WIDTH // (2 * world.frame_pixels))  # even, as MP4 wants its sides
    side = scale * world.frame_pixels
    grid = Image.fromarray(world.frames[moment.frame])
    image = Image.new("RGB", (side, side + CAPTION), FLOOR)
    image.paste(grid.resize((side, side), Image.Resampling.NEAREST))
    font = ImageFont.load_default(14)
    draw = ImageDraw.Draw(image)
    status = moment.action or ending(moment)
    for line, text in enumerate((f"T = {moment.instruction}    t = {moment.t}", status)):
        draw.text((8, side + 4 + 18 * line), text, fill="white", font=font)
    return image


def gif(pictures: Sequence[Image.Image], seconds: Sequence[float]) -> bytes:
    """Returns an animation of pictures of the world, each shown for so many seconds."""
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
