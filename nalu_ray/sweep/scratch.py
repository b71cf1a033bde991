"""The folder that Ray Tune keeps its own files in while a sweep runs, below the results."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs

from nalu_ray.results.store.store import Store

try:
    import fcntl
except ImportError:  # Windows: nothing tells a killed command's folder from a live one's
    fcntl = None  # type: ignore[assignment]

MARK = "mark"
_LOCK = "lock"


@contextlib.contextmanager
def scratch(store: Store, parent: str) -> Iterator[str]:
    """Yields the name of a fresh folder ``<out>/<parent>/<name>`` and removes it in the end.

    In it lies an empty file :data:`MARK`, by which others know the results folder.

    A command that is killed cannot tidy up: the next one does. A lock that the system drops with
    the process tells whether a folder's command still runs, so two at once are safe.

    Args:
        store: the results.
        parent: name of the folder that holds it.
    """
    name = uuid.uuid4().hex[:12]
    folder = None if store.folder is None else Path(store.folder, parent)
    with contextlib.ExitStack() as stack:
        if folder is not None:
            _remove_abandoned(folder)
            stack.enter_context(_locked(folder / name))
        try:
            store.put(f"{store.root}/{parent}/{name}/{MARK}", b"")
            yield name
        finally:
            _remove(store.filesystem, f"{store.root}/{parent}", name)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    _make(folder)
    with open(folder / f"{_LOCK}.new", "wb") as file:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX)
        # it gets its name once it is locked: whoever sees it can tell whether this process lives
        os.rename(file.name, folder / _LOCK)
        yield


def _make(folder: Path) -> None:
    while True:
        with contextlib.suppress(FileNotFoundError):  # another command's end took the parent away
            return folder.mkdir(parents=True)


def _remove_abandoned(parent: Path) -> None:
    for lock in parent.glob(f"*/{_LOCK}"):
        if fcntl:
            with contextlib.suppress(OSError), open(lock, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for path in lock.parent.iterdir():  # the lock last: by it the next one finds it
                    if path != lock:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                _remove(fs.LocalFileSystem(), str(parent), lock.parent.name)


def _remove(filesystem: fs.FileSystem, parent: str, name: str) -> None:
    with contextlib.suppress(OSError):
        filesystem.delete_dir(f"{parent}/{name}")
    with contextlib.suppress(OSError):
        os.rmdir(parent)
