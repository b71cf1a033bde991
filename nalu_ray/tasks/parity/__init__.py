"""How many digits of an image are even (section 4.6): an ablation of the last layer.

An image of 100 x 100 holds 0 to 5 MNIST digits; a convnet says how many of them are even. What
stands before its softmax goes, step by step, from an affine layer to a NAC (Table 4).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.data import mnist
from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.parity.network import ParityNetwork, ParitySetting, draw
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
CHUNK = 500  # images of an evaluation set that are looked at at once


class ParityTask(SupervisedTask[ParitySetting]):
    """Section 4.6: MNIST parity prediction."""

    name = "parity"
    title = "MNIST parity ablation"
    section = "4.6"
    setting_type = ParitySetting
    axes = ("last",)
    splits: ClassVar[tuple[str, ...]] = ("validation", "test")
    tables = (
        TableSpec(
            name="parity",
            number=4,
            caption="MNIST parity: percent of {test_size} test images whose even digits are "
            "counted right, by the layer before the softmax; the median over seeds. Digits are at "
            "least {min_distance} pixels apart.",
            rows=LAYERS,
            measures={
                "accuracy": Measure(
                    metric="accuracy",
                    split="test",
                    label="accuracy",
                    statistic="median",
                    scale=100,
                    better="higher",
                )
            },
            layout="columns",
            selection=RULE,
            paired_with="nac",
            problem=PROBLEM,
        ),
    )
    figures = (
        FigureSpec(
            name="parity_learning",
            caption="Test accuracy while training; digits at least {min_distance} pixels apart.",
            metric="accuracy",
            split="test",
            x="step",
            lines=LAYERS,
            selection=RULE,
            x_label="training step",
            y_label="accuracy",
            problem=PROBLEM,
        ),
    )

    def prepare(self) -> None:
        mnist.fetch()

    def build(self, setting: ParitySetting) -> nn.Module:
        return ParityNetwork(setting)

    def sample(self, setting: ParitySetting, split: str, streams: Streams) -> Batch:
        return draw(setting, split, streams)

    def example(self, setting: ParitySetting, streams: Streams) -> Batch:
        """Blank images, where those of :meth:`sample` are to be fetched first."""
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
        """Logits, (R, N, 6); of an evaluation set some images at a time."""
        (images,) = batch.inputs
        return torch.cat([network(chunk) for chunk in images.split(CHUNK, 1)], 1)

    def loss(self, setting: ParitySetting, prediction: Tensor, target: Tensor) -> Tensor:
        """Each seed's cross-entropy, (R, N, 6) x (R, N) -> (R,)."""
        return _cross_entropy(prediction, target).mean(1)

    def metrics(
        self, setting: ParitySetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        right = mean_over_examples((prediction.argmax(-1) == target).float())
        entropy = mean_over_examples(_cross_entropy(prediction, target))
        return {"accuracy": right, "error": 1 - right, "cross_entropy": entropy}

    def memory(self, setting: ParitySetting, seeds: int) -> int:
        """The evaluation sets, and what the backward pass keeps of each training image."""
        wide = {"reproduction": 120_000, "wide": 350_000}[setting.network]
        images = max(2 * setting.batch, CHUNK)
        return seeds * (2 * setting.test_size * 100 * 100 + 4 * images * wide)


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """(R, N, classes) and (R, N) to (R, N)."""
    return nn.functional.cross_entropy(logits.movedim(-1, 1), target, reduction="none")


TASK = ParityTask()
