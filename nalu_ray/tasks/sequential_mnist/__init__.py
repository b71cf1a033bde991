"""Sums and products of series of MNIST digits (Madsen and Johansen, 2020).

A convnet gives a number per image, and a recurrent cell the sum or the product of the numbers. Both
learn end to end from the answer after every image. Sums are trained on ten digits and tested on up
to a thousand; products, of digits without 0, are trained on two and tested on up to twenty.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.data import mnist
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks._mnist_series import data as series
from nalu_ray.tasks._mnist_series.reading import CHUNK, embed, read
from nalu_ray.tasks.sequential_mnist import data
from nalu_ray.tasks.sequential_mnist.network import SequentialNetwork, SequentialSetting
from nalu_ray.tasks.sequential_mnist.tables import RULE, figures, tables
from nalu_ray.training.metrics import (
    constant_errors,
    constant_errors_by_part,
    mean_over_examples,
    mean_squared_error,
)
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedTask

ACTIVATIONS = 36_000  # numbers that the convnet computes per image


class SequentialTask(SupervisedTask[SequentialSetting]):
    """Sums and products of series of digits."""

    name = "sequential_mnist"
    title = "Sequential MNIST: sums and products of digits"
    setting_type = SequentialSetting
    axes = ("layer", "op")
    splits: ClassVar[tuple[str, ...]] = ("validation", "test")
    keep = RULE
    tables = tables()
    figures = figures()

    def prepare(self) -> None:
        mnist.fetch()

    def build(self, setting: SequentialSetting) -> nn.Module:
        return SequentialNetwork(setting)

    def sample(self, setting: SequentialSetting, split: str, streams: Streams) -> Batch:
        return data.draw(setting, split, streams)

    def example(self, setting: SequentialSetting, streams: Streams) -> Batch:
        """Returns blank images, as the real ones may not have been downloaded yet."""
        return series.blank(setting, len(streams), lambda x: data.answers(setting.op, x))

    def predict(
        self,
        network: Replicas,
        setting: SequentialSetting,
        split: str,
        batch: Batch,
        streams: Streams,
    ) -> Tensor:
        if split == "train":
            return super().predict(network, setting, split, batch, streams)
        images = data.evaluated(setting, split).images
        features = embed(network, images, batch.targets.device)
        if split == "validation":
            return read(network, features, batch.inputs[0], range(1, setting.length + 1))
        single, index = batch.inputs
        lengths = data.LENGTHS[setting.op]
        longer = read(network, features, index, lengths[1:])
        return torch.cat([read(network, features, single, [1])[:, :, 0], *longer.unbind(2)], 1)

    def metrics(
        self, setting: SequentialSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Returns errors of all answers, for the test set of the last answers by length."""
        # the square of a product of twenty digits is near the largest float32
        prediction, target = prediction.double(), target.double()
        if split != "test":
            return {"mse": mean_squared_error(prediction, target)}
        targets = data.by_length(setting, target)
        predictions = data.by_length(setting, prediction)
        errors = {
            f"mse_{length}": mean_squared_error(predictions[length], targets[length])
            for length in targets
        }
        recognised = (predictions[1].round() == targets[1]).double()
        return {"accuracy": mean_over_examples(recognised), **errors}

    def references(
        self, setting: SequentialSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns errors of the best constant; for the test set of the last answers by length."""
        target = batch.targets.double()
        if split != "test":
            return constant_errors(target)
        return constant_errors_by_part(data.by_length(setting, target))

    def curves(
        self, setting: SequentialSetting, split: str, batch: Batch, prediction: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        if split != "test":
            return {}
        errors = self.metrics(setting, split, prediction, batch.targets)
        lengths = data.LENGTHS[setting.op]
        values = torch.stack([errors[f"mse_{length}"] for length in lengths], 1)
        return {"squared_error": (torch.tensor(lengths, dtype=values.dtype), values)}

    def memory(self, setting: SequentialSetting, seeds: int) -> int:
        """Counts the activations of training images or of a chunk of evaluation images."""
        images = max(2 * (setting.pool or setting.batch * setting.length), CHUNK)
        longest = data.LENGTHS[setting.op][-1]
        series = 2 * setting.batch * setting.length
        wide = 12 * max(setting.hidden, 10) + 4 * self.state(setting, 4 * setting.hidden)
        cells = wide * (setting.test_series + series)
        indices = 2 * longest * setting.test_series + setting.test_images
        return 4 * seeds * (images * ACTIVATIONS + cells + indices) + 10 * images * 784


TASK = SequentialTask()
