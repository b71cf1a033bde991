"""Initialisations by name, shared by all arithmetic layers. A new one is one entry of the dict."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from ._checks import is_finite

Init = str | float
"""A name in ``INITIALISERS``, or a number that every element is set to."""


@cache
def variance_range(features: int) -> float:
    """Range r of W_hat and M_hat, both U(-r, r), that gives the NAC's W Glorot's variance.

    Madsen and Johansen's code solves features * V(r) = 2, where V is the variance of W::

        V(r) = (1 - tanh(r) / r) * (r - tanh(r / 2)) / (2 r)

    V stays below 1/2, so their code takes ``features`` to be at least 5.

    Args:
        features: in_features + out_features.
    """
    target, low, high = 2 / max(features, 5), 0.0, 32.0
    for _ in range(60):
        r = (low + high) / 2
        variance = (1 - math.tanh(r) / r) * (r - math.tanh(r / 2)) / (2 * r)
        low, high = (r, high) if variance < target else (low, r)
    return (low + high) / 2


def _uniform(weight: Tensor, r: float, generator: torch.Generator | None) -> Tensor:
    return nn.init.uniform_(weight, -r, r, generator=generator)


INITIALISERS: dict[str, Callable[[Tensor, torch.Generator | None], Tensor]] = {
    # U(-r, r), r = sqrt(6 / (in + out)): Glorot and Bengio, 2010.
    "glorot": lambda w, g: nn.init.xavier_uniform_(w, generator=g),
    # N(0, 2 / (in + out)): the normal law of the same variance.
    "glorot_normal": lambda w, g: nn.init.xavier_normal_(w, generator=g),
    # U(-r, r), r = min(1/2, glorot's): the NAU of Madsen and Johansen, 2020.
    "glorot_limited": lambda w, g: _uniform(w, min(0.5, math.sqrt(6 / sum(w.shape))), g),
    # U(-r, r) so that the NAC's W has glorot's variance: Madsen and Johansen, 2020.
    "variance": lambda w, g: _uniform(w, variance_range(sum(w.shape)), g),
    # U(1/4, 3/4): the NMU of Madsen and Johansen, 2020.
    "middle": lambda w, g: nn.init.uniform_(w, 0.25, 0.75, generator=g),
    # U(-r, r), r = sqrt(6 / in): He et al., 2015.
    "kaiming": lambda w, g: nn.init.kaiming_uniform_(w, generator=g),
    # U(-r, r), r = sqrt(1 / in): what torch.nn.Linear does.
    "linear": lambda w, g: nn.init.kaiming_uniform_(w, a=math.sqrt(5), generator=g),
    # U(-1/2, 1/2) whatever the width: large enough for W to leave 0 soon (docs/results.md).
    "uniform": lambda w, g: nn.init.uniform_(w, -0.5, 0.5, generator=g),
    # U(0, 1/2): units of a recurrent NALU find sums first, and subtract later (docs/results.md).
    "positive": lambda w, g: nn.init.uniform_(w, 0.0, 0.5, generator=g),
    "normal": lambda w, g: nn.init.normal_(w, std=0.02, generator=g),
    # U(-1e-6, 1e-6): as good as 0, but what parts two units of a layer is drawn, not rounding.
    "tiny": lambda w, g: nn.init.uniform_(w, -1e-6, 1e-6, generator=g),
}


def check_init(field: str, init: object) -> None:
    """Raise ``ValueError`` unless ``init`` is a known name or a finite number."""
    is_valid = init in INITIALISERS if isinstance(init, str) else is_finite(init)
    if not is_valid:
        allowed = ", ".join(INITIALISERS)
        raise ValueError(f"{field} must be one of {allowed} or a finite number, got {init!r}")


def initialise(weight: Tensor, init: Init, generator: torch.Generator | None = None) -> None:
    """Fill ``weight``, (out_features, in_features), in place and outside autograd.

    Args:
        weight: the tensor to fill.
        init: a name in ``INITIALISERS`` or a constant.
        generator: source of random numbers, on the weight's device; ``None`` uses torch's global
            state, as torch.nn does.
    """
    if isinstance(init, str):
        INITIALISERS[init](weight, generator)
    else:
        nn.init.constant_(weight, init)
