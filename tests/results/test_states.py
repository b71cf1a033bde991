"""Kept states: what a disk damaged is never gone on from, what is none is named."""

from __future__ import annotations

import json
import logging
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from nalu_ray.results.store import seal, states
from nalu_ray.results.store.store import Store, StoreError
from nalu_ray.sweep import trial as trials
from nalu_ray.sweep.trial import Trial, TrialSpec


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def keep(store: Store, data: bytes = b"a state", seeds: Any = (0, 1)) -> Path:
    states.save(store, "fake", "key", data, setting_id="a", seeds=seeds)
    return Path(states.path(store, "fake", "key"))


def test_what_is_kept_comes_back(store: Store) -> None:
    for data in (b"", b"a state", bytes(range(256)) * 1000):
        keep(store, data)
        assert states.load(store, "fake", "key") == data
    assert states.load(store, "fake", "other") is None


def test_no_flipped_bit_comes_back(store: Store) -> None:
    path = keep(store, data := random.Random(1).randbytes(2000))
    whole = path.read_bytes()
    refused = 0
    for place in range(0, 8 * len(whole), 31):
        spoiled = bytearray(whole)
        spoiled[place // 8] ^= 1 << place % 8
        path.write_bytes(spoiled)
        try:
            back = states.load(store, "fake", "key")
        except ValueError:
            refused += 1
            continue
        # of the mark that says that there is a digest: then it is as of before there was one
        assert back is not None
        assert back[: len(data)] == data
    path.write_bytes(whole[:-1] + b"x")
    with pytest.raises(ValueError, match=rf"^{path} is damaged: it has another digest than when"):
        states.load(store, "fake", "key")
    assert refused > 8 * len(data) / 31


def test_one_of_before_the_digest_comes_back(store: Store) -> None:
    keep(store).write_bytes(b"of before")
    assert states.load(store, "fake", "key") == b"of before"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that gives EIO")
def test_a_disk_that_cannot_be_read_is_an_error(store: Store) -> None:
    path = keep(store)
    for name in (path, path.with_suffix(".json")):
        name.unlink()
        name.symlink_to("/proc/self/mem")
    with pytest.raises(StoreError, match="Input/output error"):
        states.load(store, "fake", "key")
    with pytest.raises(StoreError, match="Input/output error"):
        states.blocks(store, "fake")


@pytest.mark.parametrize(
    "seeds", [[5, 5, 5], [2**63], [-1], [], 3, [1.5], ["1"], [True], [[1]], None, "[" * 50_000]
)
def test_seeds_that_none_has_are_named_and_left(
    store: Store, caplog: pytest.LogCaptureFixture, seeds: Any
) -> None:
    about = keep(store).with_suffix(".json")
    text = json.dumps({"setting_id": "a", "seeds": seeds})
    about.write_text(text.replace('"[', "[").replace('["', "[") if seeds == "[" * 50_000 else text)
    with caplog.at_level(logging.WARNING):
        assert states.blocks(store, "fake") == []
    (record,) = caplog.records
    assert record.getMessage().startswith(f"skipped {about}: not the description of a state (")
    assert len(record.getMessage()) < 2000


def test_a_flipped_bit_of_the_seeds_is_named(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    about = keep(store).with_suffix(".json")
    values = json.loads(about.read_bytes())
    kept = states.blocks(store, "fake")
    about.write_text(json.dumps(values | {"seeds": [7]}))
    with caplog.at_level(logging.WARNING):
        assert states.blocks(store, "fake") == []
    assert "(changed since it was written" in caplog.text
    del values["sha256"]  # earlier versions wrote no digest
    about.write_text(json.dumps(values))
    assert states.blocks(store, "fake") == kept != []


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_is_left(store: Store, make: Any) -> None:
    path = keep(store)
    for name in (path, path.with_suffix(".json")):
        name.unlink()
        make(name)
    assert states.blocks(store, "fake") == []
    assert states.load(store, "fake", "key") is None


# -- what a trial makes of them --------------------------------------------------------------------


def spec(task: Any, out: Path, steps: int = 4) -> TrialSpec:
    setting = task.setting_type(steps=steps)
    return TrialSpec(
        task="fake", setting=setting, setting_id=setting.id, seeds=(0, 1),
        label="a label", steps=steps, out=str(out),
    )  # fmt: skip


def interrupted(made: TrialSpec) -> Path:
    for report in Trial(made, report_seconds=0, state_seconds=0):
        if report.step == 3:
            break
    return Path(states.path(Store(made.out), made.task, made.key))


@pytest.mark.parametrize(
    "changed",
    [{"seconds": "abc"}, {"seconds": -1.0}, {"seconds": float("nan")}, {"step": "abc"},
     {"step": -1}, {"seconds": None}],
)  # fmt: skip
def test_a_state_that_says_nonsense_is_told_and_left(
    fake: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: dict[str, Any]
) -> None:
    made = spec(fake, tmp_path)
    path = interrupted(made)
    saved = torch.load(path, weights_only=True) | changed
    torch.save(saved, path)
    reports = list(Trial(made, report_seconds=0))
    assert [report.step for report in reports] == [1, 2, 3, 4]
    assert not reports[-1].failed
    assert 0 <= reports[-1].seconds < 60
    assert "cannot resume from its last state, starting over" in caplog.text


def test_a_damaged_state_is_told_and_left(
    fake: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = spec(fake, tmp_path)
    path = interrupted(made)
    data = bytearray(path.read_bytes())
    assert seal.is_sealed(bytes(data))
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert [report.step for report in Trial(made, report_seconds=0)] == [1, 2, 3, 4]
    assert "damaged: it has another digest" in caplog.text


def test_a_clock_that_jumps_back_takes_no_time_away(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        monotonic = staticmethod(time.monotonic)

        def time(self) -> float:
            return time.time() - 3 * 86_400 * self.back

        back = 0

    clock = Clock()
    monkeypatch.setattr(trials, "time", clock)
    reports = []
    for report in Trial(spec(fake, tmp_path), report_seconds=0):
        clock.back = 1
        reports.append(report.seconds)
    assert all(0 <= seconds < 60 for seconds in reports)
    (manifest,) = Store(str(tmp_path)).manifests("fake")
    assert 0 <= manifest["seconds"] < 60
