"""A sweep without Ray: streams that are gone, and a results folder that fills up or goes away."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nalu_ray import registry, tune
from nalu_ray.command.exits import Exit
from nalu_ray.results.store import states
from nalu_ray.results.store.store import Store
from nalu_ray.sweep import local
from nalu_ray.sweep.deviations import members
from nalu_ray.sweep.stdio import Stream, lasting
from nalu_ray.sweep.trial import Trial
from tests.conftest import PYTHONPATH

from .test_trial import spec

pytestmark = pytest.mark.usefixtures("fake")

# root of a container may lack the right to mount
MAY_MOUNT = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
)
LINE = "fake layer=a lr=1 steps=4 seeds=3 --seeds-per-trial 1 --local --out results"


def call(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = tune.main(shlex.split(line))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out + err


def outcomes() -> dict[int, bool]:
    return {o.seed: o.ok for o in Store("results").outcomes("fake").values()}


def mounting(program: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process that sees mounts of its own."""
    return subprocess.run(
        ["unshare", "-m", sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_kill_between_rows_and_state_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    dropped = states.drop
    monkeypatch.setattr(states, "drop", lambda *_: None)
    monkeypatch.setattr(local, "Trial", partial(Trial, report_seconds=0, state_seconds=0))
    assert call(LINE, capsys)[0] == Exit.DONE
    assert len(list(Path("results/.states/fake").glob("*.pt"))) == 3
    monkeypatch.setattr(states, "drop", dropped)
    states.save(Store("results"), "fake", "other", b"state", setting_id="x", seeds=(0, 9))
    assert call(LINE, capsys)[0] == Exit.DONE
    assert [path.name for path in Path("results/.states/fake").glob("*.pt")] == ["other.pt"]
    assert outcomes() == {0: True, 1: True, 2: True}


ROOM_KIB = 56  # beside the specifications: for the rows of some trials, not of all


@pytest.mark.slow
@pytest.mark.skipif(not MAY_MOUNT, reason="NOT TESTED: only root may mount a disk")
def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    """Its trials leave no room for the rows of the last ones, only for a few words."""
    words = "static layer=nac op=add,sub seeds=8 steps=40 evaluations=20 batch=8 test_size=8"
    line = f"{words} --seeds-per-trial 2 --local -q --out {tmp_path}"
    task = registry.task("static")
    specs = task.specs().model_copy(update={"presets": members(task)}).model_dump_json(indent=1)
    room = len(specs) // 1024 + ROOM_KIB
    (tmp_path / "small").mkdir()
    program = f"""if True:
    import pathlib, shutil, subprocess
    from nalu_ray import tune
    small = pathlib.Path("{tmp_path}/small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size={room}k", "tmpfs", small], check=True)
    codes = [tune.main("{line}/small".split())]
    assert not list(small.rglob("*traceback*"))
    subprocess.run(["mount", "-o", "remount,size=8m", small], check=True)
    codes += [tune.main("{line}/small".split()), tune.main("{line}/whole".split())]
    shutil.copytree(small, "{tmp_path}/copy")
    print(*map(int, codes))
    """
    run = mounting(program)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["3", "0", "0"], run.stdout + run.stderr
    (error,) = run.stderr.splitlines()
    assert error.startswith(f"error: cannot write {tmp_path}/small/static/")
    assert error.endswith("No space left on device; " + GOES_ON)
    copy, whole = (Store(str(tmp_path / name)).load("static") for name in ("copy", "whole"))
    order = ["setting_id", "seed", "split", "metric", "step"]
    pd.testing.assert_frame_equal(
        copy.sort_values(order, ignore_index=True), whole.sort_values(order, ignore_index=True)
    )


GOES_ON = "finished trials are stored; once this works again, rerun the same command to resume"


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a file"])
def test_a_folder_that_goes_away_meanwhile(
    there: str, fake: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a disk that is unmounted: what is below takes files, and must get none."""
    run, done = type(fake.start(fake.setting_type(), (0,), None)), []
    advance = run.advance

    def and_go(self: Any) -> Any:
        progress = advance(self)
        done.append(self.seeds)
        if len(done) == 5:  # the second trial's first step
            os.rename("results", "away")
            if there == "an empty folder":
                Path("results").mkdir()
            elif there == "a file":
                Path("results").touch()
        return progress

    with monkeypatch.context() as patch:
        patch.setattr(run, "advance", and_go)
        code, text = call(LINE, capsys)
    assert code == Exit.STOPPED == 3
    (error,) = [line for line in text.splitlines() if line.startswith("error: ")]
    assert "/mark" in error
    assert error.endswith(GOES_ON)
    assert len(done) == 8, "no third trial"
    if there == "a file":
        os.remove("results")
    else:
        assert not Path("results").exists() or not list(Path("results").rglob("*.parquet"))
        shutil.rmtree("results", ignore_errors=True)
    os.rename("away", "results")
    assert outcomes() == {0: True}
    assert call(LINE, capsys)[0] == 0
    assert outcomes() == dict.fromkeys(range(3), True)
    assert not list(Path("results").glob(".*"))


def test_no_trial_begins_without_the_mark(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    start = Trial.start

    def and_go(self: Trial, **options: Any) -> None:
        begun.append(self.spec)
        start(self, **options)

    write = Trial.finish

    def finish(self: Trial) -> pd.DataFrame:
        rows = write(self)
        shutil.rmtree("results/.tune")
        return rows

    monkeypatch.setattr(Trial, "start", and_go)
    monkeypatch.setattr(Trial, "finish", finish)
    assert call(LINE, capsys)[0] == 3
    assert len(begun) == 1
    assert begun[0].mark.endswith("/mark")


class Gone:
    """A stream whose reader went away."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    def flush(self) -> None:
        self.write("")

    isatty = flush


def test_a_warning_or_a_print_without_a_reader_fails_no_seed(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = type(fake.start(fake.setting_type(), (0,), None))
    go_wrong = run.go_wrong

    def chatty(self: Any) -> None:
        print("half way", flush=True)
        sys.stderr.writelines(["half", "way"])
        go_wrong(self)

    monkeypatch.setattr(run, "go_wrong", chatty)
    for stream in (Gone(), None):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            with lasting():
                *_, last = Trial(spec(fake, tmp_path, wrong="warn"))
        assert dict(last.failed) == {}


def test_a_lasting_stream_is_the_inner_one_otherwise(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as file:
        stream = Stream(file)
        assert stream.write("abc") == 3
        stream.flush()
        assert (stream.name, stream.isatty()) == (file.name, False)
    assert stream.write("of a closed file") == 16
    stream.flush()
    assert (tmp_path / "file").read_text() == "abc"
