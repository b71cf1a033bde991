"""Tune's own folder below the results: removed in the end, by whoever can."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from nalu_ray.results.store.store import Store, StoreError
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

    def stopped(path: str, *, dir_fd: int) -> None:
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


def test_a_link_among_them_is_not_followed(tmp_path: Path) -> None:
    elsewhere = left(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("kept")
    mine = left(tmp_path)
    (mine.parent / "x").symlink_to(elsewhere)
    (mine / "inner").symlink_to(elsewhere)
    (mine.parent / "y").mkdir()
    (mine.parent / "y" / "lock").symlink_to(tmp_path / "file")
    store = Store(str(tmp_path / "results"))
    with scratch(store, ".tune"):
        assert not mine.exists()
    assert sorted(path.name for path in elsewhere.iterdir()) == ["lock", "trial"]
    assert (elsewhere / "trial" / "state.pkl").exists()
    assert (mine.parent / "x").is_symlink()
    assert (tmp_path / "file").read_text() == "kept"


def test_a_parent_that_is_a_link_is_not_cleaned_up(tmp_path: Path) -> None:
    elsewhere = left(tmp_path / "elsewhere")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / ".tune").symlink_to(elsewhere.parent)
    with scratch(Store(str(tmp_path / "results")), ".tune"):
        pass
    assert (elsewhere / "lock").exists()


def test_its_own_folder_exchanged_for_a_link_is_left(tmp_path: Path) -> None:
    elsewhere = left(tmp_path / "elsewhere")
    with scratch(Store(str(tmp_path / "results")), ".tune") as name:
        mine = tmp_path / "results" / ".tune" / name
        shutil.rmtree(mine)
        mine.symlink_to(elsewhere)
    assert (elsewhere / "trial" / "state.pkl").exists()


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(module.fcntl, "flock", none)
    folder, store = left(tmp_path), Store(str(tmp_path / "results"))
    with scratch(store, ".tune") as name:
        mine = tmp_path / "results" / ".tune" / name
        assert not (mine / "lock").exists(), "others would believe it abandoned"
    assert folder.exists()
    assert not mine.exists()


def test_a_folder_that_cannot_be_made_is_an_error_of_the_store(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "results"))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / ".tune").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*/\.tune/"), scratch(store, ".tune"):
        pass
