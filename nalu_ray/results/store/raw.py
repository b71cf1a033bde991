"""Bytes of a results folder, on this machine or in an object store: listed, read, written whole."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

TEXT_BYTES = 16 << 20  # far more than a manifest or the tables of a task take

# what a folder answers where there is no such thing as its synchronisation
_NOT_SYNCED = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR}
# what the opening of something answers that is no file: a socket, a link to itself
_NO_FILE = {errno.ENXIO, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENODEV}


class NoFileError(ValueError):
    """What has a file's name is none that can be read: a pipe, a folder, a link to nothing."""


@dataclass(frozen=True)
class Entry:
    """Something in a folder: its path as text, whether it is a folder, and when it was changed."""

    path: str
    folder: bool
    mtime_ns: int

    @property
    def base_name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def extension(self) -> str:
        """What follows the last full stop of the name; nothing if there is none."""
        return os.path.splitext(self.base_name)[1][1:]


def is_local(filesystem: fs.FileSystem) -> bool:
    """Whether paths are of this machine's own file systems."""
    return isinstance(filesystem, fs.LocalFileSystem)


def entries(filesystem: fs.FileSystem, folder: str) -> list[Entry]:
    """Returns what lies in a folder; nothing if there is no such folder.

    pyarrow leaves out links to nothing and gives names that are no UTF-8 to nobody: a folder of
    this machine is listed here.

    Raises:
        OSError: it cannot be listed.
    """
    if not is_local(filesystem):
        infos = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return [Entry(i.path, i.type == fs.FileType.Directory, i.mtime_ns or 0) for i in infos]
    listed = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as items:
        for item in items:
            with contextlib.suppress(FileNotFoundError):  # removed since
                changed = item.stat(follow_symlinks=False).st_mtime_ns
                listed.append(Entry(item.path, _is_folder(item), changed))
    return listed


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link to itself
        return False


@contextlib.contextmanager
def opened(filesystem: fs.FileSystem, path: str) -> Iterator[tuple[Any, int]]:
    """Yields an open file with ``read`` and ``seek``, and its size in bytes. Waits for no pipe.

    Raises:
        FileNotFoundError: there is no such file.
        NoFileError: it is none.
        OSError: it cannot be opened.
    """
    if not is_local(filesystem):
        with filesystem.open_input_file(path) as stream:
            yield stream, stream.size()
        return
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        if os.path.islink(path):
            raise NoFileError("a link to nothing") from None
        raise
    except OSError as error:
        if error.errno in _NO_FILE:
            raise NoFileError(f"no file: {error.strerror}") from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NoFileError(f"no file: {_kind(status.st_mode)}")
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        yield file, status.st_size


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def whole(stream: Any, size: int) -> bytes:
    """Returns all of an open file from its beginning.

    Raises:
        OSError: it cannot be read, or ends too early.
    """
    stream.seek(0)
    parts, left = [], size + 1  # one more, for files of the system that say to be empty
    while left > 0 and (part := stream.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def read(filesystem: fs.FileSystem, path: str, most: int | None = None) -> bytes:
    """Returns the bytes of a file.

    Args:
        filesystem: where it is.
        path: in it.
        most: a larger file is refused.

    Raises:
        FileNotFoundError: there is no such file.
        NoFileError: it is none, or larger.
        OSError: it cannot be read.
    """
    with opened(filesystem, path) as (stream, size):
        if most is not None and size > most:
            raise NoFileError(f"{size:,} bytes, more than {most:,}")
        return whole(stream, size)


def write_local(path: str, data: bytes, *, settle: bool = True) -> None:
    """Writes a file of this machine that has its name only once it is whole, and on the disk.

    Args:
        path: of the file; its folder is made.
        data: all of it.
        settle: wait until the folder, too, is on the disk; a later file of it may do so for both.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    folder = os.path.dirname(path)
    target = f"{path}.{uuid.uuid4().hex[:8]}.tmp"
    fresh = _make(folder)
    try:
        with open(target, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(target, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(target)
        raise
    if settle:
        for place in [folder, *fresh]:
            sync_folder(place)


def _make(folder: str) -> list[str]:
    """Makes a folder and those above it; returns the folders that so got an entry."""
    above, path = [], folder
    while path and not os.path.isdir(path):
        path = os.path.dirname(path)
        above.append(path)
    os.makedirs(folder, exist_ok=True)
    return [path for path in above if path]


def sync_folder(folder: str) -> None:
    """Waits until the names in a folder are on the disk, where its file system knows of that.

    Raises:
        OSError: the disk failed.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # a system on which folders cannot be opened, or one that was removed since
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SYNCED:
            raise
    finally:
        os.close(descriptor)
