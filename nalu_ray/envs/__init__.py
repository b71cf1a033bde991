"""The package ``envs`` of this project, even if Python finds another package of that name.

``envs`` lies beside ``nalu_ray``, in a checkout and where it is installed. A folder ``envs`` of the
working directory, or one of another distribution, may come before it on Python's path, or its
``__init__.py`` may replace ours. Then the modules of ours are imported as ``nalu_ray.envs.world``
and so on, ``gymnasium.make("nalu_ray.envs:nalu_ray/TimeGridworld-v0")`` works, and both packages
can be used.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

__all__ = [
    "ACTIONS",
    "AGENT",
    "FLOOR",
    "ID",
    "TARGET",
    "WALL",
    "TimeGridworldEnv",
    "TimeGridworldVectorEnv",
    "World",
]

_NAME, _MARK = "envs", "nalu_ray's environments"
_FOLDER = Path(__file__).resolve().parents[2] / _NAME


def _first() -> str | None:
    """Returns the file that ``import envs`` runs or has run; None if there is no such package."""
    loaded = sys.modules.get(_NAME)
    try:
        spec = importlib.util.find_spec(_NAME) if loaded is None else loaded.__spec__
    except (ImportError, AttributeError, ValueError):
        return None
    return spec.origin if spec is not None else None


def _is_ours(file: str | None) -> bool:
    if file is None or (_FOLDER.is_dir() and Path(file).resolve().parent != _FOLDER):
        return False
    try:
        return _MARK in Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


if TYPE_CHECKING:
    from envs import ID, TimeGridworldEnv, TimeGridworldVectorEnv, World
    from envs.layout import AGENT, FLOOR, TARGET, WALL
    from envs.world import ACTIONS
else:
    _file = _first()
    if _is_ours(_file):
        _package = _NAME
    else:
        _package, __path__ = __name__, [str(_FOLDER)]
        if _file is not None:
            logging.getLogger(__name__).warning(
                "two packages are called envs: `import envs` is %s, and nalu_ray's own is "
                "imported as nalu_ray.envs",
                _file,
            )
    _layout, _registration, _single, _vector, _world = (
        importlib.import_module(f"{_package}.{module}")
        for module in ("layout", "registration", "time_gridworld", "vector", "world")
    )
    AGENT, FLOOR, TARGET, WALL = _layout.AGENT, _layout.FLOOR, _layout.TARGET, _layout.WALL
    ID, ACTIONS, World = _registration.ID, _world.ACTIONS, _world.World
    TimeGridworldEnv = _single.TimeGridworldEnv
    TimeGridworldVectorEnv = _vector.TimeGridworldVectorEnv
