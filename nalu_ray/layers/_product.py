"""What units with products share: types wide enough, logarithms, products over the inputs."""

from __future__ import annotations

import torch
from torch import Tensor


def widened(x: Tensor) -> Tensor:
    """``x`` in float32 where it is of half precision, else as it is."""
    return x.float() if x.element_size() < 4 else x


def machine_epsilon(dtype: torch.dtype) -> float:
    """Distance from 1 to the next number: 2.2e-16 in float64, else float32's, 1.19e-7."""
    # torch.finfo(dtype).eps, which a script does not know
    return 2.0**-52 if dtype == torch.float64 else 2.0**-23


def floored_log(x: Tensor, floor: float) -> Tensor:
    """log(max(|x|, floor)), elementwise; its gradient is 0 below the floor.

    Unlike log(|x| + epsilon), it is exact above the floor.
    """
    return x.abs().clamp(min=floor).log()


def selected_product(x: Tensor, weight: Tensor) -> Tensor:
    """Product of the selected inputs, y_j = prod_i (W_ji x_i + 1 - W_ji).

    The gradient is right where factors are 0, which exp of a sum of logarithms cannot give.

    Args:
        x: (..., in_features).
        weight: (out_features, in_features) in [0, 1], in float32 or wider: 1 selects an input, 0
            leaves it out.

    Returns:
        (..., out_features) in the type of the weight.
    """
    return product(selected(x, weight), x)


def selected(x: Tensor, weight: Tensor) -> Tensor:
    """The factors of :func:`selected_product`: x_i where the weight is 1, and 1 where it is 0.

    Returns:
        (..., out_features, in_features, rows). The last of x's leading axes, rows, is at the end,
        where it is long and contiguous; without any, rows is 1.
    """
    rows = x.to(weight.dtype)
    if rows.dim() == 1:
        rows = rows.unsqueeze(0)
    # exact at both ends of the weight
    return torch.lerp(weight.new_ones([]), rows.mT.unsqueeze(-3), weight.unsqueeze(-1))


def product(factors: Tensor, x: Tensor) -> Tensor:
    """The product of factors from :func:`selected` over the inputs, laid out as their x was."""
    y = multiplied(factors).mT
    return y.squeeze(0) if x.dim() == 1 else y


def multiplied(factors: Tensor) -> Tensor:
    """The product over the last axis but one, in pairs.

    torch.prod looks for factors of 0, where its gradient is another formula; stacked seeds always
    get the slower of the two, and a step that looks at numbers cannot be recorded.
    """
    count = factors.size(-2)
    while count > 1:
        half = count // 2
        last = factors[..., 2 * half :, :]
        one, other = factors[..., : 2 * half, :].unflatten(-2, [2, half]).unbind(-3)
        factors = one * other
        if count % 2 == 1:
            factors = torch.cat([factors, last], dim=-2)
        count = half + count % 2
    return factors.squeeze(-2)
