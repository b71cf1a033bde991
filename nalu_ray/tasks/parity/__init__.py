"""Counting the even digits of an image (section 4.6): an ablation of the last layer.

An image of 100 x 100 holds 0 to 5 MNIST digits, and a convnet says how many of them are even. The
layer before its softmax goes, step by step, from an affine layer to a NAC (Table 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.data import mnist
from nalu_ray.results.specs import Axis, Measure, Selection, TableSpec, learning_figure
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.parity import data
from nalu_ray.tasks.parity.network import ParityNetwork, ParitySetting
from nalu_ray.training.metrics import mean_over_examples
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedTask

LAYERS = Axis(
    field="last",
    labels={
        "segui_affine": "Wx + b (Segui et al.)",
        "affine": "Wx + b",
        "sigmoid_bias": "σ(W)x + b",
        "tanh_bias": "tanh(W)x + b",
        "linear": "Wx",
        "sigmoid": "σ(W)x",
        "tanh": "tanh(W)x",
        "nac": "NAC",
    },
)
RULE = Selection(metric="error", split="validation")
PROBLEM = ("network", "min_distance")
CHUNK = 500  # images of an evaluation set that the network reads at a time


class ParityTask(SupervisedTask[ParitySetting]):
    """Section 4.6: MNIST parity prediction."""

    name = "parity"
    title = "MNIST parity ablation"
    section = "4.6"
    setting_type = ParitySetting
    axes = ("last",)
    unit_labels: ClassVar[Mapping[str, str]] = {"last": "{}"}
    splits: ClassVar[tuple[str, ...]] = ("validation", "test")
    stop_metric: ClassVar[str] = "cross_entropy"  # the first is the accuracy
    tables = (
        TableSpec(
            name="parity",
            number=4,
            caption="MNIST parity: test accuracy (%) by the layer before the softmax, median over "
            "seeds, on {test_size} images whose digits are at least {min_distance} pixels apart.",
            rows=LAYERS,
            measures={
                "accuracy": Measure(
                    metric="accuracy",
                    split="test",
                    label="accuracy",
                    statistic="median",
                    scale=100,
                    better="higher",
                    worst=0.0,
                )
            },
            layout="columns",
            selection=RULE,
            paired_with="nac",
            problem=PROBLEM,
        ),
    )
    figures = (
        learning_figure(
            name="parity_learning",
            caption="Test accuracy during training; digits at least {min_distance} pixels apart.",
            metric="accuracy",
            split="test",
            lines=LAYERS,
            selection=RULE,
            log_y=False,
            statistic="mean",
            y_label="accuracy",
            problem=PROBLEM,
        ),
    )

    def prepare(self) -> None:
        mnist.fetch()

    def build(self, setting: ParitySetting) -> nn.Module:
        return ParityNetwork(setting)

    def sample(self, setting: ParitySetting, split: str, streams: Streams) -> Batch:
        """Draws images of the split's own digits: no digit is in two splits."""
        sizes = {"train": setting.batch, "test": setting.test_size}
        count = sizes.get(split, max(1, setting.test_size // 2))
        scenes = data.draw(streams, count, mnist.part(split), setting.min_distance)
        return Batch((scenes.images,), scenes.even)

    def example(self, setting: ParitySetting, streams: Streams) -> Batch:
        """Returns blank images, as the real ones may not have been downloaded yet."""
        shape = len(streams), setting.batch
        images = torch.zeros(*shape, 100, 100, dtype=torch.uint8)
        return Batch((images,), torch.zeros(shape, dtype=torch.int64))

    def predict(
        self,
        network: Replicas,
        setting: ParitySetting,
        split: str,
        batch: Batch,
        streams: Streams,
    ) -> Tensor:
        """Returns logits, (R, N, 6), computed in chunks of images."""
        (images,) = batch.inputs
        return torch.cat([network(chunk) for chunk in images.split(CHUNK, 1)], 1)

    def loss(self, setting: ParitySetting, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns each seed's cross-entropy, (R, N, 6) x (R, N) -> (R,)."""
        return _cross_entropy(prediction, target).mean(1)

    def metrics(
        self, setting: ParitySetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        right = mean_over_examples((prediction.argmax(-1) == target).float())
        entropy = mean_over_examples(_cross_entropy(prediction, target))
        return {"accuracy": right, "error": 1 - right, "cross_entropy": entropy}

    def memory(self, setting: ParitySetting, seeds: int) -> int:
        """Counts the evaluation sets, and the activations of each training image."""
        wide = {"reproduction": 120_000, "wide": 350_000}[setting.network]
        images = max(2 * setting.batch, CHUNK)
        return seeds * (2 * setting.test_size * 100 * 100 + 4 * images * wide)


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Maps (R, N, classes) and (R, N) to (R, N)."""
    return nn.functional.cross_entropy(logits.movedim(-1, 1), target, reduction="none")


TASK = ParityTask()
