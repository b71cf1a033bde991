"""Networks that learn in seconds what the tables claim of longer runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nalu_ray.tasks.recurrent import TASK
from nalu_ray.tasks.recurrent.network import RecurrentSetting
from nalu_ray.training.supervised import SupervisedRun
from tests.runs import finish

SEEDS = [0, 1, 2, 3, 4]
# relative mean squared error: in float32, a thousand steps of an exact recurrence leave 1e-12
EXACT = 1e-11


def start(**values: Any) -> SupervisedRun:
    small = {"hidden": 1, "batch": 16, "test_size": 20, "reference_hidden": 1, "evaluations": 1}
    recipe = {"schedule": "cosine", "lr_end": 0.0, "clip": 1.0, "memory_init": None}
    setting = RecurrentSetting.model_validate({**small, **recipe, **values})
    assert setting.test_length == 1000
    return SupervisedRun(TASK, setting, SEEDS, torch.device("cpu"))


def trained(run: SupervisedRun) -> np.ndarray:
    """Returns the errors of a run's end, as fractions of the mean square of the targets."""
    rows = finish(run)
    last = rows[(rows["split"] == "extrapolation") & (rows["step"] == run.setting.steps)]
    errors = last[last["metric"] == "mse"].sort_values("seed")["value"].to_numpy()
    squares: Tensor = run.sets["extrapolation"].targets.double().square().mean((1, 2))
    return errors / squares.numpy()


def recurrence(run: SupervisedRun) -> Tensor:
    """Returns the NAC's weight from h to itself, (R,)."""
    parameters = dict(run.replicas.parameters())
    w, m = (parameters[f"cell.unit.{name}"][:, 0, -1] for name in ("W_hat", "M_hat"))
    return (w.tanh() * m.sigmoid()).detach().clone()


def test_a_nac_learns_the_recurrence_from_random_weights() -> None:
    """The recipe of docs/results.md in 600 steps: Adam forgets faster, sequences are shorter."""
    run = start(
        layer="nac", op="sub", length=3, steps=600, lr=0.2, warmup=50, adam_beta2=0.9,
        adam_eps=1e-30, penalty="sparsity:10:linear:240:420",
    )  # fmt: skip
    assert (recurrence(run).abs() < 0.5).all()  # nothing is given
    errors = trained(run)
    solved = errors < EXACT
    assert solved.sum() >= 4, errors
    assert (recurrence(run)[torch.from_numpy(solved)] > 1 - 1e-6).all()


def test_the_control_with_a_given_accumulator_learns_the_sum() -> None:
    """What a NAC with a given memory does on a needs no NAC."""
    run = start(layer="sum", op="a", length=5, train_range=(-1, 1), steps=400, lr=0.05, warmup=20)
    errors = trained(run)
    assert (errors < EXACT).all(), errors
