"""Adding the digits of a series of MNIST images (section 4.2, appendix C).

A convnet and a recurrent cell learn end to end, from series of ten images and their sum alone; then
they are given a hundred and a thousand images.
"""

from __future__ import annotations

from torch import Tensor

from nalu_ray.tasks._mnist_series.tables import figures, tables
from nalu_ray.tasks._mnist_series.task import SeriesTask


class AdditionTask(SeriesTask):
    """Section 4.2: MNIST addition."""

    name = "mnist_addition"
    title = "MNIST digit addition"
    outputs = 1
    names = ("sum",)
    tables = tables("addition", "sums")
    figures = figures("addition")

    def target(self, labels: Tensor) -> Tensor:
        """The sum, (..., T) to (..., 1)."""
        return labels.sum(-1, keepdim=True).float()

    def recognised(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Whether the rounded sum is the digit."""
        return (prediction.round() == target).squeeze(-1)


TASK = AdditionTask()
