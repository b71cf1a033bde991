"""Series of MNIST images that counting and addition share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nalu_ray.data import mnist
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks._mnist_series.network import ReaderSetting, SeriesSetting

# test series of each length; length 1 has one series per image
TEST_SERIES = {10: 1000, 100: 500, 1000: 200}
LENGTHS = (1, *TEST_SERIES)
VALIDATION_SERIES = 500

Target = Callable[[Tensor], Tensor]


def draw(setting: SeriesSetting, split: str, streams: Streams, target: Target) -> Batch:
    """Draws training series, or the image indices of an evaluation set.

    Training inputs are images, (R, N, T, 28, 28). With a pool they are its images, (R, P, 28, 28),
    and the index of each image of a series, (R, N, T).

    Args:
        setting, split, streams: as in :meth:`SupervisedTask.sample`.
        target: maps labels of series, (R, N, T), to their targets, (R, N, outputs).
    """
    if split == "train":
        return training(setting, streams, target)
    digits = mnist.part(split)
    indices = _evaluation(setting, split, streams)
    targets = [target(digits.labels[index]) for index in indices]
    return Batch(tuple(indices), torch.cat(targets, 1))


def training(
    setting: ReaderSetting, streams: Streams, target: Target, among: Tensor | None = None
) -> Batch:
    """Draws training series, as :func:`draw` says; only of the digits ``among``, (digits,)."""
    digits = mnist.part("train")
    shape = setting.batch, setting.length
    drawn = (setting.pool,) if setting.pool else shape
    count = len(digits.labels if among is None else among)
    picked = torch.from_numpy(streams.integers(drawn, 0, count))
    picked = picked if among is None else among[picked]
    if setting.pool is None:
        return Batch((digits.images[picked],), target(digits.labels[picked]))
    index = torch.from_numpy(streams.integers(shape, 0, setting.pool))
    chosen = picked.gather(1, index.flatten(1)).view_as(index)
    return Batch((digits.images[picked], index), target(digits.labels[chosen]))


def blank(setting: ReaderSetting, seeds: int, target: Target) -> Batch:
    """Returns training series of blank images, as :func:`training` lays them out."""
    shape = (setting.batch, setting.length)
    targets = target(torch.zeros(seeds, *shape, dtype=torch.int64)).float()
    if setting.pool is None:
        return Batch((torch.zeros(seeds, *shape, 28, 28, dtype=torch.uint8),), targets)
    images = torch.zeros(seeds, setting.pool, 28, 28, dtype=torch.uint8)
    return Batch((images, torch.zeros(seeds, *shape, dtype=torch.int64)), targets)


def _evaluation(setting: SeriesSetting, split: str, streams: Streams) -> list[Tensor]:
    """Draws image indices of the evaluation series, (R, N, T) for each T."""
    count = len(images(setting, split))
    if split != "test":
        shape = VALIDATION_SERIES, setting.length
        return [torch.from_numpy(streams.integers(shape, 0, count))]
    each_once = torch.arange(count)[None, :, None].expand(len(streams), -1, -1)
    shapes = [(series, length) for length, series in TEST_SERIES.items()]
    return [each_once, *(torch.from_numpy(streams.integers(s, 0, count)) for s in shapes)]


def images(setting: SeriesSetting, split: str) -> Tensor:
    """Returns the images of an evaluation set that are used, (images, 28, 28)."""
    return mnist.part(split).images[: setting.test_images]


def by_length(prediction: Tensor, target: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
    """Splits a test set's predictions and targets, (R, N, outputs), by length of series."""
    singles = target.shape[1] - sum(TEST_SERIES.values())
    sizes = [singles, *TEST_SERIES.values()]
    pairs = zip(prediction.split(sizes, 1), target.split(sizes, 1), strict=True)
    return dict(zip(LENGTHS, pairs, strict=True))
