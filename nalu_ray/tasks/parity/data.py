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
AT_ONCE = 4  # tries that are drawn together; the first that fits is taken

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


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
    known, labels = digits.images.numpy(), digits.labels.numpy()
    canvases = np.zeros((len(streams), count, CANVAS, CANVAS), np.uint8)
    even = np.empty((len(streams), count), np.int64)
    for seed, rng in enumerate(streams.generators):
        present = np.arange(MOST) < rng.integers(0, MOST + 1, (count, 1))
        chosen = rng.integers(0, len(labels), (count, MOST))
        centres = place(rng, present, min_distance)
        _compose(canvases[seed], known, chosen, present, centres)
        even[seed] = ((labels[chosen] % 2 == 0) & present).sum(1)
    return Scenes(torch.from_numpy(canvases), torch.from_numpy(even))


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
    for _ in range(0, TRIES, AT_ONCE):
        if not len(images):
            break
        drawn = rng.integers(FIRST, LAST, (len(images), AT_ONCE, 2))
        offsets = drawn[:, :, None] - centres[images, None, :slot]
        fits = (offsets**2).sum(-1).min(-1) >= min_distance**2
        found, first = fits.any(1), fits.argmax(1)
        centres[images[found], slot] = drawn[found, first[found]]
        images = images[~found]
    return images


def _compose(canvases: Bytes, known: Bytes, chosen: Ints, present: Bools, centres: Ints) -> None:
    """Adds digits to empty canvases, (N, 100, 100), and clips.

    Args:
        canvases: what is written to.
        known: (M, 28, 28) digits.
        chosen, present, centres: (N, 5) which of them, (N, 5) whether, (N, 5, 2) where.
    """
    windows = np.lib.stride_tricks.sliding_window_view(
        canvases, (SIDE, SIDE), axis=(1, 2), writeable=True
    )
    corners = centres - FIRST
    for slot in range(chosen.shape[1]):
        # within one slot no two digits are of one image
        (which,) = np.nonzero(present[:, slot])
        row, column = corners[which, slot].T
        ink, added = windows[which, row, column], known[chosen[which, slot]]
        added += ink
        added[added < ink] = 255  # a byte that wrapped round
        windows[which, row, column] = added
