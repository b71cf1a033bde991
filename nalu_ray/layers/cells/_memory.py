"""The memory of the differentiable neural computer, as functions of tensors.

Graves et al., "Hybrid computing using a neural network with dynamic external memory" (2016),
Methods. B is the batch; a memory has N slots of W numbers, one write head and R read heads. A
weighting is a share for each slot; shares are at least 0, and their sum is at most 1.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# as in the authors' code: keeps the logarithm of a usage and the length of a word away from 0
_EPSILON = 1e-6


class Memory(NamedTuple):
    """The memory between two steps.

    Attributes:
        words: (B, N, W), the stored words.
        usage: (B, N), how much of each slot is in use, in [0, 1].
        write: (B, N), weighting of the last write.
        precedence: (B, N), how far each slot was the last that was written to.
        link: (B, N, N), in row i and column j how far i was written to right after j.
        read: (B, R, N), weightings of the last reads.
    """

    words: Tensor
    usage: Tensor
    write: Tensor
    precedence: Tensor
    link: Tensor
    read: Tensor


class MemoryRequest(NamedTuple):
    """The controller's request to the memory at a step.

    Attributes:
        keys: (B, R + 1, W), the words to look for, by each read head, then the write head.
        strengths: (B, R + 1), sharpness of the look-up, at least 1.
        erase: (B, W), the share of each number that a write erases.
        free: (B, R), whether a slot is free once the head has read it.
        allocate: (B, 1), whether to write to a free slot rather than to one that is like the key.
        gate: (B, 1), whether to write.
        modes: (B, R, 3), shares of going backward, looking for the key, and going forward.
        word: (B, W), the word to write.
    """

    keys: Tensor
    strengths: Tensor
    erase: Tensor
    free: Tensor
    allocate: Tensor
    gate: Tensor
    modes: Tensor
    word: Tensor


def request_size(width: int, reads: int) -> int:
    """Returns the size of the last axis that :func:`read_request` takes."""
    return sum(_sizes(width, reads))


def read_request(raw: Tensor, width: int, reads: int) -> MemoryRequest:
    """Splits the controller's output, (B, :func:`request_size`), and brings it into range."""
    keys, strengths, gates, modes, word = raw.split(_sizes(width, reads), -1)
    erase, free, allocate, gate = torch.sigmoid(gates).split([width, reads, 1, 1], -1)
    return MemoryRequest(
        keys=keys.unflatten(-1, (reads + 1, width)),
        strengths=1 + F.softplus(strengths),
        erase=erase,
        free=free,
        allocate=allocate,
        gate=gate,
        modes=torch.softmax(modes.unflatten(-1, (reads, 3)), -1),
        word=word,
    )


def empty(batch: int, slots: int, width: int, reads: int, like: Tensor) -> Memory:
    """Returns a memory of zeros, of the type and on the device of ``like``."""
    weighting = like.new_zeros(batch, slots)
    return Memory(
        words=like.new_zeros(batch, slots, width),
        usage=weighting,
        write=weighting,
        precedence=weighting,
        link=like.new_zeros(batch, slots, slots),
        read=like.new_zeros(batch, reads, slots),
    )


def access(memory: Memory, request: MemoryRequest) -> tuple[Tensor, Memory]:
    """Writes, then reads; returns the words read, (B, R, W), and the new memory."""
    reads = request.modes.shape[-2]
    read_keys, write_key = _unit(request.keys).split([reads, 1], -2)
    read_strengths, write_strength = request.strengths.split([reads, 1], -1)
    usage = _usage(memory, request.free)
    similar = _content(memory.words, write_key, write_strength).squeeze(-2)
    write = request.gate * torch.lerp(similar, _allocation(usage), request.allocate)
    erased = request.erase[..., None, :] * memory.words
    words = torch.addcmul(memory.words, write[..., None], request.word[..., None, :] - erased)
    link = _link(memory, write)
    precedence = (1 - write.sum(-1, keepdim=True)) * memory.precedence + write
    backward, content, forward = request.modes.split(1, -1)
    read = (
        backward * (memory.read @ link)
        + content * _content(words, read_keys, read_strengths)
        + forward * (memory.read @ link.mT)
    )
    return read @ words, Memory(words, usage, write, precedence, link, read)


def _sizes(width: int, reads: int) -> list[int]:
    """Keys, strengths, the gates between 0 and 1, modes, word."""
    return [(reads + 1) * width, reads + 1, width + reads + 2, 3 * reads, width]


def _unit(words: Tensor) -> Tensor:
    """Words (..., W) of length 1, or less where they are near 0."""
    return words * (words.square().sum(-1, keepdim=True) + _EPSILON).rsqrt()


def _content(words: Tensor, keys: Tensor, strengths: Tensor) -> Tensor:
    """Weightings (B, K, N) of slots by their likeness to keys (B, K, W) of length 1."""
    return torch.softmax(strengths[..., None] * (keys @ _unit(words).mT), -1)


def _usage(memory: Memory, free: Tensor) -> Tensor:
    """Slots just written are in use, except those freed after a read."""
    written = memory.usage + memory.write - memory.usage * memory.write
    retention = 1 - free[..., None] * memory.read
    # not torch.prod: its gradient looks for zeros, which vmap refuses
    return written * functools.reduce(torch.mul, retention.unbind(-2))


def _allocation(usage: Tensor) -> Tensor:
    """Weighting (B, N) of free slots: a slot gets what less used slots leave over.

    Slots are ordered by usage, then by index: a_j = (1 - u_j) product of u_i, i before j.
    The product is taken over all slots at once, with neither a sort nor a cumulative product.
    """
    usages, other_usages = usage[..., :, None], usage[..., None, :]
    index = torch.arange(usage.shape[-1], device=usage.device)
    earlier = index < index[:, None]
    before = torch.where(earlier, other_usages <= usages, other_usages < usages).to(usage.dtype)
    # only after the comparison, as it makes slots of little use equal
    usage = _EPSILON + (1 - _EPSILON) * usage
    product = (before @ usage.log()[..., None]).squeeze(-1).exp()
    return (1 - usage) * product


def _link(memory: Memory, write: Tensor) -> Tensor:
    """Links each slot written now to the slots written just before, but not to itself."""
    to, since = write[..., :, None], write[..., None, :]
    kept_link = (1 - to - since) * memory.link
    link = torch.addcmul(kept_link, to, memory.precedence[..., None, :])
    return link * (1 - torch.eye(write.shape[-1], dtype=write.dtype, device=write.device))
