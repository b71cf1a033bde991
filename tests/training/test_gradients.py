"""Clipping, norms and limits of stacked gradients, also of those whose squares overflow."""

from __future__ import annotations

import math

import pytest
import torch

from nalu_ray.training.gradients import all_usable, clip_rows, matrix_norms, usable
from nalu_ray.training.optimisers import largest_gradient

NAN, INF = math.nan, math.inf


def test_clipping_is_per_row() -> None:
    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    clip_rows(gradient, 1.0)
    torch.testing.assert_close(gradient, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


@pytest.mark.parametrize("scale", [1e18, 1e19, 1e25, 8e37])
def test_gradients_whose_squares_overflow_are_clipped_too(scale: float) -> None:
    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4], [-3.0, 0.0]])
    gradient[[0, 2]] *= scale
    ordinary = gradient[1:2].clone()
    clip_rows(gradient, 2.0)
    torch.testing.assert_close(gradient, torch.tensor([[1.2, 1.6], [0.3, 0.4], [-2.0, 0.0]]))
    clip_rows(ordinary, 2.0)
    assert torch.equal(gradient[1], ordinary[0])


def test_the_limit_may_be_as_large() -> None:
    gradient = torch.tensor([[3e25, 4e25], [3e35, 4e35]])
    clip_rows(gradient, 1e30)
    torch.testing.assert_close(gradient, torch.tensor([[3e25, 4e25], [6e29, 8e29]]))


@pytest.mark.parametrize("value", [INF, -INF, NAN])
def test_what_is_not_finite_does_not_become_so(value: float) -> None:
    gradient = torch.tensor([[value, 4.0], [30.0, 40.0]])
    clip_rows(gradient, 1.0)
    assert not gradient[0].isfinite().all()
    torch.testing.assert_close(gradient[1], torch.tensor([0.6, 0.8]))
    wide = torch.full((2, 3), 1e200, dtype=torch.float64)
    clip_rows(wide, 1.0)
    assert wide.isnan().all()


def test_matrix_norms() -> None:
    matrices = torch.tensor([[[3e25], [4e25]], [[3.0], [4.0]]])
    torch.testing.assert_close(matrix_norms(matrices).flatten(), torch.tensor([5e25, 5.0]).double())
    assert matrix_norms(matrices[1:]).tolist() == [[[5.0]]]


@pytest.mark.parametrize(
    ("name", "largest"), [("adam", 1.8e19), ("rmsprop", 1.8e19), ("muon", 1.8e19), ("sgd", 3.4e38)]
)
def test_what_an_optimiser_can_make_a_step_of(name: str, largest: float) -> None:
    most = largest_gradient(name, torch.float32)  # type: ignore[arg-type]
    beyond = min(1.1 * largest, INF)
    values = [largest, -largest, beyond, -beyond, INF, -INF, NAN]
    gradient = torch.zeros(7, 64)
    gradient[:, 5] = torch.tensor(values)
    loss = torch.zeros(7)
    assert usable(loss, gradient, most).tolist() == [True, True, *[False] * 5]
    for row, wanted in zip(gradient, usable(loss, gradient, most).tolist(), strict=True):
        assert all_usable(loss[:1], row[None], most) == wanted
        assert all_usable(loss[:2], torch.stack([gradient[0], row]), most) == wanted


@pytest.mark.parametrize("value", [INF, NAN])
def test_a_loss_that_is_not_finite(value: float) -> None:
    loss, gradient = torch.tensor([0.0, value]), torch.zeros(2, 64)
    assert usable(loss, gradient, 1e19).tolist() == [True, False]
    assert not all_usable(loss, gradient, 1e19)
