"""A lock on a folder, also on file systems without ``flock``."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock

try:
    import fcntl
except ImportError:  # Windows has other locks, which filelock uses
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


def lock_of(folder: Path) -> BaseFileLock:
    """Returns a lock that one process at a time can hold.

    On a file system without ``flock`` the lock is the existence of a file. It stays behind if the
    process is killed; only its own machine can tell that it is stale.

    Raises:
        OSError: the folder cannot be written.
    """
    return FileLock(folder / ".lock") if _has_flock(folder) else SoftFileLock(folder / ".held")


def _has_flock(folder: Path) -> bool:
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
