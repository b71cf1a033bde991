"""Sequences of the recurrent task and their targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from nalu_ray.seeding import Streams
from nalu_ray.tasks._operands import OPERATIONS, Sections, operands, sections
from nalu_ray.tasks._threshold import adding
from nalu_ray.tasks.recurrent.network import RecurrentSetting

PIECE = 100  # steps of a long sequence that are held at a time


def whole(setting: RecurrentSetting, split: str, streams: Streams) -> Tensor:
    """Draws x of sequences of the training length, (R, N, length, inputs)."""
    count = setting.batch if split == "train" else setting.test_size
    shape = (count, setting.length, setting.inputs)
    return torch.from_numpy(streams.uniform(shape, *setting.train_range))


def pieces(setting: RecurrentSetting, streams: Streams) -> Iterator[Tensor]:
    """Draws x of long sequences in pieces of time, (R, N, up to PIECE, inputs) each."""
    for start in range(0, setting.test_length, PIECE):
        steps = min(PIECE, setting.test_length - start)
        shape = (setting.test_size, steps, setting.inputs)
        yield torch.from_numpy(streams.uniform(shape, *setting.train_range))


def target(setting: RecurrentSetting, parts: Iterable[Tensor], seeds: Sequence[int]) -> Tensor:
    """Returns y of sequences that are given in pieces of time, (R, N, 1)."""
    sums, chosen = over_time(parts), _chosen(setting, seeds)
    shared = len(sums) == 1 < len(seeds)
    y = OPERATIONS[setting.op].apply(*operands(sums, chosen, shared))
    return y.float().unsqueeze(2)


def success_error(setting: RecurrentSetting, streams: Streams) -> Tensor:
    """Returns the error on long sequences below which each seed counts as solved, (R,)."""
    sums = over_time(pieces(setting, streams))
    return adding(setting.op, sums, _chosen(setting, streams.seeds))


def over_time(parts: Iterable[Tensor]) -> Tensor:
    """Returns the sums over time of sequences given in pieces, (R, N, inputs) of float64."""
    sums = sum(part.sum(2, dtype=torch.float64) for part in parts)
    assert isinstance(sums, Tensor)
    return sums


def _chosen(setting: RecurrentSetting, seeds: Sequence[int]) -> Sections:
    shape = (setting.inputs, setting.section, setting.overlap)
    return sections("recurrent", tuple(seeds), *shape)
