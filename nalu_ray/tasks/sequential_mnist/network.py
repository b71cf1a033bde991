"""Settings and network of the sequential MNIST task."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.errors import raise_interruption
from nalu_ray.input.values import Named
from nalu_ray.tasks._mnist_series.network import ImageReader, ReaderSetting
from nalu_ray.training import footprint, members
from nalu_ray.training.fields import known
from nalu_ray.training.penalty_terms import parse

Accumulation = Literal["sum", "product"]
RZ = "inputs"  # the units' name of the penalty R_z
EXACT = "exact"  # the reference: the true accumulator over a convnet that is learned


@functools.cache
def _built(name: str) -> layers.Cell | None:
    """Returns a cell without memory that reads one number per step; None if there is none."""
    try:
        return footprint.without_memory(lambda: layers.build_cell(name, 1, 1))
    except MemoryError:
        raise
    except Exception as error:  # whatever another package's unit raises
        raise_interruption(error)
        return None


def _cells() -> list[str]:
    return [EXACT, *(name for name in layers.cell_names() if _built(name))]


def _known(name: str) -> str:
    known("cell", name, [EXACT, *layers.cell_names()], "cell")
    if name != EXACT and _built(name) is None:
        raise ValueError(f"{name} cannot read one number per step, as a digit is here")
    return name


def _penalises_inputs(name: str) -> bool:
    """Whether a cell, as it is built, has units with the penalty R_z."""
    cell = None if name == EXACT else _built(name)
    return cell is not None and any(named.get(RZ) for named in members.offered(cell).values())


class SequentialSetting(ReaderSetting):
    """One recurrent network over one convnet that gives a number per image."""

    layer: Annotated[str, AfterValidator(_known), Named(_cells)] = Field(
        "nau",
        description="recurrent cell by name, any unit, or exact: the true sum or product, which is "
        "the reference",
    )
    op: Accumulation = Field("sum", description="sum of digits 0 to 9, or product of digits 1 to 9")
    length: int = Field(
        10, ge=1, description="digits of a series in training; a product has 2 if none is given"
    )
    rz: bool = Field(
        False, description="add R_z, the unit's penalty `inputs`, to the loss with weight 1"
    )
    test_series: int = Field(1000, ge=1, description="series of the test set beside single digits")

    def built(self) -> Sequence[layers.LayerEntry]:
        return () if self.layer == EXACT else super().built()

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if not _penalises_inputs(self.layer):
            idle["rz"] = f"layer={self.layer} has no penalty {RZ}"
        return idle

    def answers(self) -> bool:
        return self.layer == EXACT or super().answers()

    def cell(self, features: int, outputs: int) -> layers.Cell:
        return TrueAccumulator(self.op) if self.layer == EXACT else super().cell(features, outputs)

    @model_validator(mode="before")
    @classmethod
    def _short_products(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("op") == "product":
            return {"length": 2, **values}
        return values

    @model_validator(mode="after")
    def _penalised(self) -> SequentialSetting:
        """Adds R_z to the penalties, so that ``penalty`` has every term of the loss."""
        terms = parse(self.penalty or "")
        if any(term.name == RZ for term in terms) == self.rz:
            return self
        if not self.rz and not _penalises_inputs(self.layer):
            return self  # building the network says that there is no such penalty
        if not self.rz:
            raise ValueError(f"rz must be true: penalty={self.penalty} has {RZ}, which is R_z")
        every = ";".join(part for part in (self.penalty, f"{RZ}:1") if part)
        object.__setattr__(self, "penalty", every)
        return self

    @model_validator(mode="after")
    def _without_options(self) -> SequentialSetting:
        if self.options and self.layer == EXACT:
            raise ValueError("options must be empty: layer=exact takes none")
        return self


class TrueAccumulator(layers.Cell):
    """h_t = h_{t-1} + x_t from 0, or h_t = h_{t-1} x_t from 1, of one number per step."""

    def __init__(self, op: Accumulation) -> None:
        super().__init__()
        self.op = op
        self.in_features = self.out_features = 1

    def initial(self, batch: int, like: Tensor) -> layers.State:
        return (like.new_full((batch, 1), 0.0 if self.op == "sum" else 1.0),)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Does nothing: there is no parameter."""

    def _step(
        self, projected: Tensor, state: layers.State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, layers.State]:
        h = state[0] + projected if self.op == "sum" else state[0] * projected
        return h, (h,)


class SequentialNetwork(ImageReader):
    """Maps series of images to the answers after every image."""

    def __init__(self, setting: SequentialSetting) -> None:
        super().__init__(setting, DigitNumber(), 1, 1)

    def forward(self, images: Tensor, index: Tensor | None = None) -> Tensor:
        """Returns the answers, (batch, steps, 1), to series of images of 0 to 255.

        Args:
            images: (batch, steps, 28, 28), or (pool, 28, 28) with an index.
            index: (batch, steps), the image of the pool at each position.
        """
        return self.after_each(images, index)


class DigitNumber(nn.Module):
    """Images of digits, (batch, 28, 28) of 0 to 255, to one number each, (batch, 1).

    The network of Madsen and Johansen (2020): convolutions to 20 and 50 channels (5 x 5), each
    max-pooled by 2, then 800-500-1 with a rectified hidden layer. No softmax: the number is what
    the accumulator reads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            layers.Conv2d(1, 20, 5),
            nn.MaxPool2d(2),
            layers.Conv2d(20, 50, 5),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(800, 500),
            nn.ReLU(),
            nn.Linear(500, 1),
        )

    def forward(self, images: Tensor) -> Tensor:
        number: Tensor = self.layers(layers.normalised(images))
        return number
