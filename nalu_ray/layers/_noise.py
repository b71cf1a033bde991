"""Noise for training without torch's generators, which stacked seeds cannot use."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def mixed(values: Tensor) -> Tensor:
    """A hash of integers below 2^32, elementwise, to integers below 2^32.

    Shifts and products of Wellons's ``lowbias32``. The products stay within int64.
    """
    values = values ^ (values >> 16)
    values = (values * 0x7FEB352D) & 0xFFFFFFFF
    values = values ^ (values >> 15)
    # 0x846CA68B less 2^32: the same in the 32 bits that are kept
    values = (values * -0x7B935975) & 0xFFFFFFFF
    return values ^ (values >> 16)


class Noise(nn.Module):
    """Uniform numbers in [0, 1), a hash of a seed, the number of the call and the position.

    The seed and the counter are buffers. So each of several stacked seeds has its own noise, and a
    run that resumes from a saved state goes on with the noise of an uninterrupted one.

    Args:
        device: device of the buffers.
    """

    def __init__(self, *, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.seed: Tensor = nn.Buffer(torch.zeros((), dtype=torch.int64, device=device))
        self.calls: Tensor = nn.Buffer(torch.zeros((), dtype=torch.int64, device=device))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw a new seed from ``generator``, which must live on its device; count from 0."""
        self.seed.random_(0, 2**32, generator=generator)
        self.calls.zero_()

    def forward(self, like: Tensor) -> Tensor:
        """Numbers in the shape and on the device of ``like``, and of its type, float32 at least."""
        key = mixed(mixed(self.calls & 0xFFFFFFFF) ^ self.seed)
        # assigned, not changed in place: whoever holds the buffer keeps its value
        self.calls = self.calls + 1
        index = torch.arange(like.numel(), device=like.device).reshape(like.shape)
        bits = mixed(mixed(index & 0xFFFFFFFF) ^ key) >> 8
        dtype = torch.float32 if like.element_size() < 4 else like.dtype
        # 24 bits, which float32 holds exactly
        return bits.to(dtype) * 2.0**-24
