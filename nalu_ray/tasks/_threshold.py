"""The error below which a seed of static or recurrent arithmetic counts as solved.

It is the error of a model whose operation is exact and whose selecting weights are all off by 1e-5.
The two rules differ in whether the errors of the weights may cancel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from nalu_ray.tasks._operands import OPERATIONS, Sections, operands

WEIGHT_ERROR = 1e-5
_NOISE = torch.finfo(torch.float32).eps
_SMALLEST = torch.finfo(torch.float32).tiny

# error of the result, from |a|, |b| and the error of each
_ERRORS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "a": lambda a, b, off_a, off_b: off_a,
    "add": lambda a, b, off_a, off_b: off_a + off_b,
    "sub": lambda a, b, off_a, off_b: off_a + off_b,
    "mul": lambda a, b, off_a, off_b: a * off_b + b * off_a + off_a * off_b,
    "div": lambda a, b, off_a, off_b: (a * off_b + b * off_a) / (b * (b + off_b)),
    "square": lambda a, b, off_a, off_b: (2 * a + off_a) * off_a,
    "sqrt": lambda a, b, off_a, off_b: off_a / ((a + off_a).sqrt() + a.sqrt()),
    "reciprocal": lambda a, b, off_a, off_b: off_a / (a * (a + off_a)),
}


Rule = Callable[[str, Tensor, Sections], Tensor]


def _seed_by_seed(rule: Rule) -> Rule:
    """Makes a rule take one seed at a time: all in float64 would be most of a trial's memory."""

    @functools.wraps(rule)
    def of_all(op: str, x: Tensor, chosen: Sections) -> Tensor:
        parts = (part.split(1) for part in (x, *chosen))
        return torch.cat([rule(op, of_x, (a, b)) for of_x, a, b in zip(*parts, strict=True)])

    return of_all


@_seed_by_seed
def adding(op: str, x: Tensor, chosen: Sections) -> Tensor:
    """Returns the mean squared error of a model whose weight errors add up.

    This is the perturbed model of Madsen and Johansen (2020), with weight errors that add up, as
    Mistry et al. (2022, "A Primer for Neural Arithmetic Logic Modules") write them out for each
    operation. In the former they cancel where a and b cover all inputs.

    With e = 1e-5 and S the sum of |x_i| over all inputs, the operands are off by d_a + d_b = e S.
    An input of one operand counts for it; an input of both or of neither counts half for each. So
    d_a = e (S + S_a - S_b) / 2, where S_a is the sum of |x_i| over a. Operations of one operand
    take b = a: d_a = e S / 2.

    The operation itself is exact, so the result is off by

    * a: d_a;
    * add, sub: d_a + d_b = e S;
    * mul: (|a| + d_a) (|b| + d_b) - |a b|;
    * div: |a / b| - (|a| - d_a) / (|b| + d_b);
    * square: (|a| + d_a)^2 - a^2;
    * sqrt: sqrt(a + d_a) - sqrt(a);
    * reciprocal: 1 / |a| - 1 / (|a| + d_a).

    An error below float32's precision of the result counts as that precision.

    A sequence counts by its sums over time: a selecting weight is the same at every step, so it is
    off by e times the sum of what it selects. The recurrence is exact. Were it off by e as well,
    T steps would multiply that, and the bound would loosen with the length it is to test.

    Args:
        op: one of ``a add sub mul div square sqrt reciprocal``.
        x: (R, N, inputs), the examples of R seeds, or the sums over time of their sequences.
        chosen: the elements of a and of b.

    Returns:
        (R,) float64, large enough to stay above 0 in float32.
    """
    x = x.double()
    if OPERATIONS[op].operands == 1:
        chosen = chosen[0], chosen[0]
    a, b = (part.abs() for part in operands(x, chosen))
    size_a, size_b = operands(x.abs(), chosen)
    size = x.abs().sum(2)
    off_a = WEIGHT_ERROR * (size + size_a - size_b) / 2
    off_b = WEIGHT_ERROR * (size + size_b - size_a) / 2
    error = _ERRORS[op](a, b, off_a, off_b)
    return _mean_square(op, error, a, b)


@_seed_by_seed
def golden(op: str, x: Tensor, chosen: Sections) -> Tensor:
    """Returns the mean squared error of the golden network of Madsen and Johansen (2020).

    With e = 1e-5, the selecting weights are 1 - e where the exact network has 1, and e where it has
    0. So a becomes a + e (T - 2 a), where T is the sum of x over all inputs; b likewise.

    Arguments and result as of :func:`adding`.
    """
    x = x.double()
    a, b = operands(x, chosen)
    total = x.sum(2)
    apply = OPERATIONS[op].apply
    off_a, off_b = (part + WEIGHT_ERROR * (total - 2 * part) for part in (a, b))
    return _mean_square(op, (apply(off_a, off_b) - apply(a, b)).abs(), a.abs(), b.abs())


def _mean_square(op: str, error: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Mean over examples of errors that float32 can tell, (R, N) to (R,), with |a| and |b|."""
    # float32 rounds a difference to the precision of its parts
    magnitude = OPERATIONS["add" if op == "sub" else op].apply(a, b)
    return error.maximum(_NOISE * magnitude).square().mean(1).clamp_min(_SMALLEST)


RULES: Mapping[str, Rule] = {
    "adding": adding,
    "golden": golden,
}
"""Values of the setting's field ``threshold``."""
