"""Neural arithmetic and numerical extrapolation on Ray: every experiment from one command.

From Python: ``import nalu_ray as nr``, then :func:`run`, :func:`load_results`, :func:`train`,
:func:`published`, :func:`list_tasks` (:mod:`nalu_ray.api`) and the units by name
(:mod:`nalu_ray.layers`). They load on first use, so that the import alone loads neither torch nor
Ray.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nalu_ray.api import Results, list_tasks, load_results, published, run, train
    from nalu_ray.layers import (
        GNALU,
        INALU,
        MCFC,
        MNAC,
        NAC,
        NALU,
        NAU,
        NMRU,
        NMU,
        NPU,
        NRU,
        NSR,
        SNMU,
        MulMCFC,
        RealNPU,
    )

__version__ = "0.8.0"

_FROM_API = ("Results", "list_tasks", "load_results", "published", "run", "train")
__all__ = [
    "GNALU",
    "INALU",
    "MCFC",
    "MNAC",
    "NAC",
    "NALU",
    "NAU",
    "NMRU",
    "NMU",
    "NPU",
    "NRU",
    "NSR",
    "SNMU",
    "MulMCFC",
    "RealNPU",
    "Results",
    "list_tasks",
    "load_results",
    "published",
    "run",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "nalu_ray.api" if name in _FROM_API else "nalu_ray.layers"
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
