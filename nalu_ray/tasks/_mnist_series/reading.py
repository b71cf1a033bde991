"""Evaluation of networks that read series of images: embed each image once, read in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from nalu_ray.training.replicas import Replicas

PIECE = 100  # steps of a long series that are read at a time
CHUNK = 1000  # images that are embedded at a time


def embed(network: Replicas, images: Tensor, device: torch.device) -> Tensor:
    """Returns the convnet's features of images, (images, 28, 28) to (R, images, features)."""
    chunks = images.split(CHUNK)
    parts = [network.part("convnet", chunk[None].to(device), shared=True) for chunk in chunks]
    return torch.cat(parts, 1)


def read(network: Replicas, features: Tensor, index: Tensor, lengths: Sequence[int]) -> Tensor:
    """Reads series of embedded images.

    Args:
        network: its part ``reader`` maps features, (batch, steps, features), and a state to the
            last answer, (batch, outputs), and the next state.
        features: (R, images, features).
        index: (R, N, T), the image at each position of each series.
        lengths: rising numbers of images, at most T.

    Returns:
        The answers after so many images, (R, N, lengths, outputs).
    """
    seeds = torch.arange(len(features), device=features.device)[:, None, None]
    state: Sequence[Tensor] = ()
    answers = []
    for start, end in pairwise([0, *lengths]):
        for piece in index[:, :, start:end].split(PIECE, 2):
            answer, state = network.part("reader", features[seeds, piece], *state)
        answers.append(answer)
    return torch.stack(answers, 2)
