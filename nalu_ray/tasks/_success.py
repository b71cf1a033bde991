"""When a seed of the static task counts as solved: the error of a model that is nearly exact."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nalu_ray.tasks._operands import Sections, operands

WEIGHT_ERROR = 1e-5
ONE_OPERAND = ("square", "sqrt")
_NOISE = torch.finfo(torch.float32).eps
_SMALLEST = torch.finfo(torch.float32).tiny

# how far the result is off, of |a|, |b| and how far each of them is off
_ERRORS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "add": lambda a, b, off_a, off_b: off_a + off_b,
    "sub": lambda a, b, off_a, off_b: off_a + off_b,
    "mul": lambda a, b, off_a, off_b: a * off_b + b * off_a + off_a * off_b,
    "div": lambda a, b, off_a, off_b: (a * off_b + b * off_a) / (b * (b + off_b)),
    "square": lambda a, b, off_a, off_b: (2 * a + off_a) * off_a,
    "sqrt": lambda a, b, off_a, off_b: off_a / ((a + off_a).sqrt() + a.sqrt()),
}
# the size of the result's parts, to which float32 rounds
_MAGNITUDES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    "square": lambda a, b: a.square(),
    "sqrt": lambda a, b: a.sqrt(),
}


def success_threshold(op: str, x: Tensor, chosen: Sections) -> Tensor:
    """Mean squared error of a model whose every selecting weight is off by 1e-5, for the worse.

    The perturbed model of Madsen and Johansen (2020), with the errors of its weights adding up as
    Mistry et al. (2022, "A Primer for Neural Arithmetic Logic Modules") write it out for each
    operation; so they cannot cancel, as they do in the former where a and b cover all inputs. With
    e = 1e-5 and S the sum of |x_i| over all inputs, the operands are off by d_a + d_b = e S: an
    input counts for its own operand, and one of both or of neither half for each, d_a = e (S + S_a
    - S_b) / 2, where S_a is the sum of |x_i| over a. With one operand b is a: d_a = e S / 2.

    The result, whose operation is exact, is then off by

    * add, sub: d_a + d_b = e S;
    * mul: (|a| + d_a) (|b| + d_b) - |a b|;
    * div: |a / b| - (|a| - d_a) / (|b| + d_b), which is (1 - e) / (1 + e) of it where a
      and b are one input each;
    * square: (|a| + d_a)^2 - a^2;
    * sqrt: sqrt(a + d_a) - sqrt(a).

    Nowhere is it taken to be less than float32's precision of the result.

    Args:
        op: one of ``add sub mul div square sqrt``.
        x: (R, N, inputs), the examples of R seeds.
        chosen: the elements of a and of b.

    Returns:
        (R,) in float64, above 0 also in float32.
    """
    x = x.double()
    if op in ONE_OPERAND:
        chosen = chosen[0], chosen[0]
    a, b = (part.abs() for part in operands(x, chosen))
    size_a, size_b = operands(x.abs(), chosen)
    size = x.abs().sum(2)
    off_a = WEIGHT_ERROR * (size + size_a - size_b) / 2
    off_b = WEIGHT_ERROR * (size + size_b - size_a) / 2
    error = _ERRORS[op](a, b, off_a, off_b)
    return error.maximum(_NOISE * _MAGNITUDES[op](a, b)).square().mean(1).clamp_min(_SMALLEST)
