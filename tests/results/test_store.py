"""The store: what is written comes back, and what goes wrong harms nothing."""

import logging
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nalu_ray.results.specs import TaskSpecs
from nalu_ray.results.store import atomic_files, integrity, row_files, states
from nalu_ray.results.store.store import COLUMNS, Outcome, Store, StoreError

ROOT = Path(__file__).resolve().parents[2]
KEY = {"task": "static", "setting_id": "a"}
NAN, INF = math.nan, math.inf


def rows(
    seeds: dict[int, float], ok: bool = True, reason: str | None = None, end: int = 100
) -> pd.DataFrame:
    """An error of each seed, and its final row."""
    table = []
    for seed, value in seeds.items():
        base = {"seed": seed, "step": end, "reason": None}
        table.append({**base, "split": "interpolation", "metric": "mse", "value": value})
        final = {"metric": "completed", "value": float(ok), "reason": reason}
        table.append({**base, "split": "train", **final})
    return pd.DataFrame(table)


def put(store: Store, seeds: dict[int, float], **kwargs: Any) -> str:
    return store.write({"layer": "nac", "lr": 0.1}, KEY, rows(seeds, **kwargs), {"commit": "c"})


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def errors(frame: pd.DataFrame) -> dict[int, float]:
    kept = frame[frame["metric"] == "mse"]
    return dict(zip(kept["seed"].tolist(), kept["value"].tolist(), strict=True))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "results"))


def test_what_is_written_comes_back(store: Store) -> None:
    name = put(store, {0: 1.5, 1: 2.5})
    frame = store.load("static")
    assert list(frame.columns) == [*COLUMNS, "layer", "lr"]
    assert errors(frame) == {0: 1.5, 1: 2.5}
    assert set(frame["layer"]) == {"nac"}
    assert set(frame["lr"]) == {0.1}
    assert frame["reason"].isna().all()
    assert frame["x"].isna().all()
    assert store.outcomes("static") == {
        ("a", s): Outcome("a", s, "completed", block=2) for s in (0, 1)
    }
    assert store.manifests("static") == [{"commit": "c"}]
    assert name.startswith("a-")
    assert store.tasks() == ["static"]


value = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=20)
@given(st.dictionaries(st.integers(0, 2**40), value, min_size=1, max_size=5), st.text(max_size=20))
def test_any_numbers_and_texts_come_back(
    tmp_path_factory: pytest.TempPathFactory, seeds: dict[int, float], reason: str
) -> None:
    here = Store(str(tmp_path_factory.mktemp("store")))
    put(here, seeds, ok=False, reason=reason)
    loaded = errors(here.load("static"))
    assert loaded.keys() == seeds.keys()
    for seed, expected in seeds.items():
        assert loaded[seed] == expected or (math.isnan(expected) and math.isnan(loaded[seed]))
    assert {o.reason for o in here.outcomes("static").values()} == {reason}


def test_a_text_that_is_no_utf8_is_kept_readable(store: Store) -> None:
    path = store.write_text("static", "a.traceback.txt", "b\udce4d")  # as a file name may be
    assert Path(path).read_text(encoding="utf-8") == r"b\udce4d"


def test_a_trial_of_many_rows_that_are_alike_comes_back(store: Store) -> None:
    """They compress to less than readers ask of a file of so many rows."""
    ends = rows(dict.fromkeys(range(1_000), 0.5))
    logged = ends[ends["metric"] == "mse"]
    many = pd.concat([ends, *(logged.assign(step=200 + step) for step in range(250))])
    assert len(many) > integrity.MOST_ROWS
    assert len(row_files._encoded(pa.Table.from_pandas(many))) < 2 * len(many)
    name = store.write({"layer": "nac"}, KEY, many, {})
    assert Path(store.out, "static", f"{name}.parquet").stat().st_size > 2 * len(many)
    assert len(store.outcomes("static")) == 1_000
    assert len(store.load("static")) == len(many)


def test_nothing_stored(store: Store) -> None:
    assert store.tasks() == []
    assert store.load("static").empty
    assert list(store.load("static").columns) == COLUMNS
    assert store.outcomes("static") == {}
    assert store.manifests("static") == []
    assert store.specs("static") is None


