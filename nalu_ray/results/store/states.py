"""States of unfinished trials, kept below the results: ``<out>/.states/<task>/<key>.pt``.

Beside each, ``<key>.json`` has its setting and seeds. Both have a digest: no trial resumes from a
damaged state.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nalu_ray.errors import printable
from nalu_ray.results.store import atomic_files, seal
from nalu_ray.results.store.store import Store, StoreError

log = logging.getLogger(__name__)


class About(BaseModel):
    """The setting and the seeds of a state; seeds are unique whole numbers of 64 bits."""

    model_config = ConfigDict(extra="ignore", strict=True)

    setting_id: Annotated[str, Field(min_length=1, max_length=100)]
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**63)]], Field(min_length=1)]

    @model_validator(mode="after")
    def _once(self) -> About:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is listed twice")
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
    """Saves a trial's state, its setting and its seeds, replacing an older state.

    Raises:
        StoreError: it could not be written; the older state is unchanged.
    """
    file = path(store, task, key)
    about = seal.seal_json({"setting_id": setting_id, "seeds": list(seeds)})
    store.put(_about(file), about, settle=False)
    store.put(file, seal.seal(data))


def blocks(store: Store, task: str) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the setting and the seeds of each saved state; warns about invalid ones.

    Raises:
        StoreError: the folder cannot be listed, or a description exists but cannot be read.
    """
    stored_blocks = []
    for item in store.listing(f"{store.root}/.states/{task}"):
        if item.extension != "pt":
            continue
        data = store.read(_about(item.path))
        if data is None:
            continue
        try:
            about = About.model_validate_json(seal.unsealed_json(data))
        except ValueError as error:
            reason = _why(error) if isinstance(error, ValidationError) else str(error)
            name = printable(_about(item.path))
            log.warning("skipped %s: not the description of a state (%s)", name, printable(reason))
            continue
        stored_blocks.append((about.setting_id, tuple(about.seeds)))
    return sorted(stored_blocks)


def load(store: Store, task: str, key: str) -> bytes | None:
    """Returns a saved state; None if there is none.

    Raises:
        StoreError: it exists but cannot be read.
        ValueError: it is damaged.
    """
    file = path(store, task, key)
    data = store.read(file, most=None)
    try:
        return None if data is None else seal.unsealed(data)
    except seal.DamagedError as error:
        raise ValueError(f"{file} is {error}") from error


def drop(store: Store, task: str, key: str) -> None:
    """Removes a saved state if it can, and the folder once it is empty.

    Removes partial files of killed writers, too. Another process that saves a state of the same
    trial at this moment gets an error.
    """
    file = path(store, task, key)
    folder = file.rsplit("/", 1)[0]
    with contextlib.suppress(StoreError):
        for item in store.listing(folder):
            if item.path.startswith(file.removesuffix("pt")):
                atomic_files.remove_quietly(store.filesystem, item.path)
    for empty in (folder, folder.rsplit("/", 1)[0]):
        atomic_files.remove_if_empty(store.filesystem, empty)


def path(store: Store, task: str, key: str) -> str:
    """Returns the path of a trial's state."""
    return f"{store.root}/.states/{task}/{key}.pt"


def _why(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())


def _about(file: str) -> str:
    return f"{file.removesuffix('.pt')}.json"
