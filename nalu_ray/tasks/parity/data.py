"""Images that hold several MNIST digits, and how many of them are even.

They follow the one public generator of the parity task (fomorians/counting-mnist, 0ecb7b2). An
image holds 0 to 5 digits, each count equally likely, drawn with replacement and neither turned nor
scaled. Their centres are at least a minimum distance apart. Where digits overlap, ink adds up and
is clipped. New images are drawn at each step.
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
FIRST, LAST = SIDE // 2, CANVAS - SIDE // 2  # centres lie in [first, last): no digit is cut off
FARTHEST = 30  # larger minimum distances are not always possible with five digits
TRIES = 200  # draws of one centre before its image starts again
AT_ONCE = 4  # centres that are drawn together; the first that fits is taken

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class Scenes(NamedTuple):
    """Images of R seeds, N each.

    Attributes:
        images: (R, N, 100, 100) uint8, 0 (paper) to 255 (ink).
        even: (R, N) int64, the number of even digits of each image.
    """

    images: Tensor
    even: Tensor


def draw(streams: Streams, count: int, digits: Digits, min_distance: int) -> Scenes:
    """Draws ``count`` images per seed.

    Args:
        streams: random numbers of the R seeds.
        count: N.
        digits: the digits to draw from.
        min_distance: smallest distance of centres, in pixels, 0 to 30.

    Raises:
        ValueError: the distance is out of range.
    """
    if not 0 <= min_distance <= FARTHEST:
        raise ValueError(f"min_distance must be in 0 to {FARTHEST}, got {min_distance}")
    images, labels = digits.images.numpy(), digits.labels.numpy()
    canvases = np.zeros((len(streams), count, CANVAS, CANVAS), np.uint8)
    even = np.empty((len(streams), count), np.int64)
    for seed, rng in enumerate(streams.generators):
        present = np.arange(MOST) < rng.integers(0, MOST + 1, (count, 1))
        chosen = rng.integers(0, len(labels), (count, MOST))
        centres = place(rng, present, min_distance)
        _compose(canvases[seed], images, chosen, present, centres)
        even[seed] = ((labels[chosen] % 2 == 0) & present).sum(1)
    return Scenes(torch.from_numpy(canvases), torch.from_numpy(even))


def place(rng: np.random.Generator, present: Bools, min_distance: int) -> Ints:
    """Draws centres one after the other; one too close to an earlier one is drawn again.

    An image whose next digit does not fit starts again.

    Args:
        rng: random numbers.
        present: (N, 5), which digits an image has; always the first ones.
        min_distance: Euclidean, in pixels.

    Returns:
        (N, 5, 2) centres, row and column, of [14, 86); those of absent digits have no meaning.
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
    """Draws one slot's centres until they fit; returns the images in which none fitted."""
    for _ in range(0, TRIES, AT_ONCE):
        if not len(images):
            break
        drawn = rng.integers(FIRST, LAST, (len(images), AT_ONCE, 2))
        offsets = drawn[:, :, None] - centres[images, None, :slot]
        fits = (offsets**2).sum(-1).min(-1) >= min_distance**2
        fitted, first = fits.any(1), fits.argmax(1)
        centres[images[fitted], slot] = drawn[fitted, first[fitted]]
        images = images[~fitted]
    return images


def _compose(canvases: Bytes, images: Bytes, chosen: Ints, present: Bools, centres: Ints) -> None:
    """Adds digits to empty canvases, (N, 100, 100), and clips.

    Args:
        canvases: written in place.
        images: (M, 28, 28) digits.
        chosen: (N, 5), indices of digits.
        present: (N, 5), whether an image has the digit.
        centres: (N, 5, 2), row and column.
    """
    windows = np.lib.stride_tricks.sliding_window_view(
        canvases, (SIDE, SIDE), axis=(1, 2), writeable=True
    )
    corners = centres - FIRST
    for slot in range(chosen.shape[1]):
        # digits of one slot are all of different images
        (indices,) = np.nonzero(present[:, slot])
        row, column = corners[indices, slot].T
        ink, added = windows[indices, row, column], images[chosen[indices, slot]]
        added += ink
        added[added < ink] = 255  # the byte wrapped around
        windows[indices, row, column] = added
