"""Settings and network that MNIST counting and addition share."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.training.fields import (
    CellName,
    CellOptions,
    GateInit,
    MemoryInit,
    SupervisedSetting,
    WeightInit,
)

TEST_IMAGES = 10_000
# A linear layer on top would add a bias only, which can stand for the length of training.
LINEAR_CELLS = ("sum",)


class ReaderSetting(SupervisedSetting):
    """Fields of every network that reads a series of images with a recurrent cell."""

    layer: CellName = Field("nac", description="recurrent cell by name, or any unit (Table 2)")
    hidden: int = Field(
        32,
        ge=1,
        description="hidden units; units such as NAC have one per output instead",
    )
    length: int = Field(10, ge=1, description="digits of a series in training (section 4.2)")
    batch: int = Field(64, ge=1, description="series per step, drawn anew at each step")
    pool: int | None = Field(
        None,
        ge=1,
        description="distinct images per step, from which all its series are made (faster: the "
        "convnet reads each image once); none = a new image at each position",
    )
    test_images: int = Field(
        TEST_IMAGES,
        ge=1,
        le=TEST_IMAGES,
        description="images that evaluation uses, counted from the first; fewer for a quick look",
    )
    weight_init: WeightInit = "uniform"
    gate_init: GateInit = "glorot"
    memory_init: MemoryInit = None
    options: CellOptions = Field({})

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get_cell(self.layer),)

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.answers():
            idle["hidden"] = f"layer={self.layer} has one unit per output"
        return idle

    def answers(self) -> bool:
        """Returns whether the cell has one output per answer, and so needs no further layer."""
        return self.layer in layers.names() or self.layer in LINEAR_CELLS

    def cell(self, features: int, outputs: int) -> layers.Cell:
        """Builds the cell over features for a number of outputs."""
        cell_options = layers.get_cell(self.layer).options
        options = self.layer_options(cell_options) | self.options
        size = outputs if self.answers() else self.hidden
        return layers.build_cell(self.layer, features, size, **options)

    @model_validator(mode="after")
    def _independent(self) -> ReaderSetting:
        if self.shared_inputs:
            raise ValueError("shared_inputs must be false: seeds draw their own series here")
        return self


class SeriesSetting(ReaderSetting):
    """One recurrent network over one convnet."""

    features: layers.Features = Field(
        "logits", description="tensor of the convnet that the cell reads; the paper does not say"
    )


class ImageReader(nn.Module):
    """A convnet and a recurrent reader of its features, trained end to end.

    Args:
        setting: of the reader.
        convnet: maps (images, 28, 28) of 0 to 255 to (images, features).
        features: width of its output.
        outputs: numbers in an answer.
    """

    def __init__(
        self, setting: ReaderSetting, convnet: nn.Module, features: int, outputs: int
    ) -> None:
        super().__init__()
        self.convnet = convnet
        self.reader = Reader(setting, features, outputs)

    def after_each(self, images: Tensor, index: Tensor | None = None) -> Tensor:
        """Returns the answer after each image, (batch, steps, outputs)."""
        answers: Tensor = self.reader.after_each(self._features(images, index))
        return answers

    def _features(self, images: Tensor, index: Tensor | None) -> Tensor:
        """Returns the features of series, (batch, steps, features).

        Args:
            images: (batch, steps, 28, 28), or (pool, 28, 28) with an index.
            index: (batch, steps), the image of the pool at each position.
        """
        if index is not None:
            pooled: Tensor = self.convnet(images)[index]
            return pooled
        flat: Tensor = self.convnet(images.flatten(0, 1))
        features: Tensor = flat.unflatten(0, images.shape[:2])
        return features


class SeriesNetwork(ImageReader):
    """Maps series of images to the answer after the last."""

    def __init__(self, setting: SeriesSetting, outputs: int) -> None:
        convnet = layers.DigitConvnet(setting.features)
        super().__init__(setting, convnet, convnet.out_features, outputs)

    def forward(self, images: Tensor, index: Tensor | None = None) -> Tensor:
        """Returns the answers, (batch, outputs), to series of images of 0 to 255.

        Args:
            images: (batch, steps, 28, 28), or (pool, 28, 28) with an index.
            index: (batch, steps), the image of the pool at each position.
        """
        prediction: Tensor = self.reader(self._features(images, index))[0]
        return prediction


class Reader(nn.Module):
    """A cell over features; a unit answers by itself, other cells through an affine layer."""

    def __init__(self, setting: ReaderSetting, features: int, outputs: int) -> None:
        super().__init__()
        self.cell = setting.cell(features, outputs)
        linear = None if setting.answers() else layers.Linear(self.cell.out_features, outputs)
        self.read = linear or nn.Identity()

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, layers.State]:
        """Maps (batch, steps, features) and an optional state to the answer and the next state."""
        outputs, after = self.cell(x, state or None)
        return self.read(layers.last(outputs)), after

    def after_each(self, x: Tensor) -> Tensor:
        """Returns the answer after each step, (batch, steps, outputs)."""
        answers: Tensor = self.read(self.cell(x)[0])
        return answers
