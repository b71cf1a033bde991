"""Trained networks that come with the package, in the files that runs write, and their index.

``index.json`` has one entry per network, in the order in which they are chosen. The script
``benchmarks/ship.py`` writes the files and the index from stored results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nalu_ray.errors import ConfigError, printable
from nalu_ray.results.store.networks import About, Found, Kind, rank

INDEX = "index.json"


class NoneShippedError(ConfigError):
    """No network of a task comes with the package."""


class Shipped(BaseModel):
    """One entry of the index.

    Attributes:
        task: name of the task.
        file: path below this package.
        summary: what the network is, in a few words.
        command: the command line that trained it.
        version: the version of nalu-ray that trained it.
        code: the digest of the source that its numbers depend on, as in its rows.
        sha256: digest of the file.
        scores: its rows by name: split, metric and, on a curve, x, such as ``far exact 60``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    file: str
    summary: str
    command: str
    version: str
    code: str
    sha256: str
    scores: dict[str, float]


def folder() -> Path:
    """Returns the folder of the index and the files."""
    return Path(str(files(__name__)))


def pick(
    task: str,
    noun: str,
    wanted: Mapping[str, str],
    read: Callable[[bytes, str], Sequence[About]],
) -> tuple[Shipped, bytes]:
    """Returns the first shipped network of a task that has the wanted values, and its file.

    Args:
        task: name of the task.
        noun: what the network is called in messages.
        wanted: values that it must have, as text.
        read: returns the description of each network in a file, from its bytes and name.

    Raises:
        NoneShippedError: the task has none.
        ConfigError: no network has the values or a key of ``wanted``, or a file differs from its
            checksum.
    """
    entries = {str(folder() / entry.file): entry for entry in index() if entry.task == task}
    if not entries:
        raise NoneShippedError([f"no {noun} of {task} comes with nalu-ray"])
    candidates = [
        Found(path, data, about)
        for path, data in ((path, _checked(path, entry)) for path, entry in entries.items())
        for about in read(data, path)
    ]
    # equal scores: the order of the index decides
    network_kind = Kind(noun, "", read, ValueError, score=lambda about: 0.0)
    best = rank(candidates, network_kind, wanted, f"the {noun}s that come with nalu-ray")[0]
    return entries[best.path], best.data


@cache
def index() -> tuple[Shipped, ...]:
    """Returns the entries of the index."""
    entries = json.loads((folder() / INDEX).read_text(encoding="utf-8"))
    return tuple(map(Shipped.model_validate, entries))


def _checked(path: str, entry: Shipped) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError([f"{printable(path)}: {error.strerror}: reinstall nalu-ray"]) from error
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise ConfigError([f"{printable(path)}: not the file in {INDEX}: reinstall nalu-ray"])
    return data
