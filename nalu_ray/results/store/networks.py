"""Finds what runs left beside their rows (agents, models): which there are, and the best."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from nalu_ray.config import ConfigError, did_you_mean
from nalu_ray.results.store import files
from nalu_ray.results.store.store import Store

log = logging.getLogger(__name__)

About = Mapping[str, Any]
"""What is known of one network: plain values by name."""


@dataclass(frozen=True)
class Kind:
    """What is looked for.

    Attributes:
        noun: what one is called in messages.
        ending: of its files' names.
        read: from a file's bytes and name to what is known of each network in it.
        error: what ``read`` raises on a file that is none.
        score: of one that is known; the highest is the best, NaN the worst.
    """

    noun: str
    ending: str
    read: Callable[[bytes, str], Sequence[About]]
    error: type[Exception]
    score: Callable[[About], float]


@dataclass(frozen=True)
class Found:
    """One network: the path and the bytes of the file that holds it, and what is known of it."""

    path: str
    data: bytes
    about: About


def best(out: str, task: str, kind: Kind, wanted: Mapping[str, str]) -> Found:
    """Returns the best stored network of a task; among equals, the first by path.

    Args:
        out: folder or URI of the results.
        task: whose networks.
        kind: of what.
        wanted: values that it must have, as text.

    Raises:
        ConfigError: there is none, or a key of ``wanted`` that none knows.
        StoreError: the place cannot be reached.
    """
    store = Store(out)
    folder = f"{store.root}/{task}"
    counting = store.counting(task)
    found = [one for one in _stored(store.filesystem, folder, kind) if _counts(one, counting)]
    if not found:
        how = f"python -m nalu_ray.tune {task} --preset smoke trains one"
        raise ConfigError([f"no {kind.noun} in {folder}; {how}"])
    return choose(found, kind, wanted, folder)


def _counts(found: Found, counting: Mapping[str, set[int]]) -> bool:
    """Whether a network's rows, where they are stored, count: other code may have rerun it."""
    trial = "-".join(found.path.rsplit("/", 1)[-1].split("-")[:2])
    seeds = counting.get(trial)
    return seeds is None or "seed" not in found.about or found.about["seed"] in seeds


def choose(found: Sequence[Found], kind: Kind, wanted: Mapping[str, str], place: str) -> Found:
    """Returns the best of those that have the wanted values, given as text.

    Raises:
        ConfigError: none has, or a key that none knows; the message says where by ``place``.
    """
    keys = {key for one in found for key in one.about}
    if unknown := [did_you_mean("key", key, keys) for key in wanted if key not in keys]:
        raise ConfigError(unknown)
    matching = [
        one for one in found if all(_is(one.about.get(key), text) for key, text in wanted.items())
    ]
    if not matching:
        asked = " ".join(f"{key}={value}" for key, value in wanted.items())
        there = (
            f"{key}: {', '.join(sorted({_text(one.about.get(key)) for one in found}))}"
            for key in wanted
        )
        text = f"no {kind.noun} with {asked} in {place}; there is {'; '.join(there)}"
        raise ConfigError([text])
    return max(matching, key=lambda one: _usable(kind.score(one.about)))


def describe(about: About) -> str:
    """Returns what is known of a network as ``key=value`` words."""
    return " ".join(
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in about.items()
    )


def _is(value: object, text: str) -> bool:
    """Whether a text, as on the command line, stands for a value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text) == value
        except ValueError:
            return False
    return _text(value) == text


def _text(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _stored(filesystem: fs.FileSystem, folder: str, kind: Kind) -> Iterable[Found]:
    try:
        infos = files.list_folder(filesystem, folder)
    except OSError as error:
        raise ConfigError([f"cannot list {folder}: {error}"]) from error
    for info in sorted(infos, key=lambda info: str(info.path)):
        if not info.base_name.endswith(kind.ending):
            continue
        try:
            with filesystem.open_input_stream(info.path) as stream:
                data = stream.read()
            known = kind.read(data, info.path)
        except (kind.error, OSError) as error:
            log.warning("skipped %s", error)
            continue
        yield from (Found(info.path, data, about) for about in known)


def _usable(score: float) -> float:
    return -math.inf if math.isnan(score) else score
