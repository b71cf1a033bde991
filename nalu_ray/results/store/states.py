"""What unfinished trials go on from, kept below the results: ``<out>/.states/<task>/<key>.pt``.

Beside each, ``<key>.json`` says which setting and seeds it is of.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from nalu_ray.results.store import files
from nalu_ray.results.store.store import Store, StoreError


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
    store.put(_about(file), about.encode())
    store.put(file, data)


def blocks(store: Store, task: str) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the setting and the seeds of each state that is kept; of what can be read.

    Raises:
        StoreError: the place cannot be listed.
    """
    found = []
    for item in store.listing(f"{store.root}/.states/{task}"):
        if item.extension == "pt":
            try:
                with store.filesystem.open_input_stream(_about(item.path)) as stream:
                    about = json.loads(stream.read())
                found.append((str(about["setting_id"]), tuple(map(int, about["seeds"]))))
            except (OSError, ValueError, LookupError, TypeError):
                continue
    return sorted(found)


def load(store: Store, task: str, key: str) -> bytes | None:
    """Returns what :func:`save` kept; None if there is nothing.

    Raises:
        StoreError: it is there and cannot be read.
    """
    file = path(store, task, key)
    try:
        with store.filesystem.open_input_stream(file) as stream:
            data: bytes = stream.read()
            return data
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {file}: {error}") from error


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
