"""Adding the digits of a series of MNIST images (section 4.2, appendix C).

A convnet and a recurrent cell learn end to end from series of ten images and their sum. They are
tested on series of a hundred and a thousand images.
"""

from __future__ import annotations

from torch import Tensor

from nalu_ray.tasks._mnist_series import SeriesTask
from nalu_ray.tasks._mnist_series.tables import figures, tables


class AdditionTask(SeriesTask):
    """Section 4.2: MNIST addition."""

    name = "mnist_addition"
    title = "MNIST digit addition"
    outputs = 1
    names = ("sum",)
    tables = tables("addition", "sums")
    figures = figures("addition")

    def target(self, labels: Tensor) -> Tensor:
        """Adds the labels of series, (..., T), to (..., 1)."""
        return labels.sum(-1, keepdim=True).float()

    def recognised(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns whether the rounded sum is the digit."""
        return (prediction.round() == target).squeeze(-1)


TASK = AdditionTask()
