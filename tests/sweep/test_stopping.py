"""What ends a sweep instead of failing a seed, and what a trial does then."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nalu_ray.results.store import states
from nalu_ray.results.store.store import Store, StoreError
from nalu_ray.sweep.stopping import StoppedError, storage
from nalu_ray.sweep.trial import Trial

from .test_trial import endings, spec, stored


def caused(by: BaseException) -> ValueError:
    """An error that was raised from another."""
    try:
        raise ValueError("cannot save") from by
    except ValueError as error:
        return error


def beside(other: BaseException) -> ValueError:
    """An error that was raised while another was handled."""
    try:
        try:
            raise other
        except type(other):
            raise ValueError("cannot save")  # noqa: B904 (as a library may)
    except ValueError as error:
        return error


def hidden(other: BaseException) -> ValueError:
    """An error that was raised while another was handled, and that does not show it."""
    try:
        try:
            raise other
        except type(other):
            raise ValueError("cannot save") from None
    except ValueError as error:
        return error


def test_an_error_of_what_all_trials_need_fails_no_seed(fake: Any, tmp_path: Path) -> None:
    """As where a trial in the command's process meets the loss of Ray first."""

    def lost() -> None:
        raise StoppedError("Ray's part on this machine has ended")

    with pytest.raises(StoppedError, match="has ended"):
        list(Trial(spec(fake, tmp_path, wrong="raise"), check=lost))
    assert not endings(tmp_path)


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/disk/file")


@pytest.mark.parametrize(
    "error",
    [
        StoreError("cannot write"),
        *(OSError(getattr(errno, name), "x") for name in ("ENOSPC", "EDQUOT", "EROFS", "EIO")),
        caused(FULL),
        beside(FULL),
        hidden(FULL),
        caused(beside(StoreError("cannot write"))),
        pa.ArrowInvalid("IOError: Error writing bytes to file. Detail: No space left on device"),
        RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed"),
        RuntimeError("ended\n  OSError: [Errno 122] Disk quota exceeded: '/disk/file'"),
    ],
)
def test_errors_of_storage(error: BaseException) -> None:
    assert isinstance(storage(error), StoreError)


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("cannot go on"),
        FileNotFoundError(errno.ENOENT, "No such file", "words.txt"),
        MemoryError(),
        RuntimeError("PytorchStreamReader failed reading zip archive"),
        KeyboardInterrupt(),
    ],
)
def test_other_errors(error: BaseException | None) -> None:
    assert storage(error) is None


def test_a_cause_that_leads_back_ends() -> None:
    error = ValueError("round")
    error.__cause__ = error
    assert storage(error) is None


def test_the_line_is_the_one_that_says_so() -> None:
    text = "Traceback\n  somewhere\nOSError: [Errno 28] No space left on device: '/x'\nmore"
    assert str(storage(RuntimeError(text))) == (
        "RuntimeError: OSError: [Errno 28] No space left on device: '/x'"
    )


@pytest.mark.parametrize("state_seconds", [0, 1000])
def test_rows_that_find_no_room_are_no_failed_seeds(
    state_seconds: float, fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller files still have room: a traceback, failed rows, the state of a short trial."""
    made = spec(fake, tmp_path, steps=6)
    steps: list[int] = []
    run = type(fake.start(fake.setting_type(), (0,), None))
    advance = run.advance

    def counted(self: Any) -> Any:
        steps.append(self.step)
        return advance(self)

    monkeypatch.setattr(run, "advance", counted)
    put = Store.put

    def full(store: Store, path: str, data: bytes, **options: bool) -> None:
        if path.endswith(".parquet") and trial.run is not None:
            raise StoreError(f"cannot write {path}: No space left on device")
        put(store, path, data, **options)

    trial = Trial(made, report_seconds=0, state_seconds=state_seconds)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full)
        with pytest.raises(StoreError, match="No space left"):
            list(trial)
    assert endings(tmp_path) == {}
    assert len(states.blocks(Store(str(tmp_path)), "fake")) == 1
    assert [report.step for report in Trial(made, report_seconds=0)] == [6]
    assert steps == [0, 1, 2, 3, 4, 5], "finished training runs again"
    list(Trial(spec(fake, tmp_path / "whole", steps=6)))
    assert stored(tmp_path).equals(stored(tmp_path / "whole"))
    assert not (tmp_path / ".states").exists()


def test_a_task_that_finds_no_room_fails_no_seed(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_wrong(run: Any) -> None:
        raise beside(FULL)

    run = type(fake.start(fake.setting_type(), (0,), None))
    monkeypatch.setattr(run, "go_wrong", go_wrong)
    with pytest.raises(StoreError, match="No space left on device: '/disk/file'"):
        list(Trial(spec(fake, tmp_path), report_seconds=0, state_seconds=0))
    assert endings(tmp_path) == {}
    assert len(states.blocks(Store(str(tmp_path)), "fake")) == 1


def test_a_state_that_cannot_be_read_is_not_replaced(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spec(fake, tmp_path, steps=6)
    for report in Trial(made, report_seconds=0, state_seconds=0):
        if report.step == 4:
            break
    path = Path(states.path(Store(str(tmp_path)), "fake", made.key))
    before = path.read_bytes()

    def broken(*arguments: Any) -> bytes:
        raise StoreError(f"cannot read {path}: [Errno 5] Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(states, "load", broken)
        with pytest.raises(StoreError, match="Input/output error"):
            list(Trial(made, report_seconds=0, state_seconds=0))
    assert path.read_bytes() == before
    assert [report.step for report in Trial(made, report_seconds=0)] == [5, 6]
