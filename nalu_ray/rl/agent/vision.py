"""The part of the network that sees the picture of the world."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class Vision(nn.Module):
    """Convolution with a field of one cell, ReLU, a linear layer, ReLU.

    A world has few pictures (600 with five by five cells), and a picture has few distinct cells. If
    pictures are given by number, each is computed once per batch, and each distinct cell once: the
    same arithmetic as on pixels, without the repetitions.

    Args:
        frames: (F, P, P, 3) uint8, every picture of the world.
        cell_pixels: width of a cell; the convolution's kernel and stride.
        channels: output channels of the convolution.
        features: size of the output.

    Raises:
        ValueError: if the width of the pictures is not a multiple of cell_pixels.
    """

    cells: Tensor
    kinds: Tensor

    def __init__(
        self, frames: NDArray[np.uint8], cell_pixels: int, channels: int, features: int
    ) -> None:
        super().__init__()
        width, remainder = divmod(frames.shape[1], cell_pixels)
        if remainder:
            raise ValueError(
                f"{frames.shape[1]} pixels are not a multiple of cell_pixels={cell_pixels}"
            )
        self.features = features
        self.conv = nn.Conv2d(3, channels, cell_pixels, stride=cell_pixels)
        self.linear = nn.Linear(channels * width * width, features)
        nn.init.orthogonal_(self.linear.weight, gain=2**0.5)
        nn.init.zeros_(self.linear.bias)
        cells, kinds = _distinct_cells(frames, cell_pixels, width)
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("kinds", kinds, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(..., P, P, 3) uint8 to (..., features)."""
        images = pixels.reshape(-1, *pixels.shape[-3:]).movedim(-1, -3).float() / 255
        activations = torch.relu(self.conv(images)).movedim(-3, -1).flatten(1)
        return torch.relu(self.linear(activations)).reshape(*pixels.shape[:-3], -1)

    def table(self, frames: Tensor | None = None) -> Tensor:
        """(B,) numbers of pictures to (B, features); all pictures if no numbers are given."""
        kinds = self.kinds if frames is None else self.kinds[frames]
        filters = self.conv.weight.flatten(1)
        per_cell = torch.relu(nn.functional.linear(self.cells, filters, self.conv.bias))
        features: Tensor = torch.relu(self.linear(per_cell[kinds].flatten(1)))
        return features

    def numbered(self, frames: Tensor) -> Tensor:
        """(...) numbers of pictures to (..., features), each picture computed once."""
        distinct, index = torch.unique(frames, return_inverse=True)
        return self.table(distinct)[index]


def _distinct_cells(
    frames: NDArray[np.uint8], cell_pixels: int, width: int
) -> tuple[Tensor, Tensor]:
    """Finds the kinds of cells, and what each picture is made of.

    Returns:
        The distinct cells as the convolution sees them, (K, 3 cell²), and their numbers in each
        picture, (F, width²).
    """
    count = len(frames)
    tiles = frames.reshape(count, width, cell_pixels, width, cell_pixels, 3)
    tiles = tiles.transpose(0, 1, 3, 5, 2, 4).reshape(count * width * width, -1)
    # whole cells as one value each: 60 times as fast as np.unique(axis=0), which compares by fields
    whole_cells = np.ascontiguousarray(tiles).view(f"V{tiles.shape[1]}")[:, 0]
    distinct, kinds = np.unique(whole_cells, return_inverse=True)
    pixels = distinct.view(np.uint8).reshape(len(distinct), -1)
    cells = torch.from_numpy(pixels.astype(np.float32) / 255)
    return cells, torch.from_numpy(kinds.reshape(count, width * width))
