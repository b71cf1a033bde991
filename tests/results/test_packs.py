"""Packs: many row files become one, and nothing that is read from them changes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from nalu_ray.results.__main__ import main
from nalu_ray.results.store import atomic_files, packs, row_files
from nalu_ray.results.store.store import Store, StoreError

OLD = Path(__file__).resolve().parents[1] / "data" / "results_0_1"


class Killed(BaseException):
    """Stands for ``kill -9``."""


def write(store: Store, sid: str, seeds: dict[int, float], **extra: Any) -> str:
    """Stores a trial of one setting; ``extra`` has its outcome, its code and further fields."""
    done, code = extra.pop("done", True), extra.pop("code", "one")
    reason = None if done else "diverged: at step 7"
    table: list[dict[str, Any]] = []
    for seed, value in seeds.items():
        base = {"seed": seed, "step": 9, "reason": None, "split": "interpolation"}
        table.append({**base, "metric": "mse", "value": value})
        table.append({**base, "metric": "completed", "value": float(done), "reason": reason})
    setting = {"layer": sid, "lr": 0.1, **extra}
    key = {"task": "static", "setting_id": sid, "code": code}
    about = {"preset": "laptop", "changes": "{}"}
    beside = {f"{seed}.agent.pt": b"network" for seed in seeds}
    return store.write(setting, key, pd.DataFrame(table), {"trial": sid}, beside, about=about)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two settings, seeds that ran again, other code, a field that only some rows have."""
    made = Store(str(tmp_path / "results"))
    write(made, "nac", {0: 1.0, 1: 2.0})
    write(made, "nac", {1: 2.5, 2: 3.0})  # seed 1 again: the first counts
    write(made, "nalu", {0: 4.0}, done=False)
    write(made, "nalu", {0: 4.5})  # completed: counts
    write(made, "nac", {2: 9.0}, code="two")  # other code: supersedes
    write(made, "relu", {0: 5.0}, hidden=2)
    write(made, "tanh", {0: 6.0}, hidden=3)
    return made


def view(store: Store) -> tuple[Any, ...]:
    """Everything that can be read of the rows, in an order of its own."""
    fresh = Store(store.out)
    rows = fresh.load("static")
    order = ["setting_id", "seed", "metric"]
    frame = rows.sort_values(order).reset_index(drop=True).sort_index(axis=1)
    counting = {name: seeds for name, seeds in fresh.counting("static").items() if seeds}
    manifests = sorted(map(str, fresh.manifests("static")))
    return frame.to_csv(), fresh.outcomes("static"), counting, manifests


def names(store: Store) -> list[str]:
    return sorted(path.name for path in Path(store.out, "static").glob("*.parquet"))


def test_nothing_that_is_read_changes(store: Store) -> None:
    before = view(store)
    networks = sorted(Path(store.out, "static").glob("*.agent.pt"))
    assert store.compact("static") == (7, 2)  # one per set of columns
    assert view(store) == before
    assert sorted(Path(store.out, "static").glob("*.agent.pt")) == networks
    assert len(list(Path(store.out, "static").glob("*.json"))) == 2


def test_a_second_call_changes_no_file(store: Store) -> None:
    store.compact("static")
    first = names(store)
    assert store.compact("static") == (2, 2)
    assert names(store) == first


def test_later_trials_join_the_pack(store: Store) -> None:
    store.compact("static")
    write(store, "nac", {7: 1.0})
    before = view(store)
    assert store.compact("static") == (3, 2)
    assert view(store) == before
    assert store.outcomes("static")["nac", 7].ok


def test_a_full_pack_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "MOST_ROWS", 6)
    before = view(store)
    store.compact("static")
    assert view(store) == before
    tables = [pq.read_table(Path(store.out, "static", name)) for name in names(store)]
    assert max(len(table) for table in tables) <= 6
    full = [
        name for name, table in zip(names(store), tables, strict=True)
        if packs.TRIAL in table.column_names and len(table) >= 3
    ]  # fmt: skip
    write(store, "nac", {8: 1.0})
    store.compact("static")
    assert set(full) <= set(names(store))


@pytest.mark.parametrize("steps", range(18))  # all that it writes and removes
def test_a_kill_at_any_moment_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    before, left = view(store), [steps]

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return call(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "write_whole", dying(atomic_files.write_whole))
        patch.setattr(atomic_files, "remove_quietly", dying(atomic_files.remove_quietly))
        with pytest.raises(Killed):
            store.compact("static")
    assert view(store) == before
    store.compact("static")
    assert view(store) == before
    assert len(names(store)) == 2


