"""Settings, network, sets and scores that MNIST counting and addition share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.data import mnist
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.training.fields import (
    CellName,
    CellOptions,
    GateInit,
    MemoryInit,
    SupervisedSetting,
    WeightInit,
    starts,
)
from nalu_ray.training.metrics import (
    mean_absolute_error,
    mean_over_examples,
    mean_squared_error,
)
from nalu_ray.training.replicas import Replicas

# test series of each length; of length 1 there is one for each image
TEST_SERIES = {10: 1000, 100: 500, 1000: 200}
LENGTHS = (1, *TEST_SERIES)
VALIDATION_SERIES = 500
TEST_IMAGES = 10_000
PIECE = 100  # steps of long series that are read at a time
CHUNK = 1000  # images that are embedded at a time
ACTIVATIONS = 32_000  # numbers that the convnet makes of an image

Target = Callable[[Tensor], Tensor]


class SeriesSetting(SupervisedSetting):
    """One recurrent network over one convnet."""

    layer: CellName = Field("nac", description="recurrent cell by name, or any unit (Table 2)")
    hidden: int = Field(
        32,
        ge=1,
        description="hidden units; a unit such as NAC has one for each output, which it is",
    )
    features: layers.Features = Field(
        "logits", description="tensor of the convnet that the cell reads; the paper leaves it open"
    )
    length: int = Field(10, ge=1, description="digits of a series in training (section 4.2)")
    batch: int = Field(64, ge=1, description="series a step, fresh each step")
    pool: int | None = Field(
        None,
        ge=1,
        description="images a step, of which all its series are made: the convnet then sees each "
        "once, however many series it is in; none = each place of a series has an image of its own",
    )
    test_images: int = Field(
        TEST_IMAGES,
        ge=1,
        le=TEST_IMAGES,
        description="evaluation uses the first so many images; fewer for a quick look",
    )
    weight_init: WeightInit = "uniform"
    gate_init: GateInit = "glorot"
    memory_init: MemoryInit = None
    options: CellOptions = Field({})

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get_cell(self.layer),)

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.layer in layers.names():
            idle["hidden"] = f"{self.layer} has one unit for each output"
        return idle

    @model_validator(mode="after")
    def _independent(self) -> SeriesSetting:
        if self.shared_inputs:
            raise ValueError("shared_inputs: seeds draw series of their own here")
        return self


class SeriesNetwork(nn.Module):
    """A convnet and what reads its features, trained end to end."""

    def __init__(self, setting: SeriesSetting, outputs: int) -> None:
        super().__init__()
        self.convnet = layers.DigitConvnet(setting.features)
        self.reader = Reader(setting, self.convnet.out_features, outputs)

    def forward(self, images: Tensor, index: Tensor | None = None) -> Tensor:
        """Images of 0 to 255 to (batch, outputs).

        Args:
            images: (batch, steps, 28, 28); with an index (pool, 28, 28).
            index: (batch, steps), which image of the pool is where.
        """
        features = self._features(images) if index is None else self.convnet(images)[index]
        prediction: Tensor = self.reader(features)[0]
        return prediction

    def after_each(self, images: Tensor) -> Tensor:
        """As :meth:`forward`, the answer after each image, (batch, steps, outputs)."""
        answers: Tensor = self.reader.after_each(self._features(images))
        return answers

    def _features(self, images: Tensor) -> Tensor:
        flat: Tensor = self.convnet(images.flatten(0, 1))
        features: Tensor = flat.unflatten(0, images.shape[:2])
        return features


class Reader(nn.Module):
    """A cell over features; a unit's last output is the answer, of others a layer reads it."""

    def __init__(self, setting: SeriesSetting, features: int, outputs: int) -> None:
        super().__init__()
        is_unit = setting.layer in layers.names()
        known = layers.get_cell(setting.layer).options
        options = starts(known, setting.weight_init, setting.gate_init, setting.memory_init)
        size = outputs if is_unit else setting.hidden
        self.cell = layers.build_cell(setting.layer, features, size, **options | setting.options)
        self.read = nn.Identity() if is_unit else layers.Linear(self.cell.out_features, outputs)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, layers.State]:
        """(batch, steps, features) and the state before, if any, to the answer and the state."""
        outputs, after = self.cell(x, state or None)
        return self.read(layers.last(outputs)), after

    def after_each(self, x: Tensor) -> Tensor:
        """As :meth:`forward`, the answer after each step, (batch, steps, outputs)."""
        answers: Tensor = self.read(self.cell(x)[0])
        return answers


