"""Initialisations by name, shared by all arithmetic layers. A new one is one entry of the dict."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ._checks import is_finite

Init = str | float
"""A name in ``INITIALISERS``, or a number that every element is set to."""

INITIALISERS: dict[str, Callable[[Tensor, torch.Generator | None], Tensor]] = {
    # U(-r, r), r = sqrt(6 / (in + out)): Glorot and Bengio, 2010.
    "glorot": lambda w, g: nn.init.xavier_uniform_(w, generator=g),
    # U(-r, r), r = sqrt(6 / in): He et al., 2015.
    "kaiming": lambda w, g: nn.init.kaiming_uniform_(w, generator=g),
    # U(-r, r), r = sqrt(1 / in): what torch.nn.Linear does.
    "linear": lambda w, g: nn.init.kaiming_uniform_(w, a=math.sqrt(5), generator=g),
    # U(-1/2, 1/2) whatever the width: large enough for W to leave 0 soon (docs/results.md).
    "uniform": lambda w, g: nn.init.uniform_(w, -0.5, 0.5, generator=g),
    "normal": lambda w, g: nn.init.normal_(w, std=0.02, generator=g),
}


def check_init(field: str, init: object) -> None:
    """Raise ``ValueError`` unless ``init`` is a known name or a finite number."""
    known = init in INITIALISERS if isinstance(init, str) else is_finite(init)
    if not known:
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
