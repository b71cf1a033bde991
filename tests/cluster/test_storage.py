"""Results folders that fill up, turn read-only or vanish: told, nothing lost, gone on from."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from nalu_ray import tune
from nalu_ray.results.store.store import Store

from .commands import call, command, finish, rows, stored, until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("fake")]

# root of a container may lack the right to mount
MAY_MOUNT = subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0
needs_root = pytest.mark.skipif(not MAY_MOUNT, reason="NOT TESTED: only root may mount a disk")
LINE = "fake layer=a lr=1 steps=4 seconds=0.1 seeds=12 --seeds-per-trial 1 --max-concurrent 1"
SMALL = 1024**2


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    folder.mkdir(parents=True)
    mount("-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Callable[[], None]:
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        room = os.statvfs(disk)
        file.write(b"x" * room.f_bavail * room.f_bsize)
    return ballast.unlink


def read_only(folder: Path) -> Callable[[], None]:
    """Of the task's rows alone: nothing that is open for writing could turn read-only."""
    command = ["mount", "-o", "remount,ro", str(folder / "fake")]
    until(lambda: subprocess.run(command, check=False, capture_output=True).returncode == 0)
    return lambda: mount("-o", f"remount,rw,size={SMALL}", str(folder / "fake"))


def vanish(folder: Path) -> Callable[[], None]:
    """As a network's disk does: what is there now takes no files."""
    away = folder.with_name("away")
    folder.rename(away)
    folder.write_text("")

    def back() -> None:
        folder.unlink()
        away.rename(folder)

    return back


def move_away(folder: Path) -> Callable[[], None]:
    """As when a disk is unmounted: below it is a folder that could be written to."""
    away = folder.with_name("away")
    folder.rename(away)

    def back() -> None:
        assert not list(folder.glob("fake/*"))
        shutil.rmtree(folder, ignore_errors=True)
        away.rename(folder)

    return back


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "fake").glob("*-*.*")}


@pytest.fixture
def whole(fake: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pd.DataFrame:
    """The rows of a sweep that nothing happened to; in this process it takes no time."""
    with monkeypatch.context() as patch:
        patch.setattr("nalu_fake.time", SimpleNamespace(sleep=lambda seconds: None))
        assert tune.main(shlex.split(f"{LINE} --out {tmp_path}/whole --local -q")) == 0
    return rows(tmp_path / "whole", "fake")


def spoiled_midway(
    folder: Path,
    cluster: str,
    whole: pd.DataFrame,
    spoil: Callable[[Path], Callable[[], None]],
    reason: str,
) -> None:
    """Spoils the folder while a sweep runs, then makes it good again."""
    line = f"{LINE} --address {cluster}"
    with command(line) as process:
        until(lambda: len(stored(folder, "fake")) >= 3)
        before = contents(folder)
        restore = spoil(folder)
        code, text = finish(process)
    assert code == 3, text
    (error,) = [line for line in text.splitlines() if line.startswith("error: ")]
    assert str(folder) in error
    assert reason in error
    assert "once this works again, rerun the same command to resume" in error
    assert len(text.splitlines()) < 60, text
    restore()
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    assert all(outcome.ok for outcome in Store(str(folder)).outcomes("fake").values())

    code, text = call(line)
    assert code == 0, text
    assert not list(folder.glob(".*"))
    assert not list(folder.rglob("*.tmp"))
    pd.testing.assert_frame_equal(rows(folder, "fake"), whole, check_exact=True)


@needs_root
def test_a_disk_that_fills_up(tmp_path: Path, cluster: str, whole: pd.DataFrame) -> None:
    with mounted(tmp_path / "results") as disk:
        spoiled_midway(disk, cluster, whole, fill, "No space left on device")


@needs_root
def test_a_disk_that_turns_read_only(tmp_path: Path, cluster: str, whole: pd.DataFrame) -> None:
    with mounted(tmp_path / "results" / "fake"):
        spoiled_midway(tmp_path / "results", cluster, whole, read_only, "Read-only file system")


@pytest.mark.parametrize(("spoil", "reason"), [(vanish, "/mark"), (move_away, "/mark")])
def test_a_folder_that_vanishes(
    tmp_path: Path,
    cluster: str,
    whole: pd.DataFrame,
    spoil: Callable[[Path], Callable[[], None]],
    reason: str,
) -> None:
    (tmp_path / "results").mkdir()
    spoiled_midway(tmp_path / "results", cluster, whole, spoil, reason)


@needs_root
@pytest.mark.parametrize(
    ("spoil", "reason"), [(fill, "No space left on device"), (read_only, "Read-only file system")]
)
def test_refused_before_it_starts(
    tmp_path: Path, spoil: Callable[[Path], Callable[[], None]], reason: str
) -> None:
    folder = tmp_path / "results"
    with mounted(folder / "fake"):
        restore = spoil(folder if spoil is read_only else folder / "fake")
        code, text = call(f"{LINE} --local")
        assert code == 2
        assert text.startswith(f"error: cannot write {folder}/fake/")
        assert reason in text
        restore()
        assert call(f"{LINE} --local -q")[0] == 0
