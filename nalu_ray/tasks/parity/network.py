"""Settings and network of the parity task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.input.values import Named
from nalu_ray.tasks.parity.data import FARTHEST, MOST
from nalu_ray.training.fields import Options, SupervisedSetting, known

CLASSES = MOST + 1
FEATURES = 32  # inputs of the last layer
Squash = Callable[[Tensor], Tensor]


class SquashedLinear(nn.Module):
    """squash(W) x + b: the steps from an affine layer to a NAC (Table 4).

    Args:
        in_features, out_features: sizes.
        squash: function of W, elementwise; none leaves W as it is.
        bias: whether to add b.
    """

    def __init__(
        self, in_features: int, out_features: int, *, squash: Squash | None, bias: bool
    ) -> None:
        super().__init__()
        self.squash = squash
        linear = nn.Linear(in_features, out_features, bias=bias)  # torch's initialisation
        self.W, self.bias = linear.weight, linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """Maps (batch, in_features) to (batch, out_features)."""
        weight = self.W if self.squash is None else self.squash(self.W)
        return nn.functional.linear(x, weight, self.bias)


LAST: dict[str, Callable[[int, int], nn.Module]] = {
    "affine": partial(SquashedLinear, squash=None, bias=True),
    "sigmoid_bias": partial(SquashedLinear, squash=torch.sigmoid, bias=True),
    "tanh_bias": partial(SquashedLinear, squash=torch.tanh, bias=True),
    "linear": partial(SquashedLinear, squash=None, bias=False),
    "sigmoid": partial(SquashedLinear, squash=torch.sigmoid, bias=False),
    "tanh": partial(SquashedLinear, squash=torch.tanh, bias=False),
}


def last_layers() -> list[str]:
    """Returns every value of ``last``: the layers of Table 4 and all units."""
    stacks = {name for name in layers.names() if isinstance(_factory(name), layers.Stacked)}
    return [*LAST, *sorted(stacks - {*LAST, *layers.pair_names()})]


def _known(name: str) -> str:
    return known("last layer", name, last_layers(), "last layer")


def _factory(name: str) -> object:
    return layers.get(name).factory


class ParitySetting(SupervisedSetting):
    """One convnet with one last layer."""

    last: Annotated[str, AfterValidator(_known), Named(last_layers)] = Field(
        "nac", description=f"layer before the softmax: {', '.join(LAST)}, or any unit (Table 4)"
    )
    network: Literal["reproduction", "wide"] = Field(
        "reproduction",
        description="convnet below the last layer: that of the public reproduction, or one of wide "
        "filters that could not be verified; the paper does not describe its own",
    )
    min_distance: int = Field(
        14,
        ge=0,
        le=FARTHEST,
        description="smallest distance between centres of digits, in pixels; 14 in the public "
        "generator's code, 28 in its readme",
    )
    batch: int = Field(32, ge=1, description="images per step, drawn anew at each step")
    test_size: int = Field(10_000, ge=1, description="images of the test set; validation has half")
    options: Options = Field(
        {}, description="further arguments of a unit as the last layer, as name:value;name:value"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        return () if self.last in LAST else (layers.get(self.last),)

    @model_validator(mode="after")
    def _possible(self) -> ParitySetting:
        if self.shared_inputs:
            raise ValueError("shared_inputs must be false: seeds draw their own images here")
        if self.options and self.last in LAST:
            raise ValueError(f"options must be empty: last={self.last} takes none")
        return self


class ParityNetwork(nn.Module):
    """Maps images of 0 to 255, (batch, 100, 100), to logits of 0 to 5 even digits, (batch, 6)."""

    def __init__(self, setting: ParitySetting) -> None:
        super().__init__()
        self.convnet = NETWORKS[setting.network]()
        if setting.last in LAST:
            self.last = LAST[setting.last](FEATURES, CLASSES)
        else:
            factory = _factory(setting.last)
            assert isinstance(factory, layers.Stacked)
            self.last = factory.last(FEATURES, CLASSES, **setting.options)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.last(self.convnet(images.float().unsqueeze(1) / 127.5 - 1))
        return logits


def reproduction() -> nn.Module:
    """Builds the convnet of fomorians/counting-mnist (0ecb7b2).

    Its filters are 7 x 7 to 8 channels, 3 x 3 to 16 and 32, 1 x 1 to 1, and 625-32. It is
    initialised as in TensorFlow: uniform weights by Glorot's rule, biases of 0. With torch's
    initialisation the last channel of one seed in six is nowhere above 0 and never learns.
    """
    network = nn.Sequential(
        nn.ZeroPad2d((2, 3, 2, 3)),  # as TensorFlow pads 100 to 50
        layers.Conv2d(1, 8, 7, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        layers.Conv2d(8, 16, 3, dilation=2, padding=2),
        nn.ReLU(),
        layers.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        layers.Conv2d(32, 1, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(25 * 25, FEATURES),
        nn.ReLU(),
    )
    for part in network:
        for name, parameter in part.named_parameters():
            (nn.init.zeros_ if name == "bias" else nn.init.xavier_uniform_)(parameter)
    return network


def wide() -> nn.Module:
    """Builds a convnet of 15 x 15 and 3 x 3 filters, 10 channels each, pooled by 2; unverified."""
    return nn.Sequential(
        layers.Conv2d(1, 10, 15),
        nn.ReLU(),
        nn.MaxPool2d(2),
        layers.Conv2d(10, 10, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(10 * 20 * 20, FEATURES),
        nn.ReLU(),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {"reproduction": reproduction, "wide": wide}