def test_packs_of_two_processes_leave_one(store: Store, tmp_path: Path) -> None:
    before = view(store)
    other = Store(str(tmp_path / "other"))
    shutil.copytree(store.out, other.out, dirs_exist_ok=True)
    store.compact("static")
    other.compact("static")
    shutil.copytree(other.out, store.out, dirs_exist_ok=True)
    assert len(names(store)) == 4
    assert view(store) == before
    store.compact("static")
    assert view(store) == before
    assert len(names(store)) == 2


def test_a_file_packed_while_it_is_read_is_read_from_the_pack(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = view(store), row_files.read_trials
    calls = []

    def late(*args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs["strict"])
        if len(calls) == 1:  # after the folder was listed
            monkeypatch.setattr(row_files, "read_trials", real)
            store.compact("static")
            monkeypatch.setattr(row_files, "read_trials", late)
        return real(*args, **kwargs)

    monkeypatch.setattr(row_files, "read_trials", late)
    assert Store(store.out).outcomes("static") == before[1]
    assert calls == [True, True]


def test_files_without_a_digest_and_damaged_files_stay(store: Store, tmp_path: Path) -> None:
    path = Path(store.out, "static", names(store)[0])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"?" + data[len(data) // 2 + 1 :])
    old = {p.name for p in (OLD / "static").glob("*.parquet")}
    shutil.copytree(OLD / "static", Path(store.out, "static"), dirs_exist_ok=True)
    before = view(store)
    Store(store.out).compact("static")
    assert {path.name, *old} <= set(names(store))
    assert view(store) == before


def test_a_trial_without_a_readable_manifest_stays(store: Store) -> None:
    first, second, *_ = sorted(Path(store.out, "static").glob("nac-*.json"))
    first.unlink()
    second.write_text("{")
    before = view(store)
    store.compact("static")
    assert {f"{path.stem}.parquet" for path in (first, second)} <= set(names(store))
    assert second.read_text() == "{"
    assert view(store) == before


def test_a_trial_that_ends_meanwhile_keeps_its_manifest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Store._manifests

    def late(self: Store, task: str) -> Any:
        monkeypatch.setattr(Store, "_manifests", real)
        manifests = real(self, task)
        write(self, "late", {0: 1.0})
        return manifests

    monkeypatch.setattr(Store, "_manifests", late)
    store.compact("static")
    assert "{'trial': 'late'}" in view(store)[3]
    store.compact("static")
    assert "{'trial': 'late'}" in view(store)[3]


def test_a_pack_without_its_manifests_replaces_no_file(store: Store) -> None:
    kept = names(store)
    files_before = {name: Path(store.out, "static", name).read_bytes() for name in kept}
    beside = {path.name: path.read_bytes() for path in Path(store.out, "static").glob("*.json")}
    store.compact("static")
    for name, data in {**files_before, **beside}.items():
        Path(store.out, "static", name).write_bytes(data)
    for path in Path(store.out, "static").glob("pack-*.json"):
        path.write_text('{"trials": {}}')
    before = view(store)
    store.compact("static")
    assert view(store) == before
    assert len(before[3]) == 7


def test_a_pack_with_a_changed_byte_is_skipped(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.compact("static")
    path = Path(store.out, "static", names(store)[0])
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data))
    assert len(Store(store.out).outcomes("static")) < 6
    assert path.name in caplog.text


def test_a_disk_that_fails_keeps_the_trials(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = view(store)

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "write_whole", full)
        with pytest.raises(StoreError, match="No space left"):
            store.compact("static")
    assert view(store) == before


def test_other_programs_read_a_pack(store: Store) -> None:
    duckdb = pytest.importorskip("duckdb")
    store.compact("static")
    query = (
        f"select count(*) from read_parquet('{store.out}/static/*.parquet', union_by_name=true) "
        "where metric = 'mse'"
    )
    assert duckdb.sql(query).fetchall() == [(9,)]


def test_the_command(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", "--out", store.out]) == 0
    assert capsys.readouterr().out == "static: 7 row files before, 2 after\n"
    assert main(["compat", "statik", "--out", store.out]) == 2
    errors = capsys.readouterr().err
    assert "unknown action 'compat'. Did you mean 'compact'?" in errors
    assert "unknown stored task 'statik'. Did you mean 'static'?" in errors
