"""Series of digits, and their sums or products after every digit."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from nalu_ray.data import mnist
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks._mnist_series import data as series
from nalu_ray.tasks.sequential_mnist.network import Accumulation, SequentialSetting

# answers of the test set are scored after so many digits
LENGTHS: Mapping[Accumulation, tuple[int, ...]] = {
    "sum": (1, 10, *range(100, 1001, 100)),
    "product": tuple(range(1, 21)),
}
VALIDATION_SERIES = 500


def answers(op: Accumulation, labels: Tensor) -> Tensor:
    """Returns the sum or product after each digit, (..., T) to (..., T, 1).

    A product of twenty digits is beyond 64-bit integers; float32 rounds it to a relative 6e-8.
    """
    numbers = labels.double()
    results = numbers.cumsum(-1) if op == "sum" else numbers.cumprod(-1)
    return results.float().unsqueeze(-1)


def evaluated(setting: SequentialSetting, split: str) -> mnist.Digits:
    """Returns the digits of an evaluation set; without zeros for products, which would be 0."""
    part, count = mnist.part(split), setting.test_images
    part = mnist.Digits(part.images[:count], part.labels[:count])
    usable = _usable(setting.op, part.labels)
    return part if usable is None else mnist.Digits(part.images[usable], part.labels[usable])


def _usable(op: Accumulation, labels: Tensor) -> Tensor | None:
    """Returns the places of digits that an operation takes; None means all."""
    return None if op == "sum" else labels.nonzero()[:, 0]


def draw(setting: SequentialSetting, split: str, streams: Streams) -> Batch:
    """Draws training series, or the image indices of an evaluation set.

    Training inputs are as in :func:`nalu_ray.tasks._mnist_series.data.draw`, and their targets,
    (R, N, T, 1), the answers after each digit. An evaluation set's inputs are indices of images,
    (R, N, T): for validation series of the training length; for the test each digit alone, then
    series of the largest length, whose targets, (R, all, 1), follow one another by length.
    """
    if split == "train":
        among = _usable(setting.op, mnist.part(split).labels)
        return series.training(setting, streams, lambda x: answers(setting.op, x), among)
    digits = evaluated(setting, split)
    count = len(digits.labels)
    if split != "test":
        shape = VALIDATION_SERIES, setting.length
        index = torch.from_numpy(streams.integers(shape, 0, count))
        return Batch((index,), answers(setting.op, digits.labels[index]))
    single = torch.arange(count)[None, :, None].expand(len(streams), -1, -1)
    lengths = LENGTHS[setting.op]
    index = torch.from_numpy(streams.integers((setting.test_series, lengths[-1]), 0, count))
    after = answers(setting.op, digits.labels[index])
    targets = [answers(setting.op, digits.labels[single])[:, :, 0]]
    targets += [after[:, :, length - 1] for length in lengths[1:]]
    return Batch((single, index), torch.cat(targets, 1))


def by_length(setting: SequentialSetting, values: Tensor) -> dict[int, Tensor]:
    """Splits a test set's answers or targets, (R, all, 1), by length, (R, N, 1) each."""
    lengths = LENGTHS[setting.op]
    series_of_all = setting.test_series * (len(lengths) - 1)
    sizes = [values.shape[1] - series_of_all, *[setting.test_series] * (len(lengths) - 1)]
    return dict(zip(lengths, values.split(sizes, 1), strict=True))
