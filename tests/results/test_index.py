"""What saves reading: the index of how seeds ended, and columns that files of a setting share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nalu_ray.registry import task
from nalu_ray.results.store import index, integrity, packs, row_files
from nalu_ray.results.store.atomic_files import Entry
from nalu_ray.results.store.shared import SharedColumns
from nalu_ray.results.store.store import Store

STATIC = task("static")
OLD = 1_700_000_000.0  # a time at which files have settled


def seed_rows(seed: int, completed: float = 1.0) -> list[dict[str, Any]]:
    reason = None if completed else "diverged at step 3"
    base = {"seed": seed, "step": 5, "split": "interpolation", "reason": None}
    return [
        {**base, "metric": "mse", "value": 0.5 + seed},
        {**base, "metric": "completed", "value": completed, "reason": reason},
    ]


def add(store: Store, lr: float, *seeds: int, rows: list[dict[str, Any]] | None = None) -> Path:
    """A settled file of some seeds."""
    setting = STATIC.setting_type(lr=lr)
    key = {"task": "static", "setting_id": setting.id, "code": "abc"}
    made = rows or [line for seed in seeds for line in seed_rows(seed)]
    name = store.write(setting.model_dump(mode="json"), key, pd.DataFrame(made), {"lr": lr})
    path = Path(store.root, "static", f"{name}.parquet")
    os.utime(path, (OLD, OLD))
    return path


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("NALU_RAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index, "LEAST", 1)
    made = Store(str(tmp_path / "results"))
    add(made, 0.1, 0, 1)
    add(made, 0.2, 0)
    add(made, 0.3, 0, rows=seed_rows(0, completed=0.0))
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the row files that are read."""
    names: list[str] = []
    real: Callable[..., Any] = row_files.read_trials

    def noting(filesystem: object, infos: list[Entry], *args: Any, **more: Any) -> Any:
        names.extend(info.base_name for info in infos)
        return real(filesystem, infos, *args, **more)

    monkeypatch.setattr(row_files, "read_trials", noting)
    return names


def view(store: Store) -> tuple[Any, ...]:
    """What a new process says of the ends of seeds."""
    fresh = Store(store.out)
    return fresh.outcomes("static"), fresh.runs("static").to_dict("list"), fresh.counting("static")


def the_index(store: Store) -> Path:
    return index.place(f"{store.out}/static")


def test_the_second_command_reads_no_file(store: Store, read: list[str]) -> None:
    first = view(store)
    assert len(read) == 3  # once, for all three questions
    assert [outcome.status for outcome in first[0].values()].count("diverged") == 1
    read.clear()
    assert view(store) == first
    assert read == []


def test_only_new_files_are_read(store: Store, read: list[str]) -> None:
    view(store)
    read.clear()
    path = add(store, 0.4, 0, 1)
    assert len(view(store)[0]) == 6
    assert read == [path.name]
    path.unlink()
    assert len(view(store)[0]) == 4


@pytest.mark.parametrize("what", ["time", "size"])
def test_a_changed_file_is_read_again(store: Store, read: list[str], what: str) -> None:
    path = add(store, 0.4, 0)
    before = view(store)
    other = add(store, 0.4, *((0,) if what == "time" else (0, 1)))
    data = bytearray(other.read_bytes())
    data[len(data) // 2] ^= 1
    other.unlink()
    path.write_bytes(data)
    late = OLD + 1 if what == "time" else OLD
    os.utime(path, (late, late))
    read.clear()
    assert len(view(store)[0]) == len(before[0]) - 1  # the file is damaged
    assert set(read) == {path.name}


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "text", "unsealed", "a folder"])
def test_an_index_that_cannot_be_used_is_made_anew(
    store: Store, read: list[str], damage: str
) -> None:
    before, path = view(store), the_index(store)
    data = path.read_bytes()
    middle = len(data) // 2
    spoiled = {
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "cut": data[:middle],
        "empty": b"",
        "text": b"no table",
        "unsealed": data[:-81],
    }
    path.unlink()
    if damage in spoiled:
        path.write_bytes(spoiled[damage])
    else:
        path.mkdir()
    read.clear()
    assert view(store) == before
    assert len(read) == 3
    assert path.is_dir() or path.read_bytes() == data


