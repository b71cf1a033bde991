"""Checks of a unit or network in training: stacked seeds, a resumed run, parameters in bounds."""

from __future__ import annotations

import io
from collections.abc import Callable

import pandas as pd
import torch
from torch import nn

from nalu_ray.seeding import Streams
from nalu_ray.task import Batch, Run
from nalu_ray.testing.modules import INPUTS, OUTPUTS, Build, made, require
from nalu_ray.training import members
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask

_CPU = torch.device("cpu")
_STEPS = 4


class ProbeTask(SupervisedTask[SupervisedSetting]):
    """The sum and the product of two inputs, learned by whatever network is to be checked."""

    name, title = "probe", "Probe"
    setting_type = SupervisedSetting

    def __init__(self, build: Build) -> None:
        self._build = build

    def build(self, setting: SupervisedSetting) -> nn.Module:
        return self._build()

    def sample(self, setting: SupervisedSetting, split: str, streams: Streams) -> Batch:
        x = torch.from_numpy(streams.uniform((16, INPUTS), 1.0, 2.0))
        sums, products = x[..., 0] + x[..., 1], x[..., 0] * x[..., 1]
        return Batch((x,), torch.stack([sums, products], dim=2)[..., :OUTPUTS])


def check_block(build: Build) -> None:
    """Checks that a seed of a block gives the rows of the seed alone."""
    block, alone = _finished(_run(build, [0, 3])), _finished(_run(build, [3]))
    _compare(block[block["seed"] == 3], alone)


def check_resume(build: Build) -> None:
    """Checks that a run that was interrupted gives the rows of an uninterrupted one."""
    first = _run(build, [0, 1])
    first.advance()
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second = _run(build, [0, 1])
    second.load_state_dict(torch.load(buffer, weights_only=True))
    _compare(_finished(second), _finished(_run(build, [0, 1])))


def check_kept_in_bounds(build: Build) -> None:
    """Checks that large steps, with all penalties, leave bounded parameters within bounds."""
    bounds = members.bounds(made(build))
    if not bounds:
        return
    run = _run(build, [0, 1], lr=3.0, evaluations=_STEPS)
    for step in range(1, _STEPS + 1):
        run.advance()
        parameters = run.replicas.state(run.replicas.flat.detach(), run.replicas.buffers)
        for name, (low, high) in bounds.items():
            least, most = float(parameters[name].min()), float(parameters[name].max())
            inside = low <= least and most <= high
            text = f"{name} is in [{least:g}, {most:g}] after step {step}, not [{low}, {high}]"
            require(inside, text)


CHECKS: dict[str, Callable[[Build], None]] = {
    "block": check_block,
    "resume": check_resume,
    "kept_in_bounds": check_kept_in_bounds,
}


def _run(build: Build, seeds: list[int], lr: float = 0.01, evaluations: int = 2) -> SupervisedRun:
    names = {name for penalties in members.offered(build()).values() for name in penalties}
    penalty = ";".join(f"{name}:0.1" for name in sorted(names)) or None
    setting = SupervisedSetting(
        lr=lr, steps=_STEPS, evaluations=evaluations, clip=1.0, penalty=penalty
    )
    return ProbeTask(build).start(setting, seeds, _CPU)


def _finished(run: Run) -> pd.DataFrame:
    while (progress := run.advance()).step < progress.steps:
        pass
    return run.rows()


def _compare(rows: pd.DataFrame, wanted: pd.DataFrame) -> None:
    # vectorised activations may round the last bit by position; what is learned is the same
    rows, wanted = rows.reset_index(drop=True), wanted.reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, wanted, check_dtype=False, rtol=1e-4, atol=1e-6)
