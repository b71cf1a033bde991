"""States and rows that are cut off, or were put there to do harm: named, not run, redone."""

from __future__ import annotations

import io
import logging
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from nalu_ray.results.store import states
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, Plan, make_plan
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.scratch import scratch
from nalu_ray.sweep.trial import Trial, TrialSpec

from .commands import rows

pytestmark = pytest.mark.cluster

SEEDS = (0, 1)
EVERY = 64


def plan(task: Any, out: Path) -> Plan:
    """What the same command would run now."""
    points = [Point(setting=task.setting_type(steps=4), seeds=SEEDS)]
    stored = Store(str(out)).outcomes("fake")
    job = Job(str(out), Resources(), 1.0)
    return make_plan(task, points, stored, job, Capacity("test", (Node(1, 0, 8 * GIB),)))


def run(spec: TrialSpec) -> list[int]:
    return [report.step for report in Trial(spec, report_seconds=0)]


@pytest.fixture
def whole(fake: Any, tmp_path: Path) -> pd.DataFrame:
    """The rows of a run that nothing happened to."""
    (spec,) = plan(fake, tmp_path / "whole").trials
    run(spec)
    return rows(tmp_path / "whole", "fake")


def a_state(spec: TrialSpec) -> bytes:
    """The state of a trial that was left after three steps of four."""
    for report in Trial(spec, report_seconds=0, state_seconds=0):
        if report.step == 3:
            break
    data = states.load(Store(spec.out), spec.task, spec.key)
    assert data is not None
    return data


class Harmful:
    """Unpickled by anyone but torch's reader of plain values, it leaves a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.mark,)


def harmful(mark: Path) -> dict[str, bytes]:
    """Files that run code when they are unpickled, in every form that is read somewhere."""
    plain, new, old = pickle.dumps(Harmful(mark)), io.BytesIO(), io.BytesIO()
    torch.save({"run": Harmful(mark), "seconds": 0.0, "step": 3}, new)
    torch.save({"run": Harmful(mark)}, old, _use_new_zipfile_serialization=False)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("archive/data.pkl", plain)
        archive.writestr("archive/version", "3\n")
    return {
        "pickle": plain,
        "torch": new.getvalue(),
        "torch, old": old.getvalue(),
        "zip": zipped.getvalue(),
    }


FORMS = list(harmful(Path("nowhere")))


def test_the_files_are_harmful(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for form in ("pickle", "torch", "torch, old"):
        data = harmful(mark)[form]
        if form == "pickle":
            pickle.loads(data)
        else:
            torch.load(io.BytesIO(data), weights_only=False)
        assert mark.exists()
        mark.unlink()


# -- states ----------------------------------------------------------------------------------------


def keep(spec: TrialSpec, data: bytes) -> None:
    about = {"setting_id": spec.setting_id, "seeds": spec.seeds}
    states.save(Store(spec.out), spec.task, spec.key, data, **about)


def check_state(
    spec: TrialSpec, data: bytes, expected: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(spec.out)
    caplog.clear()
    keep(spec, data)
    with caplog.at_level(logging.WARNING):
        assert run(spec) == [1, 2, 3, 4]
    path = states.path(store, spec.task, spec.key)
    assert [record.getMessage() for record in caplog.records] == [
        f"{spec.label}: cannot resume from its last state, starting over: {path} is cut off, or "
        "holds more than plain values"
    ]
    assert not Path(path).exists()
    pd.testing.assert_frame_equal(rows(spec.out, "fake"), expected, check_exact=True)
    for file in Path(spec.out, "fake").iterdir():
        file.unlink()


def test_a_state_cut_off_anywhere(
    fake: Any, whole: pd.DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (spec,) = plan(fake, tmp_path / "cut").trials
    data = a_state(spec)
    cuts = range(0, len(data), EVERY)
    assert len(cuts) > 20
    for cut in cuts:
        check_state(spec, data[:cut], whole, caplog)
    keep(spec, data)
    assert run(spec) == [4], "the state itself is good"


@pytest.mark.parametrize("form", FORMS)
def test_a_harmful_state(
    fake: Any, whole: pd.DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    (spec,) = plan(fake, tmp_path / "harmful").trials
    check_state(spec, harmful(tmp_path / "mark")[form], whole, caplog)
    assert not (tmp_path / "mark").exists()


# -- rows ------------------------------------------------------------------------------------------


@pytest.fixture
def stored(fake: Any, tmp_path: Path) -> Iterator[Path]:
    """The row file of a finished trial."""
    (spec,) = plan(fake, tmp_path / "out").trials
    run(spec)
    (path,) = (tmp_path / "out" / "fake").glob("*.parquet")
    return path


def check_rows(fake: Any, path: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> TrialSpec:
    """Puts other bytes into a row file: it is named, and its seeds are to do."""
    caplog.clear()
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        (again,) = plan(fake, path.parents[1]).trials
    assert again.seeds == SEEDS
    (record,) = caplog.records
    assert record.getMessage().startswith(f"skipped {path}: not a results file of this program")
    return again


def test_rows_cut_off_anywhere(
    fake: Any, stored: Path, whole: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    data = stored.read_bytes()
    cuts = range(0, len(data), EVERY)
    assert len(cuts) > 20
    for cut in cuts:
        again = check_rows(fake, stored, data[:cut], caplog)
    run(again)
    pd.testing.assert_frame_equal(rows(again.out, "fake"), whole, check_exact=True)
    stored.write_bytes(data)
    pd.testing.assert_frame_equal(rows(again.out, "fake"), whole, check_exact=True)


@pytest.mark.parametrize("form", FORMS)
def test_harmful_rows(
    fake: Any, stored: Path, whole: pd.DataFrame, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    mark = stored.parents[2] / "mark"
    data = harmful(mark)[form]
    again = check_rows(fake, stored, data, caplog)
    # whatever else lies there and is read, or is Tune's and could be
    stored.with_suffix(".json").write_bytes(data)
    stored.with_name("specs.json").write_bytes(data)
    left = stored.parents[1] / ".tune" / "left"
    left.mkdir(parents=True)
    for name in ("lock", "tuner.pkl", "experiment_state-1.json", "searcher-state-1.pkl"):
        (left / name).write_bytes(data)
    run(again)
    store = Store(again.out)
    pd.testing.assert_frame_equal(rows(again.out, "fake"), whole, check_exact=True)
    assert len(store.manifests("fake")) == 1
    assert store.specs("fake") is None
    with scratch(store, ".tune"):
        assert not left.exists()
    assert not mark.exists()
