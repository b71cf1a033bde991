"""Sweeps on Ray: the same rows as without it, whatever is killed on the way."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from rich.console import Console

from nalu_ray import tune
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.device import REHEARSE
from nalu_ray.sweep.dispatch import TrialSpec
from nalu_ray.sweep.gpu_sharing import Measured
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, make_plan
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.trial import Report, Trial
from tests.conftest import PYTHONPATH

WRONG = ("no", "raise", "diverge")

pytestmark = [pytest.mark.usefixtures("fake"), pytest.mark.slow]


def rows(out: str | Path = "results") -> pd.DataFrame:
    frame = Store(str(out)).load("fake")
    return frame.sort_values(["setting_id", "seed", "metric"]).reset_index(drop=True)


def seeds(out: str | Path = "results", ok: bool = True) -> list[int]:
    return sorted(o.seed for o in Store(str(out)).outcomes("fake").values() if o.ok == ok)


def files(folder: str = "results/fake", pattern: str = "*.parquet") -> set[str]:
    return {path.name for path in Path(folder).glob(pattern)}


def marks(event: str, folder: Path) -> list[list[str]]:
    """Lines that runs left: event, layer, first seed, step, process."""
    file = folder / "marks"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.split() for line in lines if line.startswith(event)]


def call(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = tune.main(shlex.split(line))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out + err


def ran(but: Collection[str] = ()) -> dict[tuple[Any, ...], list[int]]:
    """The seeds of each layer, lr and wrong that files hold, each seed as often as it was run."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for name in files() - set(but):
        frame = pd.read_parquet(f"results/fake/{name}")
        ends = frame[frame.metric == "completed"]
        for layer, lr, wrong, seed in ends[["layer", "lr", "wrong", "seed"]].itertuples(
            index=False
        ):
            found[layer, lr, wrong] = sorted([*found.get((layer, lr, wrong), []), seed])
    return found


def until(happened: Callable[[], Any], seconds: float = 200) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


# what a shell starts in the background ignores it, and so does all that this starts
HEEDING_CTRL_C = ["env", "--default-signal=INT,HUP"] if sys.platform == "linux" else []


def command(line: str, before: str = "", **options: Any) -> subprocess.Popen[str]:
    """Starts the real command in a process group of its own, as a shell does.

    Args:
        line: its words.
        before: code that runs in its process first.
        options: of the process.
    """
    program = f"import sys; from nalu_ray import tune\n{before}\nsys.exit(tune.main(sys.argv[1:]))"
    how = ["-c", program] if before else ["-m", "nalu_ray.tune"]
    return subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, *how, *shlex.split(line)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "RAY_AUTH_MODE": "disabled"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


# -- on the session's cluster ----------------------------------------------------------------------


def test_what_lives_of_ray_answers(cluster: str) -> None:
    from nalu_ray.sweep.ray import liveness

    parts = liveness.parts()
    assert [part.name for part in parts] == [
        "head (gcs_server)",
        "part on this machine (raylet)",
    ]
    for part in parts:
        part._greet()
        assert not part.lost()