def test_an_index_of_another_version_is_made_anew(
    store: Store, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(index, "_COLUMNS", index._COLUMNS.with_metadata({index._KEY: b"0"}))
        before = view(store)
    read.clear()
    assert view(store) == before
    assert len(read) == 3


def test_a_file_of_this_moment_is_not_indexed(store: Store, read: list[str]) -> None:
    """Another change within the same tick of the clock would not show."""
    path = add(store, 0.4, 0)
    os.utime(path)
    view(store)
    read.clear()
    view(store)
    assert set(read) == {path.name}


def test_files_that_need_a_word_are_read_every_time(
    store: Store, read: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    unsealed, damaged = add(store, 0.4, 0), add(store, 0.5, 0)
    pq.write_table(pq.read_table(unsealed), unsealed)
    damaged.write_bytes(damaged.read_bytes()[:-9])
    for path in (unsealed, damaged):
        os.utime(path, (OLD, OLD))
    view(store)
    for _ in range(2):
        read.clear()
        caplog.clear()
        assert len(view(store)[0]) == 5
        assert set(read) == {unsealed.name, damaged.name}
        assert [damaged.name in record.message for record in caplog.records] == [True]


def test_a_trial_without_a_final_row_keeps_its_name(store: Store) -> None:
    path = add(store, 0.4, rows=seed_rows(0)[:1])
    first = view(store)
    assert first[2][path.stem] == set()
    assert view(store) == first


def test_packs_answer_as_their_trials_did(store: Store, read: list[str]) -> None:
    before = view(store)
    store.compact("static")
    (pack,) = Path(store.root, "static").glob("*.parquet")
    assert packs.names_pack(str(pack))
    os.utime(pack, (OLD, OLD))
    assert view(store) == before
    read.clear()
    assert view(store) == before
    assert read == []


def test_tables_come_from_the_files(store: Store, read: list[str]) -> None:
    """Whole rows are read in any case, and serve for the ends too."""
    view(store)
    read.clear()
    fresh = Store(store.out)
    assert len(fresh.load("static")) == 8
    assert len(fresh.outcomes("static")) == 4
    assert len(read) == 3


def test_few_files_have_no_index(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LEAST", 4)
    view(store)
    assert not the_index(store).exists()


def test_a_cache_that_cannot_be_written_is_done_without(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    before = view(store)
    monkeypatch.setenv("NALU_RAY_CACHE", str(tmp_path / "file"))
    assert view(store) == before


# -- columns that files of one setting share -------------------------------------------------------


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of rows of each file whose setting was not decoded again."""
    counts: list[int] = []
    real = SharedColumns.completed

    def noting(self: SharedColumns, schema: pa.Schema, rows: pa.Table) -> pa.Table:
        counts.append(rows.num_rows)
        return real(self, schema, rows)

    monkeypatch.setattr(SharedColumns, "completed", noting)
    return counts


def texts(rows: Iterable[Mapping[Any, Any]]) -> list[str]:
    """Rows in an order of their own."""
    return sorted(str(sorted((name, str(value)) for name, value in row.items())) for row in rows)


def decoded(store: Store) -> list[str]:
    """All rows as another program reads them."""
    tables = [pq.read_table(path) for path in Path(store.root, "static").glob("*.parquet")]
    return texts(pa.concat_tables(tables, promote_options="permissive").to_pylist())


def test_a_setting_is_decoded_in_one_of_its_files(
    store: Store, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "_READERS", 1)  # of files read at once, each is decoded
    add(store, 0.1, 2)
    add(store, 0.1, 3, 4)
    rows = Store(store.out).load("static").astype(object)
    assert texts(rows.where(rows.notna(), None).to_dict("records")) == decoded(store)
    assert len(completed) == 2  # of three files


def test_another_preset_is_another_digest(store: Store, completed: list[int]) -> None:
    setting = STATIC.setting_type(lr=0.1)
    key = {"task": "static", "setting_id": setting.id, "code": "abc"}
    for preset in ("laptop", "paper"):
        about = {"preset": preset, "changes": "{}"}
        rows = pd.DataFrame(seed_rows(7 + (preset == "paper")))
        store.write(setting.model_dump(mode="json"), key, rows, {}, about=about)
    frame = Store(store.out).load("static")
    assert dict(zip(frame["seed"], frame["preset"], strict=True))[7] == "laptop"
    assert dict(zip(frame["seed"], frame["preset"], strict=True))[8] == "paper"
    assert completed == []


def test_a_digest_that_is_not_its_columns_is_not_shared(
    store: Store, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(integrity, "digest", lambda row: b"the same for all")
        for lr in (0.6, 0.7):
            add(store, lr, 0)
    frame = Store(store.out).load("static")
    assert {0.1, 0.2, 0.3, 0.6, 0.7} == {*frame["lr"]}
    assert completed == []