def draw(setting: SeriesSetting, split: str, streams: Streams, target: Target) -> Batch:
    """Draws training series as images, (R, N, T, 28, 28); of an evaluation set, which images.

    With a pool, training series are its images, (R, P, 28, 28), and the place in it of each image
    of a series, (R, N, T).

    Args:
        setting, split, streams: of :meth:`SupervisedTask.sample`.
        target: labels of series, (R, N, T), to their targets, (R, N, outputs).
    """
    digits = mnist.part(split)
    if split == "train":
        shape = setting.batch, setting.length
        drawn = (setting.pool,) if setting.pool else shape
        images = torch.from_numpy(streams.integers(drawn, 0, len(digits.labels)))
        if setting.pool is None:
            return Batch((digits.images[images],), target(digits.labels[images]))
        index = torch.from_numpy(streams.integers(shape, 0, setting.pool))
        chosen = images.gather(1, index.flatten(1)).view_as(index)
        return Batch((digits.images[images], index), target(digits.labels[chosen]))
    indices = _evaluation(setting, split, streams)
    targets = [target(digits.labels[index]) for index in indices]
    return Batch(tuple(indices), torch.cat(targets, 1))


def _evaluation(setting: SeriesSetting, split: str, streams: Streams) -> list[Tensor]:
    """Images of each evaluation series, (R, N, T) for each T, counted from the first of the set."""
    count = len(_images(setting, split))
    if split != "test":
        shape = VALIDATION_SERIES, setting.length
        return [torch.from_numpy(streams.integers(shape, 0, count))]
    each_once = torch.arange(count)[None, :, None].expand(len(streams), -1, -1)
    shapes = [(series, length) for length, series in TEST_SERIES.items()]
    return [each_once, *(torch.from_numpy(streams.integers(s, 0, count)) for s in shapes)]


def _images(setting: SeriesSetting, split: str) -> Tensor:
    """Images of an evaluation set, as many as are used."""
    return mnist.part(split).images[: setting.test_images]


def evaluate(network: Replicas, setting: SeriesSetting, split: str, batch: Batch) -> Tensor:
    """Answers of an evaluation set, (R, all its series, outputs).

    Each image is embedded once, however often it occurs in the series.
    """
    device = batch.targets.device
    features = torch.cat(
        [
            network.part("convnet", chunk[None].to(device), shared=True)
            for chunk in _images(setting, split).split(CHUNK)
        ],
        1,
    )
    return torch.cat([_read(network, features, index) for index in batch.inputs], 1)


def _read(network: Replicas, features: Tensor, index: Tensor) -> Tensor:
    """Reads series of features, (R, images, F), by their images, (R, N, T), in pieces of time."""
    seeds = torch.arange(len(features), device=features.device)[:, None, None]
    state: Sequence[Tensor] = ()
    for piece in index.split(PIECE, 2):
        answer, state = network.part("reader", features[seeds, piece], *state)
    last: Tensor = answer
    return last


def by_length(prediction: Tensor, target: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
    """Takes a test set's predictions and targets, (R, N, outputs), apart by length of series."""
    singles = target.shape[1] - sum(TEST_SERIES.values())
    sizes = [singles, *TEST_SERIES.values()]
    pairs = zip(prediction.split(sizes, 1), target.split(sizes, 1), strict=True)
    return dict(zip(LENGTHS, pairs, strict=True))


def errors(prediction: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Figures of answers, (R, N, outputs) twice; exact where all are right once rounded."""
    exact = (prediction.round() == target).all(-1)
    return {
        "mae": mean_absolute_error(prediction, target),
        "mse": mean_squared_error(prediction, target),
        "exact": mean_over_examples(exact.float()),
    }


def memory(setting: SeriesSetting, seeds: int) -> int:
    """What the backward pass keeps of each training image, or a chunk of evaluation."""
    images = max(2 * (setting.pool or setting.batch * setting.length), CHUNK)
    cells = 12 * max(setting.hidden, 10) * setting.test_images
    features = 10 * TEST_IMAGES
    return 4 * seeds * (images * ACTIVATIONS + cells + features) + 10 * images * 784
