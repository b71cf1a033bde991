"""Counting the digits of each kind in a series of MNIST images (section 4.2, appendix C).

A convnet and a recurrent cell learn end to end from series of ten images and their ten counts,
without a label for any single image. They are tested on series of a hundred and a thousand images.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nalu_ray.tasks._mnist_series import SeriesTask
from nalu_ray.tasks._mnist_series.tables import figures, tables

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
        """Counts each digit in series, (..., T), to (..., 10)."""
        counts = labels.new_zeros(*labels.shape[:-1], KINDS)
        return counts.scatter_add_(-1, labels, torch.ones_like(labels)).float()

    def recognised(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns whether the digit's count is the largest."""
        return prediction.argmax(-1) == target.argmax(-1)


TASK = CountingTask()
