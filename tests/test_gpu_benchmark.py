"""benchmarks/gpu.py on the CPU in seconds, so that it works when a GPU is there."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from nalu_ray import registry

ROOT = Path(__file__).parents[1]


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


def test_the_script_runs_it(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "$@"\n')
    fake.chmod(0o755)
    done = subprocess.run(
        [ROOT / "benchmarks" / "gpu.sh", "x.md", "--tasks", "static"],
        env={**os.environ, "PYTHON": str(fake)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == (
        "benchmarks/gpu.py --device cuda --minutes 7.5 --out x.md --tasks static"
    )


def test_without_a_gpu_it_says_so(
    here: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        here.main([])
    assert "finds no GPU" in capsys.readouterr().err
