"""Counting the digits of each kind in a series of MNIST images (section 4.2, appendix C).

A convnet and a recurrent cell learn end to end, from series of ten images and the ten counts alone,
without a label of any image; then they are given a hundred and a thousand images.
"""

from __future__ import annotations

from torch import Tensor

from nalu_ray.tasks._mnist_series.tables import figures, tables
from nalu_ray.tasks._mnist_series.task import SeriesTask

KINDS = 10


class CountingTask(SeriesTask):
    """Section 4.2: MNIST counting."""

    name = "mnist_counting"
    title = "MNIST digit counting"
    outputs = KINDS
    names = tuple(map(str, range(KINDS)))
    tables = tables("counting", "counts")
    figures = figures("counting")

    def target(self, labels: Tensor) -> Tensor:
        """How many of each digit there are, (..., T) to (..., 10)."""
        counts = labels.new_zeros(*labels.shape[:-1], KINDS)
        one = labels.new_ones(()).expand(labels.shape)
        return counts.scatter_add_(-1, labels, one).float()

    def recognised(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Whether the digit's count is the largest."""
        return prediction.argmax(-1) == target.argmax(-1)


TASK = CountingTask()
