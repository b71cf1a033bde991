"""Tune's own folder below the results: removed in the end, by whoever can."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nalu_ray.results.store.store import Store
from nalu_ray.sweep import scratch as module
from nalu_ray.sweep.scratch import scratch


def left(tmp_path: Path) -> Path:
    """What a killed command leaves."""
    folder = tmp_path / "results" / ".tune" / "left"
    (folder / "trial").mkdir(parents=True)
    for path in (folder / "lock", folder / "trial" / "state.pkl"):
        path.touch()
    return folder


def test_it_is_there_while_it_lasts(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "results"))
    with scratch(store, ".tune") as name:
        assert (tmp_path / "results" / ".tune" / name / "lock").is_file()
    assert not (tmp_path / "results" / ".tune").exists()


def test_two_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "results"))
    with scratch(store, ".tune") as first:
        with scratch(store, ".tune"):
            pass
        assert (tmp_path / "results" / ".tune" / first / "lock").is_file()


def test_what_a_killed_command_left_is_removed(tmp_path: Path) -> None:
    folder = left(tmp_path)
    with scratch(Store(str(tmp_path / "results")), ".tune"):
        assert not folder.exists()


def test_a_removal_that_is_cut_short_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, store = left(tmp_path), Store(str(tmp_path / "results"))

    def stopped(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stopped)
        with pytest.raises(KeyboardInterrupt), scratch(store, ".tune"):
            pass
    assert (folder / "lock").exists()
    with scratch(store, ".tune"):
        assert not folder.exists()


def test_a_parent_that_goes_away_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir, calls = Path.mkdir, []

    def racing(path: Path, *args: object, **kwargs: object) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise FileNotFoundError(path)
        mkdir(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(module.Path, "mkdir", racing)
    with scratch(Store(str(tmp_path / "results")), ".tune") as name:
        assert (tmp_path / "results" / ".tune" / name).is_dir()
