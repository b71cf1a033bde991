"""The UGRNN against its equations, written out in NumPy."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from nalu_ray.layers import UGRNN

BATCH, STEPS, INPUTS, HIDDEN = 3, 6, 4, 5


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-x))


def test_equal_to_the_equations() -> None:
    rng = np.random.default_rng(0)
    w_gate, w_update = rng.normal(size=(2, HIDDEN, INPUTS + HIDDEN))
    b_gate, b_update = rng.normal(size=(2, HIDDEN))
    x, start = rng.normal(size=(BATCH, STEPS, INPUTS)), rng.normal(size=(BATCH, HIDDEN))
    wanted = np.zeros((BATCH, STEPS, HIDDEN))
    for row in range(BATCH):
        h = start[row]
        for t in range(STEPS):
            both = np.concatenate([x[row, t], h])
            g = sigmoid(w_gate @ both + b_gate + 1.0)
            c = np.tanh(w_update @ both + b_update)
            h = wanted[row, t] = g * h + (1 - g) * c
    cell = UGRNN(INPUTS, HIDDEN).double()
    with torch.no_grad():
        weights = torch.from_numpy(np.concatenate([w_gate, w_update]))
        cell.weight_x.copy_(weights[:, :INPUTS])
        cell.weight_h.copy_(weights[:, INPUTS:])
        cell.bias.copy_(torch.from_numpy(np.concatenate([b_gate, b_update])))
    outputs, (last,) = cell(torch.from_numpy(x), (torch.from_numpy(start),))
    torch.testing.assert_close(outputs, torch.from_numpy(wanted), rtol=1e-12, atol=1e-12)
    assert torch.equal(last, outputs[:, -1])


def test_forgets_slowly_at_first() -> None:
    """Without weights h shrinks by sigmoid(1) a step."""
    cell = UGRNN(INPUTS, HIDDEN).double()
    with torch.no_grad():
        for weight in cell.parameters():
            weight.zero_()
    x = torch.ones(1, STEPS, INPUTS, dtype=torch.float64)
    _, (h,) = cell(x, (torch.ones(1, HIDDEN, dtype=torch.float64),))
    expected = torch.full_like(h, 1 / (1 + np.exp(-1))) ** STEPS
    torch.testing.assert_close(h, expected)


def test_parameters_are_one_joint_map() -> None:
    count = sum(parameter.numel() for parameter in UGRNN(INPUTS, HIDDEN).parameters())
    assert count == 2 * HIDDEN * (INPUTS + HIDDEN) + 2 * HIDDEN
