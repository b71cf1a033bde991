"""Draws agents that come with the package side by side: docs/figures/waiting.gif.

    python benchmarks/waiting.py lstm lstm_nac nac_core --save docs/figures/waiting.gif

Each plays one greedy episode from the same start; who has arrived stays where it is.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from nalu_ray import trained
from nalu_ray.envs import FLOOR
from nalu_ray.rl import animation
from nalu_ray.rl.agent.stored import Agent, about
from nalu_ray.rl.rollout import TASK

TITLE = 22  # pixels above each picture
GAP = 8  # pixels between two pictures
LAST = 2.5  # seconds that the end stays
LABELS = {"lstm": "LSTM", "lstm_nac": "LSTM + NAC", "nac_core": "NAC counters"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--t", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fps", type=float, default=8)
    parser.add_argument("--save", type=Path, required=True)
    options = parser.parse_args()
    columns = [_pictures(name, options.t, options.seed) for name in options.variants]
    # the last picture of a shorter episode stays
    frames = [
        _beside([now or column[-1] for now, column in zip(row, columns, strict=True)])
        for row in itertools.zip_longest(*columns)
    ]
    seconds = [1 / options.fps] * (len(frames) - 1) + [LAST]
    options.save.write_bytes(animation.gif(frames, seconds))
    print(f"{options.save}: {len(frames)} pictures, {options.save.stat().st_size:,} bytes")


def _pictures(variant: str, instruction: int, seed: int) -> list[Image.Image]:
    _, data = trained.pick(
        TASK, "agent", {"variant": variant}, lambda data, name: [about(data, name)]
    )
    agent = Agent.from_bytes(data)
    moments = animation.play(agent, instruction, episodes=1, time_limit=2 * instruction, seed=seed)
    return [_titled(animation.picture(agent.world, m), LABELS[variant]) for m in moments]


def _titled(picture: Image.Image, title: str) -> Image.Image:
    image = Image.new("RGB", (picture.width, picture.height + TITLE), FLOOR)
    image.paste(picture, (0, TITLE))
    font = ImageFont.load_default(15)
    ImageDraw.Draw(image).text((8, 3), title, fill="white", font=font)
    return image


def _beside(pictures: list[Image.Image]) -> Image.Image:
    width = sum(picture.width + GAP for picture in pictures) - GAP
    image = Image.new("RGB", (width, pictures[0].height), "white")
    for column, picture in enumerate(pictures):
        image.paste(picture, (column * (picture.width + GAP), 0))
    return image


if __name__ == "__main__":
    main()
