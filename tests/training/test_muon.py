"""Muon on stacked parameters against its definition for one matrix, and beside torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.training.muon import Muon, orthogonal
from nalu_ray.training.optimisers import optimiser
from nalu_ray.training.replicas import Replicas

SEEDS = [11, 22, 33]


def gradients(steps: int, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(steps, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (8, 8)])
def test_directions_stay_and_singular_values_become_alike(shape: tuple[int, int]) -> None:
    matrices = gradients(3, shape) * 7
    found = orthogonal(matrices)
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    inner = u.mT @ found @ v.mT  # diagonal if the directions are those of the matrix
    torch.testing.assert_close(
        inner, torch.diag_embed(inner.diagonal(dim1=1, dim2=2)), atol=1e-3, rtol=0
    )
    values = torch.linalg.svdvals(matrices)
    solid = values > 0.05 * values.amax(1, keepdim=True)
    assert (inner.diagonal(dim1=1, dim2=2)[solid] > 0.6).all()
    assert (inner.diagonal(dim1=1, dim2=2) < 1.3).all()


def test_matrices_whose_squares_overflow_are_made_alike_too() -> None:
    matrices = gradients(3, (8, 5))
    large = matrices.clone()
    large[1] *= 1e30
    found, wanted = orthogonal(large), orthogonal(matrices)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-5)
    assert torch.equal(found[[0, 2]], wanted[[0, 2]])
    assert found.dtype == torch.float32


def test_nothing_becomes_nothing() -> None:
    assert torch.equal(orthogonal(torch.zeros(2, 3, 4)), torch.zeros(2, 3, 4))


def test_a_matrix_moves_as_torchs_muon_moves_it() -> None:
    start = gradients(1, (20, 50))[0]
    weight = nn.Parameter(start.clone())
    theirs = torch.optim.Muon(
        [weight], lr=0.05, weight_decay=0.3, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    flat = start.reshape(1, -1).clone().requires_grad_()
    ours = Muon(flat, {"inner.weight": torch.Size((20, 50))}, lr=0.05, weight_decay=0.3)
    for gradient in gradients(5, (20, 50)):
        weight.grad, flat.grad = gradient, gradient.reshape(1, -1)
        theirs.step()
        ours.step()
    # torch's works in bfloat16
    torch.testing.assert_close(flat.view(20, 50), weight, rtol=0.05, atol=2e-3)


def test_what_is_no_matrix_moves_as_adam_moves_them() -> None:
    ours = torch.zeros(2, 30).requires_grad_()
    theirs = torch.zeros(2, 30).requires_grad_()
    shapes = {"cell.W_hat": torch.Size((3, 4)), "weight": torch.Size((18,))}
    muon = Muon(ours, shapes, lr=0.05, weight_decay=0.3)
    adam = torch.optim.Adam([theirs], lr=0.05)
    for gradient in gradients(5, (2, 30)):
        ours.grad, theirs.grad = gradient, gradient.clone()
        muon.step()
        adam.step()
    torch.testing.assert_close(ours, theirs)


def test_seeds_do_not_mix() -> None:
    build = lambda: nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 2))  # noqa: E731
    together = Replicas(build, SEEDS)
    alone = Replicas(build, SEEDS[1:2])
    x = gradients(5, (3, 4, 6))
    for replicas, inputs in ((together, x), (alone, x[:, 1:2])):
        shapes = dict(zip(replicas.names, replicas.shapes, strict=True))
        muon = optimiser("muon", replicas.flat, 0.01, shapes=shapes)
        for batch in inputs:
            loss = replicas(batch).square().flatten(1).mean(1)
            (replicas.flat.grad,) = torch.autograd.grad(loss.sum(), replicas.flat)
            muon.step()
    torch.testing.assert_close(together.flat[1], alone.flat[0], rtol=1e-4, atol=1e-6)
