"""Products and quotients of two MNIST digits, and pairs that training never shows.

The protocol of Mistry, Farrahi and Hare (2022): a convnet reads each of two digits as the mean of
its softmax, and a unit computes with the two numbers. Both learn end to end from the result. A
tenth of the pairs of digits is left out of training and makes the test.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.data import mnist
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.static_mnist import data
from nalu_ray.tasks.static_mnist.network import PairNetwork, PairSetting
from nalu_ray.tasks.static_mnist.tables import figures, tables
from nalu_ray.training.metrics import constant_errors, mean_over_examples, mean_squared_error
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedTask

CHUNK = 250  # pairs that are read at a time in evaluation
ACTIVATIONS = 140_000  # numbers that the convnet computes per image


class PairTask(SupervisedTask[PairSetting]):
    """Arithmetic on two digits."""

    name = "static_mnist"
    title = "Static MNIST: products and quotients of two digits"
    setting_type = PairSetting
    axes = ("layer", "op")
    splits: ClassVar[tuple[str, ...]] = tuple(data.SETS)
    tables = tables()
    figures = figures()
    # what the unit passes back through a softmax that is sure of its digit
    flush_denormals = True

    def prepare(self) -> None:
        mnist.fetch()

    def build(self, setting: PairSetting) -> nn.Module:
        return PairNetwork(setting)

    def sample(self, setting: PairSetting, split: str, streams: Streams) -> Batch:
        return data.draw(setting, split, streams)

    def example(self, setting: PairSetting, streams: Streams) -> Batch:
        """Returns blank images, as the real ones may not have been downloaded yet."""
        return data.blank(setting, streams)

    def predict(
        self, network: Replicas, setting: PairSetting, split: str, batch: Batch, streams: Streams
    ) -> Tensor:
        """Returns results and digits, (R, N, 3)."""
        if split == "train":
            return super().predict(network, setting, split, batch, streams)
        device = batch.targets.device
        parts = [
            network(data.images(split, index.cpu()).to(device))
            for index in batch.inputs[0].split(CHUNK, 1)
        ]
        return torch.cat(parts, 1)

    def loss(self, setting: PairSetting, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns the squared error of the results; the digits have no labels in training."""
        return super().loss(setting, prediction[..., 0], target[..., 0])

    def metrics(
        self, setting: PairSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Returns errors of the results, the share of right ones, and that of digits read right.

        A product is right if it rounds to the true one, a quotient if times the divisor it rounds
        to the dividend.
        """
        result, expected = prediction[..., 0], target[..., 0]
        error = result - expected if setting.op == "mul" else (result - expected) * target[..., 2]
        digits = prediction[..., 1:].round() == target[..., 1:]
        return {
            "mse": mean_squared_error(result, expected),
            "exact": mean_over_examples((error.abs() < 0.5).float()),
            "digits": mean_over_examples(digits.float()),
        }

    def references(
        self, setting: PairSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns errors of the best constant result."""
        return constant_errors(batch.targets[..., 0])

    def memory(self, setting: PairSetting, seeds: int) -> int:
        """Counts the activations of training images or of a chunk of evaluation images."""
        pairs = max(2 * setting.batch, CHUNK)
        return seeds * (8 * pairs * ACTIVATIONS + 48 * setting.test_size)


TASK = PairTask()