def test_ray_gives_the_rows_of_a_local_run_under_readable_names(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ray.util.state import list_actors, list_tasks

    from nalu_ray.sweep.ray import journal

    line = "fake wrong=no,warn --seeds-per-trial 5"
    assert call(f"{line} --out alone --local", capsys)[0] == 0
    code, text = call(f"{line} --out on_ray -v", capsys)
    assert code == 0
    pd.testing.assert_frame_equal(rows("on_ray"), rows("alone"))
    assert len(rows("alone")) == 120

    first, *_ = text.splitlines()
    assert re.fullmatch(r"dashboard: http://127\.0\.0\.1:\d+, open while this runs", first)
    assert f"rows: {tmp_path}/on_ray/fake" in text
    assert "overhead, worker start included: " in text
    assert text.count("warning: UserWarning: weights look odd") == 1
    assert not list(Path("on_ray").glob(".*"))

    wanted = {f"fake a lr={lr} wrong=no seeds {s}" for lr in (0.1, 0.01) for s in ("0-4", "5-9")}
    # other tests leave thousands of calls of actors behind
    finished_tasks = [("type", "=", "NORMAL_TASK"), ("state", "=", "FINISHED")]
    until(
        lambda: (
            wanted
            <= {t.name for t in list_tasks(address=cluster, limit=1000, filters=finished_tasks)}
        )
    )
    slots = [
        a for a in list_actors(address=cluster, limit=1000, detail=True) if a.class_name == "Slot"
    ]
    assert slots
    assert all(re.fullmatch(r"fake trials, slot \d+", slot.repr_name) for slot in slots)
    # Tune's calls of the slots would drown the trials
    calls = list_tasks(address=cluster, limit=1000, filters=[("type", "=", "ACTOR_TASK")])
    of_slots = [call.name for call in calls if call.name.startswith("Slot.")]
    assert not [name for name in of_slots if name.endswith((".train", ".reset", ".save"))]
    path = journal.path()
    assert path
    assert "A fake task: 12 trials, 2 at a time, " in path.read_text()


def test_a_slot_goes_on_once_its_task_has_returned(cluster: str) -> None:
    """Tune may end a slot after the last report; Ray would end its task, and call it FAILED."""
    import ray

    from nalu_ray.sweep.ray.worker import Slot

    @ray.remote(num_cpus=0, max_retries=0)
    def task() -> Iterator[Report]:
        yield Report(1, 1, done=True)
        time.sleep(1)

    slot = Slot.__new__(Slot)
    slot.reports = reports = task.remote()
    assert slot.step()["done"]
    assert slot.reports is None
    ready, _ = ray.wait([reports.completed()], timeout=0)
    assert ready


def test_failures_are_left_and_only_the_difference_runs(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = f"fake layer=a,b lr=1 wrong=no,raise,diverge folder={tmp_path} --max-concurrent 1"
    code, text = call(f"{base} seeds=2", capsys)
    assert code == 1
    assert len({mark[4] for mark in marks("start", tmp_path)}) == 1  # trials share a process
    running, summary = text.split("rows: ")
    assert running.count("ValueError: cannot go on") == 1
    for line in (
        "failed: 4 seeds: ValueError: cannot go on at seed 0 (traceback: ",
        "    fake a lr=1 wrong=raise seeds 0-1",
        "    fake b lr=1 wrong=raise seeds 0-1",
        "failed: 2 seeds: diverged at step 1",
        "    fake a lr=1 wrong=diverge seed 1",
    ):
        assert line in summary
    assert ran() == {(layer, 1, wrong): [0, 1] for layer in "ab" for wrong in WRONG}

    before = files()
    code, text = call(f"{base} seeds=2", capsys)
    assert (code, files()) == (1, before)
    assert "6 done before, 6 failed before (--rerun-failed runs them); 0 to do" in text
    assert "failed: 4 seeds: ValueError" in text

    more = base.replace("layer=a,b lr=1", "layer=a lr=1,2")
    _, text = call(f"{more} seeds=3 --dry-run", capsys)
    assert "18 seeds; 3 done before, 3 failed before (--rerun-failed runs them); 12 to do" in text
    assert call(f"{more} seeds=3 --rerun-failed --local", capsys)[0] == 1
    assert ran(but=before) == {
        ("a", 1, "no"): [2],
        ("a", 1, "raise"): [0, 1, 2],
        ("a", 1, "diverge"): [1, 2],
        **{("a", 2, wrong): [0, 1, 2] for wrong in WRONG},
    }


def test_fail_fast_stops_the_sweep(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    one_by_one = "--seeds-per-trial 1 --max-concurrent 1"
    line = f"fake layer=a lr=1 seeds=6 wrong=raise seconds=0.05 {one_by_one} --fail-fast"
    code, text = call(line, capsys)
    assert code == 1
    assert 1 <= len(seeds(ok=False)) < 4
    assert re.search(r"failed: \d+ seeds: not done", text)


def test_tensorboard_shows_one_curve_a_setting_beside_rows_by_uri(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "fake layer=a lr=1,2 seeds=5 steps=4 --seeds-per-trial 2 --max-concurrent 1"
    code, text = call(f"{line} --tensorboard --out file://{tmp_path}/there", capsys)
    assert code == 0
    (folder,) = re.findall(r"tensorboard --logdir (.*)", text)
    assert Path(folder).parent == tmp_path / "there" / ".tensorboard"
    found = {path.name: scalars(path) for path in Path(folder).iterdir()}
    assert set(found) == {"fake_a_lr=1", "fake_a_lr=2"}
    frame = Store("there").load("fake")
    (sid,) = frame.loc[frame["lr"] == 2.0, "setting_id"].unique()
    own = frame[(frame["setting_id"] == sid) & (frame["metric"] == "mse")]
    for split, rows in own.groupby("split"):
        over_seeds = rows.groupby("step")["value"].median()
        shown = found["fake_a_lr=2"][f"{split}/mse/median"]
        assert shown == pytest.approx(over_seeds.to_dict())
    assert len(own["seed"].unique()) == 5
    assert [tag for tag in found["fake_a_lr=1"] if tag.startswith("live/")] == ["live/mse"]
    assert not Path("there/.tune").exists()


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """What a run of TensorBoard's shows: tag -> step -> value. TensorBoard itself is not needed."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = folder.iterdir()
    data, found = file.read_bytes(), {}
    while data:  # length, its checksum, an event, its checksum
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_the_fastest_number_of_trials_share_a_gpu_each_in_a_process_where_a_node_has_several(
    cluster: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nalu_ray.sweep import ray

    where = f"folder={tmp_path} --address {cluster} --out {tmp_path} --max-concurrent 1"
    line = f"fake layer=a lr=1,2 seeds=3 {where} --cpus-per-trial 0.5"
    with monkeypatch.context() as patch:
        patch.delenv(REHEARSE)
        code, text = call(f"{line} --gpus-per-trial auto", capsys)
    assert code == 2  # Ray believes in GPUs that torch does not see
    assert "declares 2 GPUs to Ray, but torch finds 0 there" in text

    code, text = call(f"{line} --gpus-per-trial auto", capsys)
    assert code == 2  # the measuring trial runs on the CPU, which has no CUDA to ask
    assert "cannot be measured" in text
    assert "; give a number" in text
    (tmp_path / "marks").unlink()

    measured = []

    def measure(spec: TrialSpec, trials: int) -> Measured:
        measured.append((spec.gpus, trials))
        return Measured(rate=100 * trials, taken=trials, room=10)

    monkeypatch.setattr(ray, "measure_gpu", measure)
    code, text = call(f"{line} --gpus-per-trial auto", capsys)
    assert code == 0
    assert "2 trials of 3 seeds on a GPU: 200 seed-steps/s" in text
    assert "of the cluster at" in text
    assert "0.5 GPU" in text  # two GPUs for two CPUs, two trials a CPU
    assert measured == [(1.0, 1), (0.5, 2)]
    started = marks("start", tmp_path)
    assert len({mark[4] for mark in started}) == len(started) == 2
    assert {mark[5] for mark in started} <= {"0", "1"}
    assert call(f"{line} --gpus-per-trial auto", capsys)[0] == 0
    assert len(measured) == 2  # nothing to run, nothing to measure


def test_a_node_that_comes_with_other_code_ends_the_sweep(
    cluster: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nalu_ray.sweep.ray import driver

    monkeypatch.setattr(driver, "package_digest", lambda: "abc")
    monkeypatch.setattr(driver, "RETRIES", 0)
    code, text = call(f"fake layer=a lr=1 seeds=1 --address {cluster} -q", capsys)
    assert code == 3
    assert "runs different code" in text
    assert (
        "from this command (abc): copy the same code to every node; finished trials are stored"
        in text
    )
    assert files() == set()


def test_what_is_begun_goes_on_however_seeds_are_dealt_now(
    fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = fake.setting_type(lr=1, steps=20, folder=str(tmp_path))
    job = Job("results", Resources(), 1.0)
    machine = Capacity("test", (Node(1, 0, 8 * GIB),))
    (begun,) = make_plan(fake, [Point(setting=setting, seeds=(0, 1, 2))], {}, job, machine).trials
    for report in Trial(begun, report_seconds=0, state_seconds=0):
        if report.step == 2:
            break
    line = f"fake layer=a lr=1 seeds=5 folder={tmp_path} --seeds-per-trial 1 --local"
    assert call(line, capsys)[0] == 0
    assert [mark[2] for mark in marks("resumed", tmp_path)] == ["0"]
    assert sorted(mark[2] for mark in marks("closed", tmp_path)) == ["0", "0", "3", "4"]
    assert seeds() == [0, 1, 2, 3, 4]
    assert not Path("results/.states").exists()


# -- lost workers and commands ---------------------------------------------------------------------


def test_lost_workers(
    cluster: str, fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is lost once goes on from its state; one lost again and again leaves its reason."""
    from nalu_ray.sweep import ray

    make = {"steps": 10, "seconds": 0.3, "folder": str(tmp_path)}
    settings = [
        fake.setting_type(layer="a", wrong="kill", **make),
        fake.setting_type(layer="b", wrong="kill_always", **{**make, "steps": 2, "seconds": 0}),
    ]
    points = [Point(setting=setting, seeds=(0, 1)) for setting in settings]
    store = Store(str(tmp_path))
    job = Job(store.out, Resources(), 1.0)
    plan = make_plan(fake, points, {}, job, Capacity("test", (Node(2, 0, 8 * GIB),)))
    with Board(Console(width=200), plan) as board:
        ray.run(plan, board, store, state_seconds=0.5, retries=1)
    text = capsys.readouterr().out

    (resumed,) = marks("resumed", tmp_path)
    assert 0 < int(resumed[3]) <= 5
    assert len({mark[4] for mark in marks("start a", tmp_path)}) == 2
    assert "lost the worker of fake" in text
    alone = fake.start(settings[0], (0, 1), None)
    while alone.advance().step < 10:
        pass
    mine = rows(tmp_path)
    errors = mine[(mine.layer == "a") & (mine.metric == "mse")]
    assert list(errors.value) == list(alone.values.values())

    outcomes = store.outcomes("fake")
    reasons = {o.reason for o in outcomes.values() if o.setting_id == settings[1].id}
    assert len(reasons) == 1
    assert re.match(r"WorkerCrashedError: .* \(retries: 1\)", str(reasons.pop()))
    assert len(marks("start b", tmp_path)) == 2
    assert (board.trials_done, board.seeds_failed, board.seeds_done) == (2, 2, 2)


SLOW = "fake layer=a lr=1 steps=4 seconds=0.1 --seeds-per-trial 1"


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=200)
    assert "Traceback" not in out + err
    return process.returncode, out + err


def processes(session: int) -> list[str]:
    """What still runs of the session that a command was started in."""
    asked = ["ps", "-o", "args=", "-s", str(session)]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()


@contextlib.contextmanager
def ended(*started: subprocess.Popen[str]) -> Iterator[None]:
    """Kills commands in the end, whatever happens: others share the cluster."""
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()


def workers_of(label: str) -> list[str]:
    """The processes of Ray that work on trials of a label."""
    found = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    return [words[0] for words in found if words and words[0].startswith(f"ray::{label}")]


def test_commands_that_share_a_folder_and_are_killed(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # neither may finish before the other has begun, on a busy machine
    line = f"{SLOW} seeds=400 --max-concurrent 1 --address {cluster}"
    killed, terminated = command(line), command(line)
    with ended(killed, terminated):
        until(lambda: len(files()) >= 4 and len(list(Path("results/.tune").iterdir())) == 2)
        killed.kill()
        killed.communicate()
        now = len(files())
        until(lambda: len(files()) >= now + 3)  # the other one goes on
        terminated.terminate()
        code, text = finish(terminated)
    assert code == 143
    assert "terminated: finished trials are stored" in text
    assert len(list(Path("results/.tune").iterdir())) == 1

    until(lambda: not workers_of("fake a lr=1"))  # no worker of a dead command goes on
    kept, before = len(seeds()), files()
    assert 4 <= kept < 400
    assert not files(pattern="*.tmp")

    code, text = call(f"{SLOW} seeds={kept + 3} --max-concurrent 1", capsys)
    assert code == 0
    assert f"{kept} done before; 3 to do" in text
    assert len(files() - before) == 3
    assert seeds() == list(range(kept + 3))
    assert len(rows()) == 2 * (kept + 3)
    assert not Path("results/.tune").exists()


def test_a_cluster_that_is_not_there_is_a_mistake() -> None:
    code, text = finish(command("fake --address 127.0.0.1:1"))
    assert code == 2
    assert text.startswith("error: --address 127.0.0.1:1: ")
