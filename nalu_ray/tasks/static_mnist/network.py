"""Settings and network of the static MNIST task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from nalu_ray import layers
from nalu_ray.input.values import Named
from nalu_ray.training.fields import Options, SupervisedSetting, known

PairOperation = Literal["mul", "div"]
EXACT = "exact"  # the reference: the true operation over a convnet that is learned
FOLDS = 10
DROPOUT = (0.25, 0.5)  # of the pooled features, and of the layer of 128
DROPPED = (64 * 12 * 12, 128)  # numbers per image that they drop from


def _layers() -> list[str]:
    return [EXACT, *layers.names()]


def _known(name: str) -> str:
    return known("layer", name, _layers())


class PairSetting(SupervisedSetting):
    """One network on products or quotients of two digits."""

    layer: Annotated[str, AfterValidator(_known), Named(_layers)] = Field(
        "nmu",
        description="network of the two digits by name, or exact: the true operation, which is the "
        "reference",
    )
    op: PairOperation = Field(
        "mul", description="product, or quotient of digits with divisors 1 to 9"
    )
    fold: int | None = Field(
        None,
        ge=0,
        lt=FOLDS,
        description="tenth of the pairs of digits that training never shows; none = the last digit "
        "of the seed's number, so that ten seeds are ten folds",
    )
    hidden_layers: int = Field(
        0,
        ge=0,
        le=1000,
        description="hidden layers of the network of the digits; a pair of units has 1 if none is "
        "given",
    )
    hidden: int = Field(256, ge=1, description="units of each hidden layer")
    dropout: bool = Field(True, description="drop a quarter and a half of the convnet's features")
    batch: int = Field(128, ge=1, description="pairs per step, drawn anew at each step")
    test_size: int = Field(1000, ge=1, description="pairs of each evaluation set")
    options: Options = Field(
        {}, description="further arguments of the layer, as name:value;name:value"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        return () if self.layer == EXACT else (layers.get(self.layer),)

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.layer == EXACT:
            idle["hidden_layers"] = "layer=exact has no hidden layers"
        if self.layer == EXACT or self.hidden_layers == 0:
            idle["hidden"] = "there is no hidden layer"
        return idle

    @model_validator(mode="before")
    @classmethod
    def _pairs(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("layer") in layers.pair_names():
            return {"hidden_layers": 1, **values}
        return values

    @model_validator(mode="after")
    def _possible(self) -> PairSetting:
        if self.shared_inputs:
            raise ValueError("shared_inputs must be false: seeds draw their own images here")
        if self.options and self.layer == EXACT:
            raise ValueError("options must be empty: layer=exact takes none")
        return self


class PairNetwork(nn.Module):
    """Reads two digits with one convnet, and computes with them."""

    def __init__(self, setting: PairSetting) -> None:
        super().__init__()
        self.convnet = DigitReader()
        options: dict[str, Any] = dict(setting.options)
        shape = (2, setting.hidden, 1, setting.hidden_layers)
        self.compute = (
            TrueOperation(setting.op)
            if setting.layer == EXACT
            else layers.build(setting.layer, *shape, **options)
        )

    def forward(self, images: Tensor, *kept: Tensor) -> Tensor:
        """Maps pairs of images of 0 to 255 to the result and the two digits that it is made of.

        Args:
            images: (batch, 2, 28, 28).
            kept: for training with dropout, whether each feature is kept, (batch, 2, features)
                for each of ``DROPPED``.

        Returns:
            (batch, 3).
        """
        digits = self.convnet(images.flatten(0, 1), *(part.flatten(0, 1) for part in kept))
        digits = digits.unflatten(0, images.shape[:2])
        return torch.cat([self.compute(digits), digits], -1)


class DigitReader(nn.Module):
    """Images of digits to the digit that is expected.

    Convolutions to 32 and 64 channels (3 x 3), rectified and max-pooled by 2, then 9216-128-10 and
    a softmax p, of which the mean digit, sum d p_d, is the output. Dropout is an input: whether
    each feature is kept is drawn with the batch, as stacked seeds share no generator.
    """

    numbers: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = layers.Conv2d(1, 32, 3)
        self.second = layers.Conv2d(32, 64, 3)
        self.inner = nn.Linear(DROPPED[0], DROPPED[1])
        self.outer = nn.Linear(DROPPED[1], 10)
        self.register_buffer("numbers", torch.arange(10.0), persistent=False)

    def forward(self, images: Tensor, *kept: Tensor) -> Tensor:
        """Maps (batch, 28, 28) of 0 to 255, and whether to keep features, to (batch,)."""
        x = torch.relu(self.first(layers.normalised(images)))
        x = max_pool2d(torch.relu(self.second(x)), 2).flatten(1)
        x = _dropped(x, kept, 0)
        x = _dropped(torch.relu(self.inner(x)), kept, 1)
        digit: Tensor = self.outer(x).softmax(-1) @ self.numbers
        return digit


def _dropped(x: Tensor, masks: Sequence[Tensor], index: int) -> Tensor:
    """Sets features that are not kept to 0, and enlarges the others so that the mean stays."""
    return x * masks[index] / (1 - DROPOUT[index]) if masks else x


class TrueOperation(nn.Module):
    """The product or quotient itself, (batch, 2) to (batch, 1)."""

    def __init__(self, op: PairOperation) -> None:
        super().__init__()
        self.op = op

    def forward(self, digits: Tensor) -> Tensor:
        a, b = digits[:, :1], digits[:, 1:]
        return a * b if self.op == "mul" else a / b
