"""Locks on a folder, also where its file system keeps none."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock

try:
    import fcntl
except ImportError:  # Windows has locks of its own, which filelock knows
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


def lock_of(folder: Path) -> BaseFileLock:
    """Returns a lock that one process at a time holds.

    Where the file system keeps no locks it is one by the existence of a file, which stays behind
    if the process is killed and this machine is not the one that finds it.

    Raises:
        OSError: the folder cannot be written.
    """
    return FileLock(folder / ".lock") if _keeps_locks(folder) else SoftFileLock(folder / ".held")


def _keeps_locks(folder: Path) -> bool:
    if fcntl is None:
        return True
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise
    return True
