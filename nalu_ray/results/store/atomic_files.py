"""Lists, reads, writes and removes files of a results folder, locally or in an object store."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs

from nalu_ray.errors import printable

log = logging.getLogger(__name__)

STALE_SECONDS = 24 * 3600
TEXT_BYTES = 16 << 20  # far more than a manifest or the tables of a task take

# errors of fsync on a folder where the file system does not support it
_NOT_SYNCED = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR}
# errors of opening something that is not a file: a socket, a link to itself
_NO_FILE = {errno.ENXIO, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENODEV}


class NoFileError(ValueError):
    """The path is not a readable file: a pipe, a folder, a link to nothing, or too large."""


@dataclass(frozen=True)
class Entry:
    """An entry of a folder: path, whether it is a folder, time of change, size in bytes."""

    path: str
    folder: bool
    mtime_ns: int
    size: int

    @property
    def base_name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def extension(self) -> str:
        """The name's part after the last full stop; empty if there is none."""
        return os.path.splitext(self.base_name)[1][1:]


def is_local(filesystem: fs.FileSystem) -> bool:
    """Returns whether paths are local."""
    return isinstance(filesystem, fs.LocalFileSystem)


def entries(filesystem: fs.FileSystem, folder: str) -> list[Entry]:
    """Returns the entries of a folder; none if it does not exist.

    Local folders are listed without pyarrow, which omits broken links and fails on names that are
    not UTF-8.

    Raises:
        OSError: it cannot be listed.
    """
    if not is_local(filesystem):
        infos = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return [
            Entry(i.path, i.type == fs.FileType.Directory, i.mtime_ns or 0, i.size or 0)
            for i in infos
        ]
    listed = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as items:
        for item in items:
            with contextlib.suppress(FileNotFoundError):  # removed since
                about = item.stat(follow_symlinks=False)
                entry = Entry(item.path, _is_folder(item), about.st_mtime_ns, about.st_size)
                listed.append(entry)
    return listed


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link to itself
        return False


@contextlib.contextmanager
def opened(filesystem: fs.FileSystem, path: str) -> Iterator[tuple[Any, int]]:
    """Yields an open file with ``read`` and ``seek``, and its size in bytes. Never waits on a pipe.

    Raises:
        FileNotFoundError: there is no such file.
        NoFileError: the path is not a file.
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
            raise NoFileError(f"not a file: {error.strerror}") from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NoFileError(f"not a file: {_kind(status.st_mode)}")
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        yield file, status.st_size


def _kind(mode: int) -> str:
    names = {stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")


def whole(stream: Any, size: int) -> bytes:
    """Returns the content of an open file.

    Raises:
        OSError: it cannot be read.
    """
    stream.seek(0)
    parts, remaining = [], size + 1  # one more, as some system files report a size of 0
    while remaining > 0 and (part := stream.read(remaining)):
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)


def read(filesystem: fs.FileSystem, path: str, most: int | None = None) -> bytes:
    """Returns the bytes of a file.

    Args:
        filesystem: the file system.
        path: path in it.
        most: largest size in bytes; None for any.

    Raises:
        FileNotFoundError: there is no such file.
        NoFileError: the path is not a file, or the file is larger.
        OSError: it cannot be read.
    """
    with opened(filesystem, path) as (stream, size):
        if most is not None and size > most:
            raise NoFileError(f"{size:,} bytes, more than {most:,}")
        return whole(stream, size)


def write_whole(filesystem: fs.FileSystem, path: str, data: bytes, *, settle: bool = True) -> None:
    """Writes a file that appears under its name only once it is complete and on the disk.

    Args:
        filesystem: the file system.
        path: path in it.
        data: the content.
        settle: also wait for the folder; see :func:`write_local`.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    if is_local(filesystem):
        write_local(path, data, settle=settle)
        return
    # an object store shows an object only once it is complete
    filesystem.create_dir(path.rsplit("/", 1)[0], recursive=True)
    with filesystem.open_output_stream(path) as stream:
        stream.write(data)


def write_local(path: str, data: bytes, *, settle: bool = True) -> None:
    """Writes a local file that appears under its name only once it is complete and on the disk.

    Args:
        path: the file; its folder is created.
        data: the content.
        settle: wait until the folder is on the disk, too; writing a later file there does so.

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
        for changed in [folder, *fresh]:
            sync_folder(changed)


def _make(folder: str) -> list[str]:
    """Creates a folder and its parents; returns the folders that got a new entry."""
    above, path = [], folder
    while path and not os.path.isdir(path):
        path = os.path.dirname(path)
        above.append(path)
    os.makedirs(folder, exist_ok=True)
    return [path for path in above if path]


def sync_folder(folder: str) -> None:
    """Waits until the names in a folder are on the disk, if its file system supports that.

    Raises:
        OSError: the disk failed.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # not supported by the system, or removed since
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SYNCED:
            raise
    finally:
        os.close(descriptor)


def remove_quietly(filesystem: fs.FileSystem, path: str) -> None:
    """Removes a file if it can."""
    try:
        if is_local(filesystem):
            os.unlink(path)
        else:
            filesystem.delete_file(path)
    except OSError:
        log.debug("left behind %s", printable(path))


def remove_if_empty(filesystem: fs.FileSystem, folder: str) -> None:
    """Removes a local folder if it is empty."""
    if is_local(filesystem):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def remove_stale(filesystem: fs.FileSystem, folder: str) -> None:
    """Removes temporary files that are older than a day, if it can: their writers were killed."""
    limit = (time.time() - STALE_SECONDS) * 1e9
    with contextlib.suppress(OSError):
        for item in entries(filesystem, folder):
            if item.extension == "tmp" and 0 < item.mtime_ns < limit:
                remove_quietly(filesystem, item.path)


def write_bytes(path: Path, data: bytes) -> Path:
    """Writes a file under a temporary name, then renames it; creates its folder.

    Raises:
        OSError: it could not be written, with ``path`` as its file name; nothing is left behind.
    """
    try:
        write_local(str(path.absolute()), data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


def write_text(path: Path, text: str) -> Path:
    """Writes a text as :func:`write_bytes` does."""
    return write_bytes(path, text.encode())
