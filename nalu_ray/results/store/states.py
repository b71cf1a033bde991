"""What unfinished trials go on from, kept below the results: ``<out>/.states/<task>/<key>.pt``.

Beside each, ``<key>.json`` says which setting and seeds it is of. A state ends with a digest of its
bytes: what a disk has changed is never gone on from.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nalu_ray.errors import printable
from nalu_ray.results.store import files, seal
from nalu_ray.results.store.store import Store, StoreError

log = logging.getLogger(__name__)


class About(BaseModel):
    """What a state is of; seeds are whole numbers of 64 bits, each named once."""

    model_config = ConfigDict(extra="ignore", strict=True)

    setting_id: Annotated[str, Field(min_length=1, max_length=100)]
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**63)]], Field(min_length=1)]

    @model_validator(mode="after")
    def _once(self) -> About:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: one is named twice")
        return self


def save(
    store: Store,
    task: str,
    key: str,
    data: bytes,
    *,
    setting_id: str,
    seeds: Sequence[int],
) -> None:
    """Keeps a trial's state in place of what it kept before, and which setting and seeds it is of.

    Raises:
        StoreError: it could not be written; what was kept before is still there.
    """
    file = path(store, task, key)
    about = json.dumps({"setting_id": setting_id, "seeds": list(seeds)})
    store.put(_about(file), about.encode(), settle=False)
    store.put(file, seal.seal(data))


def blocks(store: Store, task: str) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the setting and the seeds of each state that is kept; what is none is named.

    Raises:
        StoreError: the place cannot be listed, or what says so is there and cannot be read.
    """
    kept = []
    for item in store.listing(f"{store.root}/.states/{task}"):
        if item.extension != "pt":
            continue
        data = store.read(_about(item.path))
        if data is None:
            continue
        try:
            about = About.model_validate_json(data)
        except ValidationError as error:
            why = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            name = printable(_about(item.path))
            log.warning("skipped %s: says of no state what it is of (%s)", name, printable(why))
            continue
        kept.append((about.setting_id, tuple(about.seeds)))
    return sorted(kept)


def load(store: Store, task: str, key: str) -> bytes | None:
    """Returns what :func:`save` kept; None if there is nothing.

    Raises:
        StoreError: it is there and cannot be read.
        ValueError: it is not as it was written.
    """
    file = path(store, task, key)
    data = store.read(file, most=None)
    try:
        return None if data is None else seal.unsealed(data)
    except seal.DamagedError as error:
        raise ValueError(f"{file} is {error}") from error


def drop(store: Store, task: str, key: str) -> None:
    """Removes what :func:`save` kept if it can, and the folder with the last of it.

    Also the half of a file that a writer left which was killed. Whoever else writes a state of the
    same trial at this moment is told that it cannot be kept.
    """
    file = path(store, task, key)
    folder = file.rsplit("/", 1)[0]
    with contextlib.suppress(StoreError):
        for item in store.listing(folder):
            if item.path.startswith(file.removesuffix("pt")):
                files.remove_quietly(store.filesystem, item.path)
    for empty in (folder, folder.rsplit("/", 1)[0]):
        files.remove_if_empty(store.filesystem, empty)


def path(store: Store, task: str, key: str) -> str:
    """Returns where a trial's state is kept."""
    return f"{store.root}/.states/{task}/{key}.pt"


def _about(file: str) -> str:
    return f"{file.removesuffix('.pt')}.json"