def test_only_folders_with_rows_are_tasks(store: Store, tmp_path: Path) -> None:
    put(store, {0: 1.0})
    store.write_text("planned", "note.txt", "no rows yet")
    (tmp_path / "results" / "report" / "static").mkdir(parents=True)
    (tmp_path / "results" / ".hidden").mkdir()
    assert store.tasks() == ["static"]


def test_a_uri_is_the_same_place(store: Store, tmp_path: Path) -> None:
    put(store, {0: 1.0})
    other = Store((tmp_path / "results").as_uri())
    pd.testing.assert_frame_equal(other.load("static"), store.load("static"))
    put(other, {1: 2.0})
    assert sorted(errors(store.load("static"))) == [0, 1]
    assert not list((tmp_path / "results").rglob("*.tmp"))


def test_a_relative_folder_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Store("here").out == str(tmp_path / "here")


# -- settings ------------------------------------------------------------------------------------


def write_setting(store: Store, sid: str, setting: dict[str, Any]) -> None:
    store.write(setting, {"task": "static", "setting_id": sid}, rows({0: 1.0}), {})


def test_fields_of_any_type_stand_below_one_another(store: Store) -> None:
    write_setting(store, "a", {"size": 2, "kind": 1, "mixed": 1, "flag": True, "always_none": None})
    write_setting(store, "b", {"size": 2.5, "kind": "x", "mixed": False, "flag": None})
    write_setting(store, "c", {"size": None, "kind": 0.5, "mixed": 2, "sizes": [1, 2]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = store.load("static").drop_duplicates("setting_id").set_index("setting_id")
    assert frame["size"].tolist()[:2] == [2.0, 2.5]
    assert pd.isna(frame["size"]["c"])
    assert frame["kind"].tolist() == ["1", "x", "0.5"]
    assert frame["mixed"].tolist() == ["1", "false", "2"]
    assert frame["flag"]["a"] == True  # noqa: E712 (a NumPy or a plain bool)
    assert frame["sizes"]["c"] == "[1, 2]"
    assert frame["always_none"].isna().all()


def test_a_field_must_not_hide_a_column(store: Store) -> None:
    with pytest.raises(ValueError, match="step, value"):
        store.write({"value": 1, "step": 2}, KEY, rows({0: 1.0}), {})
    assert store.tasks() == []


# -- the same seed twice -------------------------------------------------------------------------


def test_a_seed_comes_from_one_file_and_the_first_wins(store: Store, tmp_path: Path) -> None:
    first = put(store, {0: 1.0, 1: 2.0})
    put(store, {1: 20.0, 2: 30.0})
    # whoever copies a folder changes the times of its files
    os.utime(tmp_path / "results" / "static" / f"{first}.parquet", (2e9, 2e9))
    frame = store.load("static")
    assert errors(frame) == {0: 1.0, 1: 2.0, 2: 30.0}
    assert frame.groupby("seed").size().tolist() == [2, 2, 2]


@pytest.mark.parametrize("failed_first", [True, False])
def test_a_completed_seed_wins_over_a_failed_one(store: Store, failed_first: bool) -> None:
    attempts: list[Callable[[], str]] = [
        lambda: put(store, {0: NAN}, ok=False, reason="out of memory", end=5),
        lambda: put(store, {0: 1.0}),
    ]
    for attempt in attempts if failed_first else attempts[::-1]:
        attempt()
    assert store.outcomes("static") == {("a", 0): Outcome("a", 0, "completed")}
    assert errors(store.load("static")) == {0: 1.0}
    assert store.load("static")["step"].unique().tolist() == [100]


def test_an_outcome_of_before_the_column_is_read_from_its_reason(store: Store) -> None:
    reasons = {
        None: "completed",
        "diverged: at step 3": "diverged",
        "oom: 2 seeds at once did not fit, reserved: nothing": "out_of_memory",
        "ValueError: oom: 4 seeds": "failed",
        "oom: in words": "failed",
    }
    for seed, reason in enumerate(reasons):  # rows without the column, as a task may give them
        put(store, {seed: 1.0}, ok=reason is None, reason=reason)
    before = strip(store, "outcome")
    assert "outcome" not in before
    for _ in range(2):
        ended = {o.seed: o.status for o in Store(store.out).outcomes("static").values()}
        assert [ended[seed] for seed in range(5)] == list(reasons.values())
    frame = Store(store.out).load("static").sort_values("seed")
    assert frame[frame["metric"] == "mse"]["outcome"].isna().all()
    assert list(frame[frame["metric"] == "completed"]["outcome"]) == list(reasons.values())


def strip(store: Store, column: str) -> list[str]:
    """Makes a store's files those of a program that did not have the column; returns the rest."""
    names: list[str] = []
    for path in Path(store.out, "static").glob("*.parquet"):
        table = pq.read_table(path).drop_columns([column])
        path.write_bytes(row_files.encode(table))
        names = table.column_names
    return names


def test_a_reason_of_megabytes_keeps_its_beginning_and_its_end(store: Store) -> None:
    long = f"ValueError: {'x' * 3_000_000} (traceback: results/a.traceback.txt)"
    put(store, {0: 1.0, 1: 2.0}, ok=False, reason=long)
    put(store, {2: 1.0})
    (path, *_) = sorted(Path(store.out, "static").glob("*.parquet"), key=os.path.getmtime)
    assert path.stat().st_size < 50_000
    reasons = {o.seed: o.reason for o in store.outcomes("static").values()}
    assert reasons[2] is None
    for seed in (0, 1):
        assert len(reasons[seed] or "") == 4005
        assert str(reasons[seed]).startswith("ValueError: xxx")
        assert str(reasons[seed]).endswith("xx (traceback: results/a.traceback.txt)")
        assert " ... " in str(reasons[seed])
    assert store.load("static")["reason"].dropna().str.len().max() == 4005


def test_an_outcome_that_a_row_gives_counts_whatever_its_reason_says(store: Store) -> None:
    given = rows({0: 1.0, 1: 2.0}, ok=False, reason="diverged: no")
    given["outcome"] = [None, "out_of_memory", None, "anything"]
    store.write({"layer": "nac", "lr": 0.1}, KEY, given, {})
    ended = {o.seed: (o.status, o.block) for o in store.outcomes("static").values()}
    assert ended == {0: ("out_of_memory", 2), 1: ("diverged", 2)}


def test_of_failed_attempts_the_last_one_counts(store: Store) -> None:
    for step, reason in enumerate(("oom: 8 seeds", "oom: 4 seeds", "oom: 2 seeds")):
        put(store, {0: NAN, 1: NAN}, ok=False, reason=reason, end=step)
    assert {found.reason for found in store.outcomes("static").values()} == {"oom: 2 seeds"}
    assert store.load("static")["step"].max() == 2


def test_a_seed_without_its_final_row_is_not_there(store: Store) -> None:
    frame = rows({0: 1.0, 1: 2.0})
    store.write({}, KEY, frame[~((frame["seed"] == 1) & (frame["metric"] == "completed"))], {})
    assert errors(store.load("static")) == {0: 1.0}
    assert list(store.outcomes("static")) == [("a", 0)]


def write_some(out: str, writer: int) -> None:
    for _ in range(4):
        put(Store(out), {seed: float(writer) for seed in range(3)})


def test_two_writers_at_once(store: Store, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        for future in [pool.submit(write_some, store.out, writer) for writer in (1, 2)]:
            future.result()
    assert len(list((tmp_path / "results" / "static").glob("*.parquet"))) == 8
    found = errors(store.load("static"))
    assert sorted(found) == [0, 1, 2]
    assert len(set(found.values())) == 1  # all of the same, first file
    assert not list((tmp_path / "results").rglob("*.tmp"))


# -- what is none of ours ------------------------------------------------------------------------


def spoil(folder: Path, how: str) -> Path:
    good = next(folder.glob("*.parquet"))
    bad = folder / "bad.parquet"
    if how == "truncated":
        bad.write_bytes(good.read_bytes()[:-40])
    elif how == "empty":
        bad.write_bytes(b"")
    elif how == "foreign":
        pq.write_table(pa.table({"seed": [0], "value": [0.0]}), bad)
    else:
        table = pq.read_table(good)
        names = pa.array(["zero"] * table.num_rows)
        pq.write_table(table.set_column(table.schema.get_field_index("seed"), "seed", names), bad)
    return bad


@pytest.mark.parametrize("how", ["truncated", "empty", "foreign", "wrong type"])
def test_what_cannot_be_read_is_named_once_and_skipped(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    put(store, {0: 1.0})
    bad = spoil(tmp_path / "results" / "static", how)
    with caplog.at_level(logging.WARNING):
        assert errors(store.load("static")) == {0: 1.0}
        assert list(store.outcomes("static")) == [("a", 0)]
    assert [str(bad) in record.message for record in caplog.records] == [True]


def forged(folder: Path, **columns: Any) -> Path:
    """A copy of a stored file, its stamp kept, with other values in some columns."""
    table = pq.read_table(next(folder.glob("*.parquet")))
    for name, value in columns.items():
        place = table.schema.get_field_index(name)
        if name == "metadata":
            table = table.replace_schema_metadata(value)
        else:
            values = pa.array([value] * table.num_rows, table.schema.field(place).type)
            table = table.set_column(place, table.schema.field(place), values)
    pq.write_table(table, folder / "bad.parquet")
    return folder / "bad.parquet"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"metadata": None, "setting_id": "deadbeef"}, "no nalu_ray.written_ns in its metadata"),
        ({"metadata": {"nalu_ray.written_ns": "soon"}}, "invalid literal"),
        ({"task": "identity"}, "rows of task identity, not static"),
        ({"setting_id": "deadbeef"}, "was changed after it was written"),
        ({"layer": "nalu"}, "was changed after it was written"),
        ({"lr": 0.2}, "was changed after it was written"),
        ({"task": None}, "rows without task"),
        ({"setting_id": None}, "rows without setting_id"),
        ({"seed": None}, "rows without seed"),
        ({"step": None}, "rows without step"),
        ({"metric": None}, "rows without metric"),
    ],
)
def test_a_file_of_somewhere_else_is_named_and_skipped(
    store: Store,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    columns: dict[str, Any],
    reason: str,
) -> None:
    put(store, {0: 1.0})
    bad = forged(tmp_path / "results" / "static", **columns)
    for read in (Store.load, Store.outcomes):
        caplog.clear()
        fresh = Store(store.out)
        with caplog.at_level(logging.WARNING):
            assert len(read(fresh, "static")) == (2 if read is Store.load else 1)
        (record,) = caplog.records
        assert record.message.startswith(f"skipped {bad}: ")
        assert reason in record.message
        assert fresh.manifests("static") == [{"commit": "c"}]


