"""A trial from start to stored rows, whatever happens in between."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import warnings
import weakref
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest
import torch
from pydantic import ValidationError
from ray.tune.result import DONE

from nalu_ray import registry
from nalu_ray.results.store import states
from nalu_ray.results.store.store import COMPLETED, Store, StoreError
from nalu_ray.sweep.code_digest import package_digest
from nalu_ray.sweep.dispatch import NodeError, check_node, receive
from nalu_ray.sweep.machine import GIB, WORKER_BYTES
from nalu_ray.sweep.trial import Report, Trial, TrialSpec
from nalu_ray.sweep.warnings import WarningRelay
from tests.conftest import PYTHONPATH


def spec(task: Any, out: Path, seeds: tuple[int, ...] = (0, 1, 2), **values: Any) -> TrialSpec:
    setting = task.setting_type(**values)
    return TrialSpec(
        task=task.name,
        setting=setting,
        setting_id=setting.id,
        seeds=seeds,
        label="a label",
        steps=setting.steps,
        out=str(out),
        command="python -m nalu_ray.tune fake --out s3://key:secret@bucket/x",
        commit="abc",
    )


def stored(out: Path) -> pd.DataFrame:
    frame = Store(str(out)).load("fake")
    return frame.sort_values(["setting_id", "seed", "metric"]).reset_index(drop=True)


def endings(out: Path) -> dict[int, tuple[bool, str | None]]:
    found = Store(str(out)).outcomes("fake").values()
    return {outcome.seed: (outcome.ok, outcome.reason) for outcome in found}


def test_a_trial_stores_its_rows_and_says_so(fake: Any, tmp_path: Path) -> None:
    *_, last = Trial(spec(fake, tmp_path))
    assert (last.step, last.steps, last.done, dict(last.failed)) == (4, 4, True, {})
    assert last.seconds > 0
    assert endings(tmp_path) == dict.fromkeys(range(3), (True, None))
    frame = stored(tmp_path)
    assert set(frame.columns) >= {"layer", "lr", "hidden"}


def test_the_manifest_tells_how_the_rows_came_about(fake: Any, tmp_path: Path) -> None:
    list(Trial(spec(fake, tmp_path)))
    (manifest,) = Store(str(tmp_path)).manifests("fake")
    assert manifest["spec"]["setting"] == spec(fake, tmp_path).setting.model_dump(mode="json")
    assert manifest["spec"]["seeds"] == [0, 1, 2]
    assert manifest["versions"]["torch"] == version("torch")
    assert "--out s3://***@bucket/x" in manifest["spec"]["command"]
    assert "secret" not in str(manifest)


def test_reports_come_no_faster_than_asked(fake: Any, tmp_path: Path) -> None:
    made = spec(fake, tmp_path, steps=50)
    assert len(list(Trial(made, report_seconds=60))) == 1
    reports = list(Trial(made, report_seconds=0))
    assert [report.step for report in reports] == [*range(1, 50), 50]
    assert [report.done for report in reports] == [False] * 49 + [True]


def test_a_resumed_trial_gives_the_rows_of_an_uninterrupted_one(fake: Any, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(Trial(spec(fake, whole, steps=6)))
    interrupted = spec(fake, parts, steps=6)
    for report in Trial(interrupted, report_seconds=0, state_seconds=0):
        if report.step == 4:
            break
    assert stored(parts).empty
    resumed = Trial(interrupted, report_seconds=0)
    assert [progress.step for progress in resumed] == [5, 6]
    pd.testing.assert_frame_equal(stored(parts), stored(whole))
    assert resumed.seconds > report.seconds
    assert not (parts / ".states").exists()


def test_a_killed_process_is_taken_up_where_its_state_was_kept(fake: Any, tmp_path: Path) -> None:
    made = spec(fake, tmp_path, steps=6, wrong="kill", folder=str(tmp_path))
    code = (
        "import sys; from nalu_ray.sweep.trial import Trial, TrialSpec; "
        "list(Trial(TrialSpec.model_validate_json(sys.argv[1]), report_seconds=0, state_seconds=0))"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, made.model_dump_json()],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert endings(tmp_path) == {}
    assert [report.step for report in Trial(made, report_seconds=0)] == [4, 5, 6]
    list(Trial(spec(fake, tmp_path / "whole", steps=6)))
    values = stored(tmp_path).query("metric == 'mse'").value
    assert list(values) == list(stored(tmp_path / "whole").query("metric == 'mse'").value)


def test_a_state_says_what_it_is_of(fake: Any, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert states.blocks(store, "fake") == []
    made = spec(fake, tmp_path, seeds=(4, 2))
    for report in Trial(made, report_seconds=0, state_seconds=0):
        if report.step == 2:
            break
    assert states.blocks(store, "fake") == [(made.setting_id, (4, 2))]
    (about,) = (tmp_path / ".states" / "fake").glob("*.json")
    text = about.read_text()
    one = json.dumps({"setting_id": made.setting_id, "seeds": 4})
    for damaged in ("", "[]", "{}", "null", text.replace("4", '"x"'), one):
        about.write_text(damaged)
        assert states.blocks(store, "fake") == []
    list(Trial(made, report_seconds=0))
    assert not (tmp_path / ".states").exists()


def test_the_half_state_of_a_killed_writer_goes_with_its_trial(fake: Any, tmp_path: Path) -> None:
    made, other = spec(fake, tmp_path), spec(fake, tmp_path, seeds=(7,))
    folder = tmp_path / ".states" / "fake"
    folder.mkdir(parents=True)
    for half in (f"{made.key}.pt.0123abcd.tmp", f"{other.key}.json.0123abcd.tmp"):
        (folder / half).write_bytes(b"PK")
    list(Trial(made))
    assert [path.name for path in folder.iterdir()] == [f"{other.key}.json.0123abcd.tmp"]
    list(Trial(other))
    assert not (tmp_path / ".states").exists()


def test_a_node_with_other_code_is_refused(fake: Any, tmp_path: Path) -> None:
    made = spec(fake, tmp_path)
    check_node(made.out, made.mark, "")
    check_node(made.out, "", package_digest())
    with pytest.raises(
        NodeError, match=f"different code .digest {package_digest()}. from this .*abc"
    ):
        check_node(made.out, "", "abc")


def test_a_node_with_another_plugin_is_refused(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spec(fake, tmp_path).model_copy(update={"code": package_digest()})
    made = made.model_copy(update={"numbers": made.numbers_here()})
    assert receive(made.plain()) == made
    other = made.model_copy(update={"numbers": "0123456789ab"})
    with pytest.raises(
        NodeError, match=r"different version of task fake or its layers .*0123456789ab"
    ):
        receive(other.plain())
    monkeypatch.setattr(registry, "_sources", lambda: ({}, ()))  # as where it is not installed
    registry.everything.cache_clear()
    with pytest.raises(NodeError, match=r"cannot load the task: .*fake.*; install the same"):
        receive(made.plain())


def test_a_node_that_does_not_see_the_results_is_refused(fake: Any, tmp_path: Path) -> None:
    made = spec(fake, tmp_path / "results").model_copy(update={"mark": ".tune/x/mark"})
    with pytest.raises(NodeError, match=r"does not see .*results .* must be a shared folder"):
        check_node(made.out, made.mark, "")
    Store(made.out).put(f"{made.out}/.tune/x/mark", b"")
    check_node(made.out, made.mark, "")
    list(Trial(made))
    assert len(stored(tmp_path / "results")) == 6
    (manifest,) = Store(made.out).manifests("fake")
    assert "mark" not in manifest["spec"]


def test_a_state_that_does_not_fit_is_told_and_left(
    fake: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = spec(fake, tmp_path)
    states.save(
        Store(str(tmp_path)),
        made.task,
        made.key,
        b"torn",
        setting_id=made.setting_id,
        seeds=made.seeds,
    )
    assert [report.step for report in Trial(made, report_seconds=0)] == [1, 2, 3, 4]
    assert "a label: cannot resume from its last state, starting over" in caplog.text


def test_a_run_is_closed_however_it_ends(fake: Any, tmp_path: Path) -> None:
    for wrong in ("no", "raise"):
        folder = tmp_path / wrong
        folder.mkdir()
        list(Trial(spec(fake, tmp_path, wrong=wrong, folder=str(folder)), report_seconds=0))
        assert (folder / "marks").read_text().splitlines()[-1].startswith("closed")


def begun(fake: Any, tmp_path: Path, **values: Any) -> TrialSpec:
    """A trial whose state was kept at step 3."""
    made = spec(fake, tmp_path, steps=6, **values)
    for report in Trial(made, report_seconds=0, state_seconds=0):
        if report.step == 4:
            break
    return made


def test_a_state_of_the_same_code_is_taken_up_whatever_the_commit(
    fake: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = begun(fake, tmp_path)
    monkeypatch.setattr("nalu_ray.sweep.trial.provenance", lambda: {"commit": "0123"})
    assert [(report.step, report.resumed) for report in Trial(made, report_seconds=0)] == [
        (5, 4),
        (6, 4),
    ]
    assert caplog.text == ""
    (manifest,) = Store(str(tmp_path)).manifests("fake")
    assert manifest["resumed"]["step"] == 4
    assert manifest["commit"] == "0123"


def test_a_state_of_other_code_is_told_and_not_taken_up(
    fake: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = begun(fake, tmp_path)
    before = Trial(made).code
    monkeypatch.setattr("nalu_ray.sweep.dispatch.numbers_digest", lambda task, setting: "abc")
    assert [(report.step, report.resumed) for report in Trial(made, report_seconds=0)] == [
        *((step, 0) for step in range(1, 6)),
        (6, 0),
    ]
    assert f"starting over: other code wrote it (digest {before}, here abc)" in caplog.text
    assert not (tmp_path / ".states").exists()
    (manifest,) = Store(str(tmp_path)).manifests("fake")
    assert (manifest["resumed"], manifest["code"]) == ({}, "abc")
    assert set(stored(tmp_path).code) == {"abc"}


def test_the_state_of_other_code_outlives_a_trial_that_fails(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = begun(fake, tmp_path)

    def fail(run: Any) -> None:
        raise ValueError("broken by the edit")

    with monkeypatch.context() as patch:
        patch.setattr("nalu_ray.sweep.dispatch.numbers_digest", lambda task, setting: "abc")
        patch.setattr(fake.start(fake.setting_type(), (0,), None).__class__, "advance", fail)
        *_, last = Trial(made, report_seconds=0)
        assert set(last.failed) == set(made.seeds)
    assert next(iter(Trial(made, report_seconds=0))).resumed == 4


def test_a_trial_whose_code_has_no_digest_is_stored_without(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(task: Any, setting: Any) -> str:
        raise ImportError("a layer of another package")

    monkeypatch.setattr("nalu_ray.sweep.dispatch.numbers_digest", fail)
    *_, last = Trial(spec(fake, tmp_path))
    assert dict(last.failed) == {}
    assert stored(tmp_path).code.isna().all()


def test_a_spec_comes_back_from_plain_values_checked(fake: Any, tmp_path: Path) -> None:
    made = spec(fake, tmp_path, lr=0.25)
    plain = made.plain()
    assert (plain["setting"]["lr"], plain["key"], plain["share"]) == (0.25, made.key, made.share)
    assert TrialSpec.model_validate(plain) == made
    with pytest.raises(ValidationError, match="lr"):
        TrialSpec.model_validate({**plain, "setting": {"lr": "fast"}})


def test_a_report_comes_back_from_a_result_of_tunes() -> None:
    full = Report(2, 4, {"mse": 0.5}, 1.5, 1, True, {3: "ValueError: no"}, ("odd",))
    assert full.plain()[DONE]
    assert json.loads(json.dumps(full.plain()))["failed"] == [[3, "ValueError: no"]]
    for report in (full, Report(0, 4)):
        assert Report.read({**report.plain(), "training_iteration": 1}) == report


def test_a_compressed_state_is_not_unpacked(
    fake: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, packed = spec(fake, tmp_path), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**6))
    store = Store(str(tmp_path))
    states.save(
        store, made.task, made.key, packed.getvalue(), setting_id=made.setting_id, seeds=made.seeds
    )
    with mock.patch("torch.load") as load:
        assert [report.step for report in Trial(made, report_seconds=0)] == [1, 2, 3, 4]
    load.assert_not_called()
    assert "cannot resume from its last state, starting over" in caplog.text


def test_the_state_is_of_one_setting_and_its_seeds(fake: Any, tmp_path: Path) -> None:
    keys = [spec(fake, tmp_path, seeds, lr=lr).key for seeds in [(0, 1), (0,)] for lr in (1, 2)]
    assert len(set(keys)) == 4


def test_files_of_a_run_lie_beside_its_rows(fake: Any, tmp_path: Path) -> None:
    made = spec(fake, tmp_path)
    list(Trial(made))
    list(Trial(made))
    folder = tmp_path / "fake"
    kept = {path.name for path in folder.glob("*.txt")}
    stems = [path.stem for path in folder.glob("*.parquet")]
    assert len(stems) == 2, "a second run of the same seeds replaces nothing"
    assert kept == {f"{stem}-{seed}.txt" for stem in stems for seed in made.seeds}


def test_an_error_becomes_rows_with_its_reason_and_a_traceback(fake: Any, tmp_path: Path) -> None:
    *_, last = Trial(spec(fake, tmp_path, wrong="raise"), report_seconds=0)
    assert last.done
    assert set(last.failed) == {0, 1, 2}
    (reason,) = {text for ok, text in endings(tmp_path).values() if not ok}
    assert reason == last.failed[0]
    assert reason.startswith("ValueError: cannot go on at seed 0 (traceback: ")
    text = Path(reason.split("traceback: ")[1].rstrip(")")).read_text()
    assert 'raise ValueError(f"cannot go on' in text
    assert set(stored(tmp_path).step) == {2}


def test_seeds_that_had_ended_are_stored_though_a_later_one_fails(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(fake.start(fake.setting_type(), (0,), None))
    monkeypatch.setattr(kind, "ended", (0,), raising=False)
    monkeypatch.setattr(kind, "files", lambda self: {"0.txt": b"agent"})
    made = spec(fake, tmp_path, wrong="raise")
    *_, last = Trial(made, report_seconds=0)
    assert set(last.failed) == {1, 2}
    ends = endings(tmp_path)
    assert [ok for ok, _ in ends.values()] == [True, False, False]
    rows = stored(tmp_path)
    assert set(rows[rows["metric"] == "mse"]["seed"]) == {0}
    (agent,) = (tmp_path / "fake").glob("*-0.txt")
    assert agent.read_bytes() == b"agent"
    monkeypatch.setattr(kind, "files", lambda self: self.nothing)  # what failed fails these, too
    *_, last = Trial(spec(fake, tmp_path / "again", wrong="raise"), report_seconds=0)
    assert set(last.failed) == {0, 1, 2}


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_that_torch_hides_is_no_failure(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]
) -> None:
    def hidden(self: Trial) -> Any:
        try:
            raise interruption
        finally:  # as torch does where vmap is entered
            raise RuntimeError("!dynamicLayerStack.empty() INTERNAL ASSERT FAILED")

    monkeypatch.setattr(Trial, "advance", hidden)
    with pytest.raises(interruption):
        list(Trial(spec(fake, tmp_path)))
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_error_that_is_raised_from_an_exit_is_a_failure(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrapped(self: Trial) -> Any:
        try:
            raise SystemExit(2)
        except SystemExit as error:
            raise ValueError("wrong option") from error

    monkeypatch.setattr(Trial, "advance", wrapped)
    list(Trial(spec(fake, tmp_path)))
    assert not any(ok for ok, _ in endings(tmp_path).values())


def test_running_out_of_memory_is_a_reason_that_says_what_to_do(fake: Any, tmp_path: Path) -> None:
    made = spec(fake, tmp_path, wrong="no_memory", folder=str(tmp_path))
    *_, last = Trial(made.model_copy(update={"memory": WORKER_BYTES + GIB}), report_seconds=0)
    reason = last.failed[0]
    assert re.fullmatch(
        r"oom: 3 seeds at once did not fit, reserved: 1\.68 GiB \(0\.68 for a worker, 1\.00 for "
        r"seeds\); --rerun-failed runs 1 at a time; MemoryError \(traceback: .*\.txt\)",
        reason,
    )
    assert endings(tmp_path) == dict.fromkeys(range(3), (False, reason))
    *_, smaller = Trial(spec(fake, tmp_path, (0, 1), wrong="no_memory", folder=str(tmp_path)))
    assert not smaller.failed


def test_what_took_the_memory_is_gone_before_the_failure_is_stored(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(spec(fake, tmp_path, wrong="no_memory"), report_seconds=0)
    held, write = [], Store.write

    def go_wrong(run: Any) -> None:
        mine = torch.ones(1)  # of a step that is half done
        held.extend([weakref.ref(run), weakref.ref(mine)])
        raise MemoryError

    def checked(*arguments: Any, **others: Any) -> str:
        assert [reference() for reference in held] == [None, None]
        return write(*arguments, **others)

    monkeypatch.setattr(type(fake.start(fake.setting_type(), (0,), None)), "go_wrong", go_wrong)
    monkeypatch.setattr(Store, "write", checked)
    *_, last = trial
    assert last.failed[0].startswith("oom: ")


def test_a_seed_that_diverges_takes_no_other_along(fake: Any, tmp_path: Path) -> None:
    *_, last = Trial(spec(fake, tmp_path, wrong="diverge"))
    assert dict(last.failed) == {1: "diverged at step 1"}
    assert [ok for ok, _ in endings(tmp_path).values()] == [True, False, True]


def test_a_run_that_leaves_out_a_seed_has_failed(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(spec(fake, tmp_path))
    trial.start()
    assert trial.run is not None
    rows = trial.run.rows()
    kept = rows[(rows.metric != COMPLETED) | (rows.seed != 1)]
    monkeypatch.setattr(type(trial.run), "rows", lambda self: kept)
    *_, last = trial
    assert set(last.failed) == {0, 1, 2}
    assert "each seed one 'completed' row" in last.failed[1]


def test_rows_that_cannot_be_stored_are_an_error(fake: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        list(Trial(spec(fake, tmp_path / "file")))


def test_a_trial_computes_with_the_threads_of_its_cpus(fake: Any, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        made = spec(fake, tmp_path)
        for cpus, threads in [(3.0, 3), (0.5, 1)]:
            Trial(made.model_copy(update={"cpus": cpus})).start()
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_messages_are_passed_on_once_without_place_and_without_rays() -> None:
    told: list[str] = []
    with warnings.catch_warnings(), WarningRelay(told.append):
        warnings.simplefilter("always")
        for _ in range(3):
            warnings.warn("look", UserWarning, stacklevel=1)
            logging.getLogger("nalu_ray.x").warning("seen %d", 3)
            logging.getLogger("ray.tune").error("flood")
            logging.getLogger("nalu_ray.x").info("detail")
    with pytest.warns(UserWarning, match="outside"):
        warnings.warn("outside", UserWarning, stacklevel=1)
    assert told == ["UserWarning: look", "seen 3"]


def test_a_reason_that_is_no_unicode_is_stored(fake: Any, tmp_path: Path) -> None:
    Trial(spec(fake, tmp_path)).fail_with("cannot read \udcff.csv", 2)
    assert endings(tmp_path)[0] == (False, "cannot read \\udcff.csv")
