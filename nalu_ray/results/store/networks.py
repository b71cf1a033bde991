"""Finds the trained networks (agents, models) that runs stored beside their rows."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from nalu_ray.errors import ConfigError, did_you_mean, printable
from nalu_ray.input import invocation
from nalu_ray.results.store.rows import Key
from nalu_ray.results.store.store import Store

T = TypeVar("T")

log = logging.getLogger(__name__)

_SEPARATORS = re.compile(r"\s*[:,]\s*")

About = Mapping[str, Any]
"""Description of one network: plain values by name."""


Runs = Collection[Key]
"""Settings' ids with a seed each."""


class UnknownKeyError(ConfigError):
    """No network has a value by a key that is asked for."""


@dataclass(frozen=True)
class Kind:
    """A kind of network, such as agents.

    Attributes:
        noun: its name in messages.
        ending: the ending of its files' names.
        read: returns the description of each network in a file, from its bytes and name.
        error: what ``read`` raises for an invalid file.
        score: returns the score of a network; the highest is the best, NaN and infinity the worst.
    """

    noun: str
    ending: str
    read: Callable[[bytes, str], Sequence[About]]
    error: type[Exception]
    score: Callable[[About], float]


@dataclass(frozen=True)
class Found:
    """One network: its file's path and bytes, and its description.

    Candidates have no bytes, to save memory.
    """

    path: str
    data: bytes
    about: About


Use = Callable[[Found], T]
"""Converts a file's bytes to the result; raises the kind's error if it cannot."""


def best(
    out: str,
    task: str,
    kind: Kind,
    wanted: Mapping[str, str],
    use: Use[T],
    *,
    runs: Runs | None = None,
) -> T:
    """Returns the best stored network of a task, converted by ``use``.

    A network that cannot be used is skipped with a warning. Among equals, the first by path counts.

    Args:
        out: folder or URI of the results.
        task: the task.
        kind: the kind of network.
        wanted: values that it must have, as text.
        use: converts it.
        runs: the runs that may have trained it; None for all.

    Raises:
        ConfigError: there is none, none can be used, or no network has a key of ``wanted``.
        StoreError: ``out`` cannot be reached, or a file exists but cannot be read.
    """
    store = Store(out)
    folder = f"{store.root}/{task}"
    counting = store.counting(task)
    networks = [item for item in _stored(store, folder, kind) if _counts(item, counting)]
    if runs is not None:
        networks = [item for item in networks if _run_of(item) in runs]
        if not networks:
            raise ConfigError([f"no {kind.noun} of these settings and seeds in {folder}"])
    if not networks:
        command = invocation.command("tune", [task, "--preset", "smoke"])
        advice = f"{command} trains one"
        raise ConfigError([f"no {kind.noun} in {folder}; {advice}"])
    ranked = rank(networks, kind, wanted, folder)
    for item in ranked:
        data = store.read(item.path, most=None)
        if data is None:
            continue
        try:
            return use(replace(item, data=data))
        except kind.error as error:
            log.warning("skipped %s", printable(error))
    if len(ranked) == 1:
        matches = " that matches" if wanted else ""
        raise ConfigError([f"the only {kind.noun} in {folder}{matches} cannot be used"])
    match = " that match" if wanted else ""
    raise ConfigError([f"none of the {len(ranked)} {kind.noun}s in {folder}{match} can be used"])


def setting_of(path: str) -> str:
    """Returns the id of the setting in the name of a network's file."""
    return path.rsplit("/", 1)[-1].partition("-")[0]


def _run_of(network: Found) -> tuple[str, object]:
    return setting_of(network.path), network.about.get("seed")


def _counts(network: Found, counting: Mapping[str, set[int]]) -> bool:
    """Returns whether a network's rows count; other code may have superseded them."""
    trial = "-".join(network.path.rsplit("/", 1)[-1].split("-")[:2])
    seeds = counting.get(trial)
    return seeds is None or "seed" not in network.about or network.about["seed"] in seeds


def rank(
    networks: Sequence[Found], kind: Kind, wanted: Mapping[str, str], where: str
) -> list[Found]:
    """Returns the networks with the wanted values, given as text; the best first.

    Raises:
        ConfigError: there are none, or no network has a key; the message names ``where``.
    """
    keys = {key for network in networks for key in network.about}
    if unknown := [did_you_mean("key", key, keys) for key in wanted if key not in keys]:
        raise UnknownKeyError(unknown)
    matching = [
        network
        for network in networks
        if all(_is(network.about.get(key), text) for key, text in wanted.items())
    ]
    if not matching:
        request = " ".join(f"{key}={value}" for key, value in wanted.items())
        available = (
            f"{key}: {', '.join(sorted({_text(network.about.get(key)) for network in networks}))}"
            for key in wanted
        )
        text = f"no {kind.noun} with {request} in {where}; there is {'; '.join(available)}"
        raise ConfigError([text])
    return sorted(matching, key=lambda network: -_usable(kind.score(network.about)))


def describe(about: About) -> str:
    """Returns a network's description as ``key=value`` words."""
    words = (
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in about.items()
    )
    return printable(" ".join(words))


def _is(value: object, text: str) -> bool:
    """Returns whether a text of the command line means a value, as ``3:5`` means [3, 5]."""
    if isinstance(value, list | tuple):
        parts = _SEPARATORS.split(text.strip("[]() "))
        return len(parts) == len(value) and all(map(_is, value, parts))
    if isinstance(value, dict):
        pairs = [part.partition(":") for part in text.split(";") if part]
        texts = {name: held for name, _, held in pairs}
        return texts.keys() == value.keys() and all(_is(value[name], texts[name]) for name in texts)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return "_" not in text and float(text) == value
        except (OverflowError, ValueError):
            return False
    return _text(value) == text


def _text(value: object) -> str:
    """Returns a value in the notation of the command line."""
    if isinstance(value, list | tuple):
        return ":".join(map(_text, value))
    if isinstance(value, dict):
        return ";".join(f"{name}:{_text(held)}" for name, held in value.items())
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _stored(store: Store, folder: str, kind: Kind) -> Iterable[Found]:
    for info in sorted(store.listing(folder), key=lambda info: info.path):
        if not info.base_name.endswith(kind.ending):
            continue
        data = store.read(info.path, most=None)
        if data is None:  # not a file; a warning was logged
            continue
        try:
            descriptions = kind.read(data, info.path)
        except kind.error as error:
            log.warning("skipped %s", printable(error))
            continue
        yield from (Found(info.path, b"", about) for about in descriptions)


def _usable(score: float) -> float:
    return score if math.isfinite(score) else -math.inf
