"""Pairs of digits, their folds, and images of them."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from nalu_ray.data import mnist
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.static_mnist.network import (
    DROPOUT,
    DROPPED,
    FOLDS,
    PairOperation,
    PairSetting,
)

# evaluation set -> the images, and whether training shows the pairs
SETS = {"validation": ("validation", True), "seen": ("test", True), "test": ("test", False)}


@cache
def folds(op: PairOperation) -> tuple[Tensor, ...]:
    """Deals the ordered pairs of digits into ten folds, the same for all seeds.

    Returns:
        (10, 2) digits each, of products; (9, 2) of quotients, whose divisor is never 0.
    """
    least = 1 if op == "div" else 0
    pairs = np.array([(a, b) for a in range(10) for b in range(least, 10)])
    order = np.random.RandomState(0).permutation(len(pairs))  # as the published protocol deals
    return tuple(torch.from_numpy(pairs[part]) for part in np.split(order, FOLDS))


def pairs_of(setting: PairSetting, seed: int, seen: bool) -> Tensor:
    """Returns the pairs that a seed's training shows, or those that it does not, (pairs, 2)."""
    unseen = seed % FOLDS if setting.fold is None else setting.fold
    dealt = folds(setting.op)
    return torch.cat([dealt[i] for i in range(FOLDS) if (i != unseen) == seen])


def draw(setting: PairSetting, split: str, streams: Streams) -> Batch:
    """Draws pairs of images.

    Targets are the result and the two digits, (R, N, 3). Training inputs are images,
    (R, N, 2, 28, 28), and with dropout whether to keep each feature, (R, N, 2, features); those of
    an evaluation set are indices of images, (R, N, 2).
    """
    part, seen = SETS.get(split, ("train", True))
    count = setting.batch if split == "train" else setting.test_size
    pairs_by_seed = [pairs_of(setting, seed, seen) for seed in streams.seeds]
    chosen = torch.from_numpy(streams.integers((count,), 0, len(pairs_by_seed[0])))
    digits = torch.stack([pairs[picks] for pairs, picks in zip(pairs_by_seed, chosen, strict=True)])
    index = _images_of(digits, mnist.part(part), streams)
    targets = torch.cat([_result(setting.op, digits), digits], -1).float()
    if split != "train":
        return Batch((index,), targets)
    return Batch((mnist.part(part).images[index], *_kept(setting, streams)), targets)


def images(split: str, index: Tensor) -> Tensor:
    """Returns images of an evaluation set, (..., 28, 28), by their indices, (...)."""
    return mnist.part(SETS[split][0]).images[index]


def blank(setting: PairSetting, streams: Streams) -> Batch:
    """Returns a training batch of blank images, all of digits 1."""
    shape = (len(streams), setting.batch)
    pixels = torch.zeros(*shape, 2, 28, 28, dtype=torch.uint8)
    return Batch((pixels, *_kept(setting, streams)), torch.ones(*shape, 3))


def _result(op: PairOperation, digits: Tensor) -> Tensor:
    a, b = digits.double()[..., :1], digits.double()[..., 1:]
    return a * b if op == "mul" else a / b


def _images_of(digits: Tensor, part: mnist.Digits, streams: Streams) -> Tensor:
    """Draws the index of an image for each digit, (R, N, 2)."""
    order = part.labels.argsort(stable=True)
    counts = part.labels.bincount(minlength=10)
    starts = counts.cumsum(0) - counts
    # even to one in a hundred thousand
    drawn = torch.from_numpy(streams.integers(digits.shape[1:], 0, 2**31))
    index: Tensor = order[starts[digits] + drawn % counts[digits]]
    return index


def _kept(setting: PairSetting, streams: Streams) -> tuple[Tensor, ...]:
    """Draws which features stay, (R, N, 2, features) each; none without dropout."""
    if not setting.dropout:
        return ()
    return tuple(
        torch.from_numpy(streams.uniform((setting.batch, 2, width)) >= share)
        for width, share in zip(DROPPED, DROPOUT, strict=True)
    )
