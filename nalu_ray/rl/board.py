"""The gridworld in a terminal: a coloured board, or a plain line for each moment."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from nalu_ray.envs import ACTIONS, AGENT, FLOOR, TARGET, WALL, World
from nalu_ray.rl.playback import Moment

BAR = 20


def board(world: World, moment: Moment, episodes: int) -> Table:
    """Returns the world beside what the agent was told and does."""
    table = Table.grid(padding=(0, 3))
    table.add_row(picture(world, moment.frame), Group(*_facts(moment, episodes)))
    return table


def picture(world: World, frame: int) -> Text:
    """Returns the grid with its wall, two characters a cell."""
    agent, target = divmod(frame, world.cells)
    colours = np.full((world.size, world.size, 3), WALL)
    colours[world.free] = FLOOR
    rows, cols = np.nonzero(world.free)
    colours[rows[agent], cols[agent]] = AGENT
    colours[rows[target], cols[target]] = TARGET
    padding = ((world.border, world.border),) * 2
    edged = np.stack([np.pad(colours[..., c], padding, constant_values=WALL[c]) for c in range(3)])
    place = (rows[agent] + world.border, cols[agent] + world.border)
    lines = []
    for row, colours_of_row in enumerate(edged.transpose(1, 2, 0)):
        text = Text()
        for col, colour in enumerate(colours_of_row):
            # an agent on its target is drawn inside it, as in the world's pictures
            both = agent == target and (row, col) == place
            text.append("▐▌" if both else "  ", f"{_rgb(AGENT)} on {_rgb(colour)}")
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
