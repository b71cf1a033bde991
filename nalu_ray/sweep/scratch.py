"""The folder of Ray Tune's own files below the results, which exists while a sweep runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from nalu_ray.results.store.store import Store, StoreError

try:
    import fcntl
except ImportError:  # Windows: folders of killed commands are not recognised
    fcntl = None  # type: ignore[assignment]

TUNE = ".tune"  # Tune's own folder, below the results
MARK = "mark"
_LOCK = "lock"
_ATTEMPTS, _PAUSE = 20, 0.1  # seconds


@contextlib.contextmanager
def scratch(store: Store, parent: str = TUNE) -> Iterator[str]:
    """Yields the name of a new folder ``<out>/<parent>/<name>``, and removes it at the end.

    An empty file :data:`MARK` in it identifies the results folder to trials.

    A killed command cannot remove its folder, so the next command does. A lock, which the system
    releases with the process, shows whether a folder's command still runs; so several commands may
    run at once.

    Args:
        store: the results.
        parent: name of the folder above the new one.

    Raises:
        StoreError: the folder cannot be created.
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
            discard(store, name, parent)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            _make(folder)
            file = stack.enter_context(open(folder / f"{_LOCK}.new", "wb"))
        except OSError as error:
            raise StoreError(f"cannot write {folder}: {error}") from error
        # on a file system without locks, a killed command's folder is never removed
        with contextlib.suppress(OSError):
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX)
            # named only once it is locked, so that its lock always tells whether this process runs
            os.rename(file.name, folder / _LOCK)
        yield


def _make(folder: Path) -> None:
    while True:
        with contextlib.suppress(FileNotFoundError):  # another command has just removed the parent
            return folder.mkdir(parents=True)


def _remove_abandoned(parent: Path) -> None:
    if fcntl is None or parent.is_symlink():
        return
    for folder in _listed(parent):
        with contextlib.suppress(OSError), _opened(folder) as inside:
            _empty(inside)
            folder.rmdir()
            parent.rmdir()


def _listed(parent: Path) -> list[Path]:
    try:
        return list(parent.iterdir())
    except OSError:  # there is none
        return []


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Yields a folder's descriptor while its lock is held; never follows links."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield at
        finally:
            os.close(lock)
    finally:
        os.close(at)


def _empty(at: int) -> None:
    # the lock last, so that the next command can continue
    for name in sorted(os.listdir(at), key=lambda name: name == _LOCK):
        if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=at)
        else:
            os.unlink(name, dir_fd=at)


def discard(store: Store, name: str, parent: str = TUNE) -> None:
    """Removes the folder of :func:`scratch`, if it can.

    Args:
        store: the results folder or object store that it is in.
        name: its name.
        parent: name of the folder above it.
    """
    if store.folder is None:
        with contextlib.suppress(OSError):
            store.filesystem.delete_dir(f"{store.root}/{parent}/{name}")
        return
    folder = Path(store.folder, parent, name)
    for _ in range(
        _ATTEMPTS
    ):  # a trial that is being stopped may write while its folder is removed
        shutil.rmtree(folder, ignore_errors=True)  # follows no link
        if not folder.exists():
            break
        time.sleep(_PAUSE)
    with contextlib.suppress(OSError):
        os.rmdir(Path(store.folder, parent))
