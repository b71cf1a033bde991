"""Products of many factors: their values and gradients, also where factors are 0."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, vmap

from nalu_ray.layers._product import multiplied


def exact(factors: torch.Tensor) -> torch.Tensor:
    """The gradient of the product of (..., n): for each factor, the product of the others."""
    count = factors.shape[-1]
    others = factors[..., None, :].expand(*factors.shape, count)
    return torch.where(torch.eye(count, dtype=torch.bool), 1.0, others).prod(-1)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 13, 100])
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_it_is_the_product_and_its_gradient(count: int, zeros: int) -> None:
    generator = torch.Generator().manual_seed(count)
    factors = torch.rand(3, count, 5, generator=generator, dtype=torch.float64) + 0.5
    factors[:, :zeros] = 0
    factors.requires_grad_()
    y = multiplied(factors)
    assert y.shape == (3, 5)
    torch.testing.assert_close(y, factors.prod(-2), rtol=1e-14, atol=0)
    (gradient,) = torch.autograd.grad(y.sum(), factors)
    torch.testing.assert_close(gradient.mT, exact(factors.detach().mT), rtol=1e-13, atol=0)


def test_stacked_it_is_the_same() -> None:
    factors = torch.rand(4, 3, 7, 5)
    each = torch.stack([grad(lambda x: multiplied(x).sum())(part) for part in factors])
    assert torch.equal(vmap(grad(lambda x: multiplied(x).sum()))(factors), each)
