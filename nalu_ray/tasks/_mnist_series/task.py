"""What MNIST counting and addition do alike; the tasks are in modules of their names."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.data import mnist
from nalu_ray.seeding import Streams, generator
from nalu_ray.task import Batch
from nalu_ray.tasks._mnist_series import network as _series
from nalu_ray.tasks._mnist_series.network import SeriesNetwork, SeriesSetting
from nalu_ray.tasks._mnist_series.tables import RULE
from nalu_ray.training.metrics import mean_absolute_error, mean_over_examples
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedTask

EXAMPLE = 20  # images of a series that is shown


class SeriesTask(SupervisedTask[SeriesSetting]):
    """Section 4.2: something of a series of MNIST images.

    Attributes:
        outputs: numbers in an answer.
        names: what they are called where an example is drawn.
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
        """Returns the answers to series of labels, (..., T) to (..., outputs)."""

    @abstractmethod
    def recognised(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Whether single images are recognised by the answers, (..., outputs) twice to (...)."""

    def prepare(self) -> None:
        mnist.fetch()

    def build(self, setting: SeriesSetting) -> nn.Module:
        return SeriesNetwork(setting, self.outputs)

    def sample(self, setting: SeriesSetting, split: str, streams: Streams) -> Batch:
        return _series.draw(setting, split, streams, self.target)

    def example(self, setting: SeriesSetting, streams: Streams) -> Batch:
        """Blank images, where those of :meth:`sample` are to be fetched first."""
        seeds, shape = len(streams), (setting.batch, setting.length)
        targets = self.target(torch.zeros(seeds, *shape, dtype=torch.int64)).float()
        if setting.pool is None:
            return Batch((torch.zeros(seeds, *shape, 28, 28, dtype=torch.uint8),), targets)
        images = torch.zeros(seeds, setting.pool, 28, 28, dtype=torch.uint8)
        return Batch((images, torch.zeros(seeds, *shape, dtype=torch.int64)), targets)

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
        return _series.evaluate(network, setting, split, batch)

    def metrics(
        self, setting: SeriesSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Errors, and the share of answers that are right once rounded; of the test by length."""
        if split != "test":
            return _series.errors(prediction, target)
        parts = _series.by_length(prediction, target)
        figures = {"accuracy": mean_over_examples(self.recognised(*parts[1]).float())}
        for length, pair in parts.items():
            figures |= {f"{name}_{length}": value for name, value in _series.errors(*pair).items()}
        return figures

    def curves(
        self, setting: SeriesSetting, split: str, batch: Batch, prediction: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        if split != "test":
            return {}
        parts = _series.by_length(prediction, batch.targets)
        errors = torch.stack([mean_absolute_error(*pair) for pair in parts.values()], 1)
        return {"absolute_error": (torch.tensor(list(parts), dtype=errors.dtype), errors)}

    def examples(
        self, setting: SeriesSetting, weights: dict[str, Tensor], seed: int, count: int
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Returns series of test images, what a trained network says after each, and the truth.

        Of each (T, 28, 28), (T, outputs) and (T, outputs).
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
        return _series.memory(setting, seeds)