def test_two_settings_in_one_file_are_none_of_ours(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "static"
    put(store, {0: 1.0})
    good = pq.read_table(next(folder.glob("*.parquet")))
    other = pq.read_table(forged(folder, setting_id="b"))
    pq.write_table(pa.concat_tables([good, other]), folder / "bad.parquet")
    assert list(store.outcomes("static")) == [("a", 0)]


def test_a_copied_file_and_one_of_before_the_digest_count(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "static"
    write_setting(store, "a", {"size": 2.0, "sizes": [1, 2], "flag": True, "none": None, "t": "é"})
    forged(folder).replace(folder / next(folder.glob("a*.parquet")).name)
    write_setting(store, "b", {"layer": "nac"})
    (second,) = folder.glob("b*.parquet")
    table = pq.read_table(second)
    stamp = {b"nalu_ray.written_ns": table.schema.metadata[b"nalu_ray.written_ns"]}
    pq.write_table(table.replace_schema_metadata(stamp), second)
    assert list(Store(store.out).outcomes("static")) == [("a", 0), ("b", 0)]


@pytest.mark.parametrize("text", ["", "{}", '{"task": "static", "unknown": 1}', "\ufeff["])
def test_specs_that_cannot_be_read_are_named(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    put(store, {0: 1.0})
    (tmp_path / "results" / "static" / "specs.json").write_text(text, encoding="utf-8")
    assert store.specs("static") is None
    assert "specs.json" in caplog.text


def test_specs_come_back(store: Store) -> None:
    specs = TaskSpecs(task="static", title="Static", section="4.1", axes=("layer",))
    store.write_specs(specs)
    assert store.specs("static") == specs


# -- writing that fails --------------------------------------------------------------------------

FULL = """
import resource, sys
from tests.results.test_store import put, Store, StoreError
store = Store(sys.argv[1])
put(store, {0: 1.0})
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    put(store, {seed: seed / 7 for seed in range(2000)})
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [0, 1000])
def test_a_full_disk_changes_nothing(tmp_path: Path, limit: int) -> None:
    """A file that cannot grow is what a full disk is to the writer."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(limit)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.search(r"cannot write .*File too large", done.stdout), done.stdout
    assert sorted(p.suffix for p in (tmp_path / "static").iterdir()) == [".json", ".parquet"]
    assert errors(Store(str(tmp_path)).load("static")) == {0: 1.0}


def test_rows_that_fail_take_their_manifest_with_them(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, {0: 1.0})
    before = listing(tmp_path)
    whole = atomic_files.write_whole

    def fails(filesystem: Any, path: str, data: bytes, **how: bool) -> None:
        if path.endswith(".parquet"):
            raise OSError(28, "No space left on device")
        whole(filesystem, path, data, **how)

    monkeypatch.setattr(atomic_files, "write_whole", fails)
    with pytest.raises(StoreError, match="No space left"):
        put(store, {1: 2.0})
    assert listing(tmp_path) == before


def test_a_place_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for store in (Store(str(tmp_path / "file")), Store(str(tmp_path / "file" / "below"))):
        with pytest.raises(StoreError, match=r"Not a directory|exists"):
            store.check_writable("static")
        with pytest.raises(StoreError, match=r"Not a directory|exists"):
            put(store, {0: 1.0})
    with pytest.raises(StoreError, match="cannot list"):
        Store(str(tmp_path / "file")).tasks()


@pytest.mark.parametrize("kind", ["rows", "state"])
def test_nothing_is_written_to_a_folder_without_the_mark(tmp_path: Path, kind: str) -> None:
    results = tmp_path / "results"
    marked = Store(str(results), ".tune/x/mark")
    Store(str(results)).put(f"{results}/.tune/x/mark", b"")

    def write() -> None:
        if kind == "rows":
            put(marked, {0: 1.0})
        else:
            states.save(marked, "static", "a", b"", setting_id="a", seeds=(0,))

    write()
    results.rename(tmp_path / "away")
    with pytest.raises(StoreError, match=r"cannot write .*\.tune/x/mark"):
        write()
    assert not results.exists()
    (tmp_path / "away").rename(results)
    write()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder_says_why(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="Permission denied"):
        Store(str(tmp_path / "results")).check_writable("static")


def test_an_unknown_kind_of_place_is_refused() -> None:
    with pytest.raises(StoreError, match="out=nowhere://x"):
        Store("nowhere://x")


def test_check_writable_leaves_nothing(store: Store, tmp_path: Path) -> None:
    store.check_writable("static")
    assert listing(tmp_path) == {}


KILLED = """
import os, sys, time
from tests.results.test_store import put, Store
def slow(source, target):
    print("writing", flush=True)
    time.sleep(60)
os.replace = slow
put(Store(sys.argv[1]), {1: 2.0})
"""


def test_a_writer_that_is_killed_leaves_what_readers_ignore(store: Store, tmp_path: Path) -> None:
    put(store, {0: 1.0})
    before = listing(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, store.out], cwd=ROOT, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    left = [name for name in listing(tmp_path) if name not in before]
    assert [Path(name).suffix for name in left] == [".tmp"]
    assert errors(store.load("static")) == {0: 1.0}
    store.check_writable("static")
    assert listing(tmp_path).keys() == {*before, *left}  # a writer may still be at work
    day_ago = time.time() - atomic_files.STALE_SECONDS - 60
    os.utime(tmp_path / left[0], (day_ago, day_ago))
    store.check_writable("static")
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("", "name a folder or a URI"),
        ("  ", "name a folder or a URI"),
        ("file:///p/a#b", "a URI ends at '#'; write %23 for it, or a path without file://"),
        ("file:///p/a?b", "a URI ends at '?'; write %3F for it"),
        ("s3://bucket/a#b", "a URI ends at '#'"),
        ("s3://", "no bucket or folder after s3://"),
        ("gs://", "no bucket or folder after gs://"),
        ("file://", "relative"),
    ],
)
def test_an_address_that_is_no_place_is_refused(out: str, words: str) -> None:
    with pytest.raises(StoreError, match=f"^out={re.escape(out)}: cannot be used") as caught:
        Store(out)
    assert words in str(caught.value)


def test_a_hash_in_a_name_is_kept(tmp_path: Path) -> None:
    assert Store(f"file://{tmp_path}/a%23b").root == f"{tmp_path}/a#b"
    assert Store(f"{tmp_path}/a#b").root == f"{tmp_path}/a#b"
