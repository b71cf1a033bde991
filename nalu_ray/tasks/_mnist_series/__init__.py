"""The task that MNIST counting and addition share; each is a module of its own name."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.data import mnist
from nalu_ray.seeding import Streams, generator
from nalu_ray.task import Batch
from nalu_ray.tasks._mnist_series import data
from nalu_ray.tasks._mnist_series.network import TEST_IMAGES, SeriesNetwork, SeriesSetting
from nalu_ray.tasks._mnist_series.reading import CHUNK, embed, read
from nalu_ray.tasks._mnist_series.tables import RULE
from nalu_ray.training.metrics import (
    constant_errors,
    constant_errors_by_part,
    mean_absolute_error,
    mean_over_examples,
    mean_squared_error,
)
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedTask

EXAMPLE = 20  # images of a series that is shown
ACTIVATIONS = 32_000  # numbers that the convnet computes per image


class SeriesTask(SupervisedTask[SeriesSetting]):
    """Section 4.2: a question about a series of MNIST images.

    Attributes:
        outputs: numbers in an answer.
        names: labels of these numbers in pictures of an example.
    """

    section = "4.2"
    setting_type = SeriesSetting
    axes = ("layer",)
    splits: ClassVar[tuple[str, ...]] = ("validation", "test")
    keep = RULE
    outputs: ClassVar[int]
    names: ClassVar[tuple[str, ...]]

    @abstractmethod
    def target(self, labels: Tensor) -> Tensor:
        """Returns the answers, (..., outputs), to series of labels, (..., T)."""

    @abstractmethod
    def recognised(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns whether answers to single images, (..., outputs), recognise the digit, (...)."""

    def prepare(self) -> None:
        mnist.fetch()

    def build(self, setting: SeriesSetting) -> nn.Module:
        return SeriesNetwork(setting, self.outputs)

    def sample(self, setting: SeriesSetting, split: str, streams: Streams) -> Batch:
        return data.draw(setting, split, streams, self.target)

    def example(self, setting: SeriesSetting, streams: Streams) -> Batch:
        """Returns blank images, as the real ones may not have been downloaded yet."""
        return data.blank(setting, len(streams), self.target)

    def predict(
        self,
        network: Replicas,
        setting: SeriesSetting,
        split: str,
        batch: Batch,
        streams: Streams,
    ) -> Tensor:
        if split == "train":
            return super().predict(network, setting, split, batch, streams)
        return evaluate(network, setting, split, batch)

    def metrics(
        self, setting: SeriesSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Returns errors and the share of exact answers; for the test set by length of series."""
        if split != "test":
            return _errors(prediction, target)
        parts = data.by_length(prediction, target)
        figures = {"accuracy": mean_over_examples(self.recognised(*parts[1]).float())}
        for length, pair in parts.items():
            figures |= {f"{name}_{length}": value for name, value in _errors(*pair).items()}
        return figures

    def references(
        self, setting: SeriesSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns errors of the best constant; for the test set by length of series."""
        if split != "test":
            return constant_errors(batch.targets)
        parts = data.by_length(batch.targets, batch.targets)
        return constant_errors_by_part({length: target for length, (target, _) in parts.items()})

    def curves(
        self, setting: SeriesSetting, split: str, batch: Batch, prediction: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        if split != "test":
            return {}
        parts = data.by_length(prediction, batch.targets)
        errors = torch.stack([mean_absolute_error(*pair) for pair in parts.values()], 1)
        return {"absolute_error": (torch.tensor(list(parts), dtype=errors.dtype), errors)}

    def examples(
        self, setting: SeriesSetting, weights: dict[str, Tensor], seed: int, count: int
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Returns series of test images with a trained network's answers.

        Returns:
            Per series the images, (T, 28, 28), and after each image the network's answer and the
            right answer, (T, outputs) both.
        """
        network = SeriesNetwork(setting, self.outputs)
        network.load_state_dict(weights)
        digits = mnist.load(train=False)
        rng = generator(self.name, seed, "examples")
        index = torch.from_numpy(rng.integers(0, len(digits.labels), (count, EXAMPLE)))
        labels = digits.labels[index]
        with torch.no_grad():
            values = network.after_each(digits.images[index])
        targets = torch.stack([self.target(labels[:, : t + 1]) for t in range(EXAMPLE)], 1)
        return list(zip(digits.images[index], values, targets, strict=True))

    def memory(self, setting: SeriesSetting, seeds: int) -> int:
        """Counts the activations of training images or of a chunk of evaluation images."""
        images = max(2 * (setting.pool or setting.batch * setting.length), CHUNK)
        series = 2 * setting.batch * setting.length
        wide = 12 * max(setting.hidden, 10) + 4 * self.state(setting, 4 * setting.hidden)
        cells = wide * (setting.test_images + series)
        features = 10 * TEST_IMAGES
        return 4 * seeds * (images * ACTIVATIONS + cells + features) + 10 * images * 784


def evaluate(network: Replicas, setting: SeriesSetting, split: str, batch: Batch) -> Tensor:
    """Returns the answers to an evaluation set, (R, series of all lengths, outputs).

    Each image is embedded once, however often it occurs in the series.
    """
    features = embed(network, data.images(setting, split), batch.targets.device)
    return torch.cat(
        [read(network, features, index, [index.shape[2]])[:, :, -1] for index in batch.inputs], 1
    )


def _errors(prediction: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Scores answers, (R, N, outputs) both; exact if all numbers round to the right ones."""
    exact = (prediction.round() == target).all(-1)
    return {
        "mae": mean_absolute_error(prediction, target),
        "mse": mean_squared_error(prediction, target),
        "exact": mean_over_examples(exact.float()),
    }
