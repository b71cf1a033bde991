"""The small convolutional network of PyTorch's MNIST example, as it was in 2018."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

Features = Literal["logits", "softmax", "log_softmax", "hidden"]
FEATURES: tuple[Features, ...] = get_args(Features)
SIDE = 28
MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's training pixels in [0, 1]
HIDDEN, CLASSES = 50, 10


def normalised(images: Tensor) -> Tensor:
    """Pixels of MNIST, (batch, 28, 28) of 0 to 255, as (batch, 1, 28, 28) of mean 0, deviation 1.

    Mean and deviation are those of the training pixels, rounded as in PyTorch's example.
    """
    return ((images.float() / 255 - MEAN) / DEVIATION).unsqueeze(1)


def channels_last(weight: Tensor) -> Tensor:
    """A convolution's weight, (out, in, height, width), in a layout that torch takes for this one.

    torch reads the layout of a single channel, whose stride says nothing, from that stride.
    """
    if weight.shape[1] == 1:
        return weight.squeeze(1).unsqueeze(-1).movedim(-1, 1)
    return weight.movedim(1, -1).contiguous().movedim(-1, 1)


class Conv2d(nn.Conv2d):
    """torch's layer, on a CPU with its channels last in memory (docs/performance.md)."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) to the same of the output."""
        weight = self.weight
        if weight.device.type == "cpu":
            weight = channels_last(weight)
        result: Tensor = self._conv_forward(x, weight, self.bias)
        return result


class DigitConvnet(nn.Module):
    """Images of digits to features.

    The network that Trask et al. (2018), appendix C, name: pytorch/examples, ``mnist/main.py`` of
    2018-05: convolutions to 10 and 20 channels (5 x 5), each max-pooled by 2 and rectified, then
    320-50-10. Its dropout is left out: on counts and sums it biases what is learned
    (docs/mnist.md).

    Args:
        features: the output: the 10 ``logits``, their ``softmax`` or ``log_softmax``, or the
            ``hidden`` layer of 50 rectified units.

    Raises:
        ValueError: if the features are unknown.
    """

    def __init__(self, features: Features = "logits") -> None:
        super().__init__()
        if features not in FEATURES:
            raise ValueError(f"features must be one of {', '.join(FEATURES)}, got {features!r}")
        self.features = features
        self.out_features = HIDDEN if features == "hidden" else CLASSES
        self.first = Conv2d(1, 10, 5)
        self.second = Conv2d(10, 20, 5)
        self.inner = nn.Linear(320, HIDDEN)
        self.outer = None if features == "hidden" else nn.Linear(HIDDEN, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 28, 28) of 0 to 255 to (batch, out_features)."""
        x = torch.relu(max_pool2d(self.first(normalised(images)), 2))
        x = torch.relu(max_pool2d(self.second(x), 2))
        hidden = torch.relu(self.inner(x.flatten(1)))
        if self.outer is None:
            return hidden
        logits: Tensor = self.outer(hidden)
        if self.features == "softmax":
            return logits.softmax(-1)
        return logits.log_softmax(-1) if self.features == "log_softmax" else logits
