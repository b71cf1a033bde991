"""matplotlib as we draw with it: our settings and its Agg canvas, whatever the user's are."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Mapping[str, Any] = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.edgecolor": "#666666",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "pdf.fonttype": 42,
    "svg.hashsalt": "nalu_ray",
}
_NEUTRAL = {"MPLBACKEND": "agg", "MATPLOTLIBRC": os.devnull}


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of so many inches; use it within :func:`our_settings`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (see _imported)
    from matplotlib.figure import Figure  # noqa: PLC0415 (see _imported)

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextlib.contextmanager
def our_settings() -> Iterator[None]:
    """Draws and saves with matplotlib's defaults and our style; the user's come back after it."""
    mpl = _imported()
    defaults = mpl.rcParamsDefault
    # a backend belongs to pyplot, which is not used
    settings = {name: defaults[name] for name in defaults if name != "backend"}
    with mpl.rc_context({**settings, **STYLE}):
        yield


def _imported() -> ModuleType:
    """Imports matplotlib, if it must be without the user's settings.

    A backend that is not installed, such as that of a notebook in which a command was started, or
    a settings file that cannot be read, makes the import itself fail.

    Raises:
        OSError: it cannot be imported all the same; the message says why.
    """
    if "matplotlib" in sys.modules:
        return sys.modules["matplotlib"]
    try:
        return importlib.import_module("matplotlib")
    except (ValueError, OSError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            del sys.modules[name]
    before = {name: os.environ.get(name) for name in _NEUTRAL}
    os.environ.update(_NEUTRAL)
    try:
        return importlib.import_module("matplotlib")
    except (ValueError, OSError) as error:
        raise OSError(f"matplotlib cannot be imported: {error}") from error
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
