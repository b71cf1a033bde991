"""Images that hold several MNIST digits, and how many of them are even.

As the one public generator of the parity task makes them (fomorians/counting-mnist, 0ecb7b2): 0 to
5 digits, each count alike often, drawn with replacement, neither turned nor scaled, their centres
no nearer to one another than a minimum; where digits overlap, ink adds up and is clipped. Made on
the fly, fresh at each step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nalu_ray.data.mnist import SIDE, Digits
from nalu_ray.seeding import Streams

MOST = 5
CANVAS = 100
FIRST, LAST = SIDE // 2, CANVAS - SIDE // 2  # centres are of [first, last): digits lie within
FARTHEST = 30  # minimum distances beyond are not always possible with five digits
TRIES = 200  # of one digit, before its image is begun anew

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Scenes(NamedTuple):
    """Images of seeds, R of them, N each.

    Attributes:
        images: (R, N, 100, 100) uint8, 0 (paper) to 255 (ink).
        even: (R, N) int64, how many of an image's digits are even.
    """

    images: Tensor
    even: Tensor


def draw(streams: Streams, count: int, digits: Digits, min_distance: int) -> Scenes:
    """Draws ``count`` images a seed from some digits.

    Args:
        streams: where each seed's random numbers come from.
        count: N.
        digits: what may be in an image.
        min_distance: of centres, in pixels; 0 to 30.

    Raises:
        ValueError: if the distance is out of range.
    """
    if not 0 <= min_distance <= FARTHEST:
        raise ValueError(f"min_distance must be in 0 to {FARTHEST}, got {min_distance}")
    total = len(digits.labels)
    images, labels = [], []
    for rng in streams.generators:
        present = np.arange(MOST) < rng.integers(0, MOST + 1, (count, 1))
        chosen = torch.from_numpy(rng.integers(0, total, (count, MOST)))
        centres = place(rng, present, min_distance)
        composed = _compose(digits.images[chosen].numpy(), present, centres)
        images.append(torch.from_numpy(composed))
        even = (digits.labels[chosen] % 2 == 0) & torch.from_numpy(present)
        labels.append(even.sum(1))
    return Scenes(torch.stack(images), torch.stack(labels))


def place(rng: np.random.Generator, present: Bools, min_distance: int) -> Ints:
    """Draws centres one after the other; one that is too near to an earlier one is drawn again.

    An image whose next digit finds no place is begun anew.

    Args:
        rng: where the numbers come from.
        present: (N, 5), which digits there are; the first ones.
        min_distance: Euclidean, in pixels.

    Returns:
        (N, 5, 2) centres, row and column, of [14, 86); those of absent digits mean nothing.
    """
    centres = rng.integers(FIRST, LAST, (*present.shape, 2))
    pending = np.arange(len(present))
    while len(pending):
        stuck = []
        for slot in range(1, present.shape[1]):
            stuck.append(_fit(rng, centres, pending[present[pending, slot]], slot, min_distance))
            pending = np.setdiff1d(pending, stuck[-1], assume_unique=True)
        pending = np.concatenate(stuck)
        centres[pending] = rng.integers(FIRST, LAST, (len(pending), *centres.shape[1:]))
    return centres


def _fit(
    rng: np.random.Generator, centres: Ints, images: Ints, slot: int, min_distance: int
) -> Ints:
    """Draws one slot's centres until they fit; returns the images in which that takes too long."""
    for _ in range(TRIES):
        offsets = centres[images, :slot] - centres[images, slot, None]
        near = (offsets**2).sum(-1).min(-1) < min_distance**2
        images = images[near]
        if not len(images):
            break
        centres[images, slot] = rng.integers(FIRST, LAST, (len(images), 2))
    return images


def _compose(digits: NDArray[np.uint8], present: Bools, centres: Ints) -> NDArray[np.uint8]:
    """Adds each image's digits, (N, 5, 28, 28), at their centres, and clips: (N, 100, 100)."""
    canvas = np.zeros((len(digits), CANVAS, CANVAS), np.uint16)
    windows = np.lib.stride_tricks.sliding_window_view(
        canvas, (SIDE, SIDE), axis=(1, 2), writeable=True
    )
    corners = centres - FIRST
    for slot in range(digits.shape[1]):
        # within one slot no two digits are of one image
        (which,) = np.nonzero(present[:, slot])
        row, column = corners[which, slot].T
        windows[which, row, column] += digits[which, slot]
    return np.minimum(canvas, 255).astype(np.uint8)
