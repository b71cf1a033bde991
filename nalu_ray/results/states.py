"""What unfinished trials go on from, kept below the results: ``<out>/.states/<task>/<key>.pt``."""

from __future__ import annotations

from nalu_ray.results import files
from nalu_ray.results.store import Store, StoreError


def save(store: Store, task: str, key: str, data: bytes) -> None:
    """Keeps a trial's state in place of what it kept before.

    Raises:
        StoreError: it could not be written; what was kept before is still there.
    """
    file = path(store, task, key)
    try:
        files.write_whole(store.filesystem, file, data)
    except OSError as error:
        raise StoreError(f"cannot write {file}: {error}") from error


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
    """Removes what :func:`save` kept if it can, and the folder with the last of it."""
    file = path(store, task, key)
    files.remove_quietly(store.filesystem, file)
    files.remove_if_empty(store.filesystem, file.rsplit("/", 1)[0])
    files.remove_if_empty(store.filesystem, file.rsplit("/", 2)[0])


def path(store: Store, task: str, key: str) -> str:
    """Returns where a trial's state is kept."""
    return f"{store.root}/.states/{task}/{key}.pt"
