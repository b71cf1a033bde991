"""The NALU's formula is written once: layer, cell and configured cell give the very same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers import NALU, build_cell, linear, max_exponent, nac_weight

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def drawn(*shape: int, seed: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def fill(module: nn.Module, dtype: torch.dtype) -> None:
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=seed, dtype=dtype))


def mixed(a: Tensor, gate: Tensor, exponents: Tensor) -> Tensor:
    """(1 - g) m + g a, as each of the three spelled it before they shared it."""
    m = torch.exp(exponents.clamp(max=max_exponent(a.dtype)))
    return torch.lerp(m, a, torch.sigmoid(gate))


def assert_same_bits(outputs: tuple[Tensor, Tensor], wanted: list[Tensor]) -> None:
    for ours, reference in zip(
        *(torch.autograd.grad(y.square().sum(), wanted, retain_graph=True) for y in outputs),
        strict=True,
    ):
        assert torch.equal(ours, reference)
    assert torch.equal(*outputs)


@DTYPES
@pytest.mark.parametrize("shape", [(6,), (7, 6), (2, 3, 6)])
def test_layer(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    layer = NALU(6, 4, dtype=dtype)
    fill(layer, dtype)
    x = drawn(*shape, seed=9, dtype=dtype).requires_grad_()
    weight = nac_weight(layer.W_hat, layer.M_hat)
    a, gate = linear(x, torch.cat([weight, layer.G])).chunk(2, -1)
    reference = mixed(a, gate, linear((x.abs() + layer.epsilon).log(), weight))
    assert_same_bits((layer(x), reference), [x, *layer.parameters()])


@DTYPES
def test_cell(dtype: torch.dtype) -> None:
    cell: Any = build_cell("nalu", 4, 3, dtype=dtype)
    fill(cell, dtype)
    x = drawn(5, 4, seed=9, dtype=dtype).requires_grad_()
    h = drawn(5, 3, seed=8, dtype=dtype).requires_grad_()
    weight, unit = nac_weight(cell.unit.W_hat, cell.unit.M_hat), cell.unit
    w_x, w_h = weight.split([4, 3], -1)
    g_x, g_h = unit.G.split([4, 3], -1)
    logs_x, logs_h = ((part.abs() + unit.epsilon).log() for part in (x, h))
    sums = linear(x, torch.cat([w_x, g_x])) + linear(h, torch.cat([w_h, g_h]))
    reference = mixed(*sums.chunk(2, -1), linear(logs_x, w_x) + linear(logs_h, w_h))
    assert_same_bits((cell.step(x, (h,))[0], reference), [x, h, *cell.parameters()])


@DTYPES
def test_configured_cell(dtype: torch.dtype) -> None:
    """With its LSTM's rows of h at 0, the bias alone is the NALU's parameters."""
    cell: Any = build_cell("nalu_lstm", 4, 3, values=2, registers=2).to(dtype)
    fill(cell, dtype)
    with torch.no_grad():
        cell.weight.zero_()
    x = drawn(5, 4, seed=9, dtype=dtype)
    state = (*cell.lstm.initial(5, x), drawn(5, 2, seed=8, dtype=dtype))
    z = torch.cat([x[:, 2:], state[-1]], -1)[:, None]
    w_hat, m_hat, g = cell.bias.split([4, 4, 4], -1)
    weight = nac_weight(w_hat, m_hat)
    a, gate = (weight * z).sum(-1), (g * z).sum(-1)
    reference = mixed(a, gate, (weight * (z.abs() + cell.epsilon).log()).sum(-1))
    assert torch.equal(cell.step(x, state)[0], reference)
