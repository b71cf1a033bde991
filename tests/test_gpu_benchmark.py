"""benchmarks/gpu.py on the CPU in seconds, so that it works when a GPU is there."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from nalu_ray import registry
from nalu_ray.training import recording
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def gpu() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu", ROOT / "benchmarks" / "gpu.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu"] = module  # its dataclass looks there
    spec.loader.exec_module(module)
    return module


WORDS = ["--device", "cpu", "--preset", "smoke", "--seconds", "0.02", "--minutes", "5"]


@pytest.fixture
def here(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Its processes are calls in this one."""

    class Process:
        returncode = 0

        def __init__(self, words: list[str], **_: Any) -> None:
            self.words = words[2:]

        def communicate(self) -> tuple[str, None]:
            options = self.words
            times = [[0.0, 0], [1.0, 10], [2.0, 30]]
            assert options[options.index("--tasks") + 1] == "identity"
            assert options[options.index("--seeds") + 1] == "1"
            return f"noise\n{json.dumps(times)}\n", None

    monkeypatch.setattr(gpu, "subprocess", SimpleNamespace(Popen=Process, PIPE=-1))
    return gpu


def table(path: Path) -> list[list[str]]:
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_all_of_it_is_one_table(here: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "gpu.md"
    words = [*WORDS, "--tasks", "identity", "--seeds", "2", "3", "--out", str(out)]
    assert here.main(words) == 0
    header, _, *rows = table(out)
    assert header == list(here.HEADER)
    assert {len(row) for row in rows} == {len(header)}
    checks = {row[3]: row for row in rows if row[0] == "correct"}
    assert list(checks) == [
        *("smoke to its end", "replica and seed alone", "resumed and uninterrupted")
    ]
    assert {row[-1] for row in checks.values()} == {"ok"}
    assert checks["resumed and uninterrupted"][4] == "0.0e+00"
    speeds = [row for row in rows if row[3] == "seed-steps/s"]
    assert [row[2] for row in speeds] == ["2", "3"]
    assert all(float(row[4].replace(",", "")) > 0 for row in speeds)
    assert [row[3] for row in rows if row[0] == "step"] == ["engine=auto"]
    (shared,) = [row for row in rows if row[0] == "shared"]
    assert shared[4] == "40 seed-steps/s"  # of 1 seed each: 20 steps in the second second


def test_a_task_that_fails_is_told_and_the_others_go_on(
    here: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("CUDA error: device-side assert triggered\nmore")

    monkeypatch.setattr(type(registry.task("static")), "start", fail)
    monkeypatch.setattr(here.Bench, "steps", lambda *_: iter(()))
    monkeypatch.setattr(here.Bench, "shared", lambda *_: iter(()))
    out = tmp_path / "gpu.md"
    words = [*WORDS, "--tasks", "static", "identity", "--seeds", "2", "--out", str(out)]
    assert here.main(words) == 1
    rows = table(out)
    (failed,) = [row for row in rows if row[1] == "static"]
    assert failed[3:5] == ["RuntimeError", "CUDA error: device-side assert triggered"]
    assert failed[-1] == "FAILED"
    assert len([row for row in rows if row[1] == "identity"]) > 3


@pytest.fixture
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU in the place of a GPU of 16 GiB, of which tensors have taken 2 MiB."""
    start = SupervisedTask.start
    about = SimpleNamespace(name="A GPU", total_memory=16 * 1024**3)
    answers = {
        "is_available": True,
        "synchronize": None,
        "empty_cache": None,
        "reset_peak_memory_stats": None,
        "max_memory_allocated": 2 * 1024**2,
        "mem_get_info": (9 * 1024**3, 16 * 1024**3),
        "get_device_properties": about,
    }
    for name, value in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(SupervisedTask, "start", lambda *given: start(*given[:3], CPU))
    monkeypatch.setattr(recording, "on_a_gpu", lambda _: True)
    # without a GPU, each profiled operation looks for one
    profile = torch.profiler.profile
    monkeypatch.setattr(
        torch.profiler, "profile", lambda activities: profile(activities=activities[:1])
    )
    for engine in ("graph", "compile"):
        monkeypatch.setitem(recording.RECORDERS, engine, recording.recorded)


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_what_only_a_gpu_has(
    here: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, speed = [], iter(range(100, 10_000, 100))
    freezer = here.freezing.DeviceFreezer
    monkeypatch.setattr(
        here.freezing, "DeviceFreezer", lambda *a, every: freezer(*a, every=seen(every))
    )

    def seen(steps: int) -> int:
        every.append(steps)
        return steps

    measure = here.Bench.rate

    def rate(bench: Any, run: Any) -> float:
        measure(bench, run)
        return float(next(speed))

    monkeypatch.setattr(here.Bench, "rate", rate)
    out = tmp_path / "gpu.md"
    words = ["--preset", "smoke", "--seconds", "0.02", "--minutes", "50"]
    assert here.main([*words, "--tasks", "identity", "--seeds", "2", "--out", str(out)]) == 0
    assert out.read_text().startswith("A GPU, 16 GiB, CUDA")
    _, _, *rows = table(out)
    assert [row[3] for row in rows if row[0] == "correct"][2] == "this device and CPU"
    (memory,) = [row for row in rows if row[0] == "memory"]
    assert memory[4] == "2"
    steps = {row[3]: row[4:7] for row in rows if row[0] == "step"}
    # 300 of plain steps
    assert steps == {
        "engine=auto": ["400 seed-steps/s", "300 plain", "1.33"],
        "engine=graph": ["500 seed-steps/s", "300 plain", "1.67"],
        "engine=compile": ["600 seed-steps/s", "300 plain", "2.00"],
        "who diverged is read every step": ["700 seed-steps/s", "400 every 50", "1.75"],
    }
    assert set(every) == {1}


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_a_block_without_room_leaves_the_others(
    here: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = SupervisedTask.start

    def full(task: Any, setting: Any, seeds: Any, device: Any) -> Any:
        if len(seeds) == 7:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return start(task, setting, seeds, device)

    monkeypatch.setattr(SupervisedTask, "start", full)
    monkeypatch.setattr(
        here.Bench, "steps", lambda self, task: iter([here.Line("step", "t", 1, "s")])
    )
    out = tmp_path / "gpu.md"
    words = ["--preset", "smoke", "--seconds", "0.02", "--minutes", "50", "--tasks", "identity"]
    assert here.main([*words, "--seeds", "2", "7", "3", "--out", str(out)]) == 0
    rows = [row for row in table(out) if row[0] in ("speed", "step")]
    told = [row for row in rows if row[-1] == "out of memory"]
    assert [row[:4] for row in told] == [["speed", "identity", "0", "left out"]]
    assert [row[2] for row in rows if row[3] == "seed-steps/s"] == ["2", "3"]
    assert rows[-1][0] == "step"


def test_a_trial_that_dies_is_named(here: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here.subprocess.Popen, "returncode", 1)
    options = {"device": "cpu", "preset": "smoke", "seeds": [2], "seconds": 0.02, "minutes": 9}
    bench = here.Bench(here.argparse.Namespace(tasks=["identity"], **options))
    bench.end = here.time.monotonic() + 100
    with pytest.raises(RuntimeError, match="one of two trials"):
        list(bench.shared(registry.task("identity")))


def bench_of(gpu: ModuleType, **options: Any) -> Any:
    """The checks and measurements with these options, with time left."""
    given = {"device": "cpu", "preset": "laptop", "seeds": [2], "seconds": 0.02, "minutes": 9}
    bench = gpu.Bench(gpu.argparse.Namespace(**{**given, "tasks": None, **options}))
    bench.end = gpu.time.monotonic() + 100
    return bench


def test_the_tasks_that_matter_most_come_first(gpu: ModuleType) -> None:
    names = [task.name for task in bench_of(gpu).tasks]
    assert names[:3] == ["static", "recurrent", "identity"]
    assert sorted(names) == sorted(registry.names())
    given = bench_of(gpu, tasks=["parity", "static"]).tasks
    assert [task.name for task in given] == ["parity", "static"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("static", {"layer": "nalu"}),
        ("recurrent", {"layer": "nalu"}),
        ("language", {"head": "nalu"}),
        ("identity", {"layer": "hardtanh"}),  # the first: it has no NALU
        ("sequential_mnist", {"layer": "exact"}),
    ],
)
def test_a_nalu_is_measured_where_there_is_one(
    gpu: ModuleType, name: str, values: dict[str, str]
) -> None:
    measured = bench_of(gpu).setting(registry.task(name))
    assert {field: getattr(measured, field) for field in values} == values
    assert measured.steps == 10**7


def test_a_resumed_run_reads_its_state_as_a_trial_does(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, read = torch.load, []

    def loaded(file: Any, **how: Any) -> Any:
        read.append(how)
        return load(file, **how)

    monkeypatch.setattr(torch, "load", loaded)
    bench, task = bench_of(gpu), registry.task("identity")
    assert torch.equal(bench.trained(task, [0, 1], resume=True), bench.trained(task, [0, 1]))
    assert read == [{"map_location": "cpu", "weights_only": True}]
    # what a file cannot keep
    state = SupervisedRun.state_dict
    monkeypatch.setattr(SupervisedRun, "state_dict", lambda run: {**state(run), "path": Path()})
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        bench.trained(task, [0, 1], resume=True)


def test_a_block_needs_room_in_the_memory_of_the_host_too(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, task = bench_of(gpu, preset="smoke"), registry.task("static")
    setting = bench.setting(task)
    of_a_seed = 4 * 32 * (100 + 1)  # the smoke preset's test set
    assert gpu.drawn_bytes(task, setting, 10) == 3 * 10 * of_a_seed
    shared = setting.model_copy(update={"shared_inputs": True})
    assert gpu.drawn_bytes(task, shared, 10) == 3 * 10 * of_a_seed  # in training alone
    bench.device = torch.device("cuda")
    monkeypatch.setattr(bench, "room", lambda: 1e12)
    monkeypatch.setattr(bench, "host_room", lambda: 2.0**20)
    (line,) = bench.speed(task, seeds=100)
    assert (line.here, line.beside) == ("4 MiB", "1 MiB, host")
    assert line.verdict == "too large"


def test_numbers_that_differ_fail(here: ModuleType) -> None:
    line = here.Line("correct", "t", 2, "x")
    one = torch.ones(4)
    assert here.compared(line, one, one + 1e-5, 1e-3).verdict == "ok"
    assert here.compared(line, one, one + 1e-2, 1e-3).verdict == "FAILED"
    assert here.compared(line, one * torch.nan, one, 1e-3).verdict == "FAILED"


def test_no_time_and_no_room(here: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "gpu.md"
    words = [*WORDS[:-1], "0", "--tasks", "identity", "--seeds", "2", "--out", str(out)]
    assert here.main(words) == 0
    assert {row[-1] for row in table(out)[2:]} == {"no time left"}
    bench = here.Bench(here.argparse.Namespace(
        device="cpu", preset="smoke", seeds=[10**12], seconds=1, minutes=9, tasks=["identity"]
    ))  # fmt: skip
    (line,) = bench.speed(registry.task("identity"), seeds=10**12)
    assert (line.what, line.verdict) == ("left out", "too large")


def test_the_script_runs_it_for_less_than_eight_minutes(tmp_path: Path) -> None:
    for name, words in (
        ("python", 'echo "$@"; exit 1'),
        ("timeout", 'echo "$1 $2 $3"; shift 3; exec "$@"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{words}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        [ROOT / "benchmarks" / "gpu.sh", "x.md", "--tasks", "static"],
        env={**os.environ, "PATH": path, "PYTHON": str(tmp_path / "python")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-2:] == [
        "-k 10 475",
        "benchmarks/gpu.py --device cuda --minutes 7.5 --out x.md --tasks static",
    ]
    assert done.returncode == 1  # of a check that failed


def test_without_a_gpu_it_says_so(
    here: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        here.main([])
    assert "finds no GPU" in capsys.readouterr().err
