"""Row files that a disk damaged, or that somebody made to do harm: named, skipped, at no cost."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nalu_ray.errors import printable
from nalu_ray.registry import task
from nalu_ray.results.specs import Measure, TaskSpecs
from nalu_ray.results.store import atomic_files, integrity, row_files, seal
from nalu_ray.results.store.columns import columns
from nalu_ray.results.store.store import COLUMNS, Store, StoreError

ROOT = Path(__file__).resolve().parents[2]
STATIC = task("static")
SETTING = STATIC.setting_type()
KEY = {"task": "static", "setting_id": SETTING.id}
TYPES = columns(STATIC.setting_type)


def rows(seeds: tuple[int, ...] = (0, 1), values: int = 3) -> pd.DataFrame:
    random.seed(1)
    table = []
    for seed in seeds:
        for step in range(values):
            value = random.random()
            table.append({"seed": seed, "step": step, "split": "test", "metric": "mse",
                          "value": value})  # fmt: skip
        table.append({"seed": seed, "step": values, "split": "train", "metric": "completed",
                      "value": 1.0})  # fmt: skip
    return pd.DataFrame(table).assign(x=None, reason=None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One good file of two seeds, and the specifications beside it."""
    made = Store(str(tmp_path / "results"))
    made.write_specs(STATIC.specs())
    made.write(SETTING.model_dump(mode="json"), KEY, rows(), {}, known=TYPES)
    return made


def folder(store: Store) -> Path:
    return Path(store.root, "static")


def the_file(store: Store) -> Path:
    (path,) = folder(store).glob("*.parquet")
    return path


def put(store: Store, data: bytes | Callable[[Path], object]) -> Path:
    """Another file ``a.parquet``."""
    path = folder(store) / "a.parquet"
    if callable(data):
        data(path)
    else:
        path.write_bytes(data)
    return path


def only_the_good_one(
    store: Store, bad: Path, caplog: pytest.LogCaptureFixture, why: str = ""
) -> None:
    """Both ways of reading name the file once, on one line, and give the good one's rows."""
    for read, count in (("load", 8), ("outcomes", 2)):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert len(getattr(Store(store.out), read)("static")) == count
        (record,) = caplog.records
        text = record.getMessage()
        assert text.startswith("skipped ")
        assert printable(bad.name) in text
        assert why in text
        assert text.isprintable()
        assert len(text) < 700


# -- bits ------------------------------------------------------------------------------------------


def test_a_flipped_bit_is_never_another_number(store: Store) -> None:
    """Every bit of every byte would take a minute: 50 of them."""
    path = the_file(store)
    data = path.read_bytes()
    expected = store.load("static")
    random.seed(2)
    places = [random.randrange(8 * len(data)) for _ in range(50)]
    named = 0
    for place in places:
        spoiled = bytearray(data)
        spoiled[place // 8] ^= 1 << (place % 8)
        path.write_bytes(spoiled)
        frame = Store(store.out).load("static")
        named += frame.empty
        if not frame.empty:  # a bit of the mark that tells that there is a digest
            pd.testing.assert_frame_equal(frame, expected)
    assert named >= len(places) - 2


def test_the_digest_covers_every_byte(store: Store) -> None:
    data = the_file(store).read_bytes()
    assert seal.check_rows(data)
    missed = []
    for place in range(len(data)):
        spoiled = bytearray(data)
        spoiled[place] ^= 1
        try:
            if seal.check_rows(bytes(spoiled)):
                missed.append(place)
        except seal.DamagedError:
            continue
    assert missed == []


def test_a_bit_of_a_page_is_found_by_others_too(store: Store) -> None:
    """Whoever reads the file with another program can have its checksums verified."""
    path = the_file(store)
    assert pq.ParquetFile(path, page_checksum_verification=True).read().num_rows == 8
    about = pq.ParquetFile(path).metadata.row_group(0)
    names = [about.column(i).path_in_schema for i in range(about.num_columns)]
    column = about.column(names.index("value"))
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size // 2 + 20] ^= 4
    with pytest.raises(OSError, match=r"CRC|checksum"):
        pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()


def test_a_file_without_a_digest_is_read(store: Store) -> None:
    path = the_file(store)
    before = store.load("static")
    pq.write_table(pq.read_table(path), path)
    assert not seal.check_rows(path.read_bytes())
    pd.testing.assert_frame_equal(Store(store.out).load("static"), before)


# -- storage that fails ----------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that gives EIO")
@pytest.mark.parametrize("what", ["rows", "specs", "manifest"])
def test_a_disk_that_cannot_be_read_is_no_missing_file(store: Store, what: str) -> None:
    """Its first byte gives EIO: an input/output error, as of a disk that breaks."""
    name = {"rows": "a.parquet", "specs": "specs.json", "manifest": f"{the_file(store).stem}.json"}
    path = folder(store) / name[what]
    path.unlink(missing_ok=True)
    path.symlink_to("/proc/self/mem")
    fresh = Store(store.out)
    read = fresh.manifests if what == "manifest" else fresh.load
    with pytest.raises(StoreError, match=r"cannot read .*Input/output error; nothing was changed"):
        read("static")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that gives EIO")
@pytest.mark.parametrize("command", ["report", "tune"])
def test_it_ends_a_command_with_one_sentence(
    store: Store, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    from nalu_ray import report, tune

    path = put(store, lambda path: path.symlink_to("/proc/self/mem"))
    mains = {
        "report": lambda: report.main(["--out", store.out]),
        "tune": lambda: tune.main(["static", "--preset", "smoke", "--out", store.out, "--local"]),
    }
    assert mains[command]() == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: cannot read {path}: Input/output error; nothing was changed")


def test_a_folder_of_nothing_keeps_no_other_task_back(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nalu_ray import report

    for name in (b"aaa", b"\x1b[2J", b"t\xe4sk"):
        folder_of_none = os.fsencode(store.root) + b"/" + name
        os.mkdir(folder_of_none)
        with open(folder_of_none + b"/a.parquet", "wb"):
            pass
    assert report.main(["--out", store.out, "--to", str(tmp_path / "report")]) == 0
    out, err = capsys.readouterr()
    assert "Simple function learning" in out
    assert len(err.splitlines()) == 3
    assert all(line.startswith("warning: skipped ") for line in err.splitlines())
    assert "\x1b" not in out + err
    assert report.main(["aaa", "--out", store.out]) == 2
    assert "aaa: no rows in" in capsys.readouterr().err


def test_rows_are_on_the_disk_before_they_have_their_name(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after the renaming must find the bytes, and after the writing the name."""
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append(f"sync {name.split('.', 1)[-1][:7] if '.' in name else name}")
        sync(descriptor)

    def replace(source: str, target: str) -> None:
        done.append(f"rename {target.rsplit('.', 1)[1]}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    store.write({}, KEY, rows((7,)), {})
    assert [text.split(".")[0] for text in done] == [
        "sync json", "rename json", "sync parquet"[:12], "rename parquet", "sync static",
    ]  # fmt: skip


def test_a_folder_that_cannot_be_synchronised_is_no_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(22, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store.write({}, KEY, rows((7,)), {})
    assert len(store.outcomes("static")) == 3


# -- seeds -----------------------------------------------------------------------------------------


def test_a_file_tripled_in_itself_is_none(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    table = pq.read_table(the_file(store))
    stamp = table.schema.metadata
    good = the_file(store)
    tripled = pa.concat_tables([table] * 3)
    ends = np.array(table["metric"].to_pylist()) == "completed"
    but_for_ends = pa.concat_tables([table, table.filter(pa.array(~ends))])
    for rows_of_it in (tripled, but_for_ends):
        bad = put(store, lambda path, t=rows_of_it: pq.write_table(t, path))
        assert pq.read_table(bad).schema.metadata == stamp
        only_the_good_one(store, bad, caplog)
    bad.write_bytes(row_files.encode(tripled))
    only_the_good_one(store, bad, caplog, "two rows 'completed' of one seed")
    assert good.exists()


@pytest.mark.parametrize("seed", [2**63, 2**64, 10**30, -(2**63) - 1, 1.5])
def test_a_seed_that_no_column_holds_is_refused(store: Store, seed: Any) -> None:
    frame = rows().assign(seed=[seed] * 8)
    with pytest.raises(ValueError, match="seed: must be a whole number of at most 64 bits"):
        store.write({}, KEY, frame, {})
    assert len(list(folder(store).glob("*.parquet"))) == 1


@pytest.mark.parametrize("value", [2**63, 10**400, "a" * 10_001, "a\x1b[31m", "[" * 40])
def test_a_field_that_no_column_holds_is_refused(store: Store, value: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be stored|op"):
        store.write({"op": value}, KEY, rows(), {})
    if isinstance(value, int):
        with pytest.raises(ValueError, match=r"(?s)steps.*whole numbers go up to"):
            STATIC.setting_type(steps=value)


# -- hostile files ---------------------------------------------------------------------------------


def table_of(store: Store, **changed: Any) -> pa.Table:
    """The good file's rows, other values in some columns, as of before there were digests."""
    table = pq.read_table(the_file(store))
    table = table.replace_schema_metadata(
        {b"nalu_ray.written_ns": table.schema.metadata[b"nalu_ray.written_ns"]}
    )
    for name, value in changed.items():
        values = value if isinstance(value, pa.Array) else pa.array([value] * table.num_rows)
        place = table.schema.get_field_index(name)
        table = (
            table.append_column(name, values)
            if place < 0
            else table.set_column(place, name, values)
        )
    return table


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"steps": "abc"}, "steps: not of type integer"),
        ({"steps": 2.5}, "steps: not of type integer"),
        ({"op": "a" * 200_000}, "a text of 200,000 characters"),
        ({"op": "\x1b]0;title\x07"}, "control characters"),
        ({"op": "a\nb"}, "control characters"),
        ({"metric": "mse\x1b[2J"}, "control characters"),
        ({"options": "[" * 5000}, "brackets within one another"),
        ({"op": [1, 2]}, "column 'op' is of type list"),
        ({"op": {"a": 1}}, "column 'op' is of type struct"),
        ({"value": "x"}, ""),
        ({"seed": 2.0**70}, ""),
        ({"seed": None}, "rows without seed"),
        ({f"field_{i}": 1 for i in range(600)}, "columns, more than 500"),
        ({"n" * 10_001: 1}, "a column's name: a text of 10,001 characters"),
        ({"a\x1b[31m": 1}, "control characters"),
        ({"op": b"bytes"}, "column 'op' is of type binary"),
    ],
)  # fmt: skip
def test_a_damaged_value_is_named(
    store: Store, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], why: str
) -> None:
    table = table_of(store, **changed)
    only_the_good_one(store, put(store, lambda path: pq.write_table(table, path)), caplog, why)


def nested(depth: int) -> pa.Array:
    values: Any = 1
    for _ in range(depth):
        values = [values]
    return pa.array([values] * 8)


@pytest.mark.parametrize("depth", [1, 40])
def test_a_nested_column_is_named(
    store: Store, caplog: pytest.LogCaptureFixture, depth: int
) -> None:
    table = table_of(store, op=nested(depth))
    bad = put(store, lambda path: pq.write_table(table, path))
    only_the_good_one(store, bad, caplog, "column 'op' is of type list")


LIMIT = """
import resource, sys, logging
from nalu_ray.results.store.store import Store
Store(sys.argv[1]).load("static")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store = Store(sys.argv[2])
assert len(store.load("static")) == 8 and len(store.outcomes("static")) == 2
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_few_bytes_of_many_rows_take_no_memory(store: Store, tmp_path: Path) -> None:
    """A million and a half equal rows: 460 MiB as a table."""
    small = table_of(store).slice(0, 1)
    bad = folder(store) / "a.parquet"
    count = 500_000
    batch = pa.table(
        {name: pa.repeat(small[name][0], count) for name in small.column_names},
        schema=small.schema,
    )
    with pq.ParquetWriter(bad, small.schema, compression="zstd") as writer:
        for _ in range(3):
            writer.write_table(batch)
    assert bad.stat().st_size < 5 * 10**6
    empty = tmp_path / "empty"
    done = subprocess.run(
        [sys.executable, "-c", LIMIT, str(empty), store.out],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "1,500,000 rows in" in done.stderr
    assert int(done.stdout) < 200 * 1024  # KiB


def test_few_bytes_of_long_texts_take_no_memory(store: Store, tmp_path: Path) -> None:
    """A text of 20,000 characters, written once and named by 100,000 rows: 1.9 GiB as a table."""
    small = table_of(store).slice(0, 1)
    small = small.set_column(
        small.schema.get_field_index("reason"), "reason", pa.array(["x" * 20_000])
    )
    count = 100_000
    rows_named = pa.table(
        {
            name: pa.DictionaryArray.from_arrays(pa.array([0] * count), small[name].chunk(0))
            if pa.types.is_string(small[name].type) and small[name][0].is_valid
            else pa.repeat(small[name][0], count)
            for name in small.column_names
        }
    )
    bad = folder(store) / "a.parquet"
    pq.write_table(rows_named, bad, store_schema=False, compression="zstd")
    assert bad.stat().st_size < 10**6
    empty = tmp_path / "empty"
    done = subprocess.run(
        [sys.executable, "-c", LIMIT, str(empty), store.out],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.search(r"2,\d{3},\d{3},\d{3} bytes in a file of", done.stderr)
    assert int(done.stdout) < 200 * 1024  # KiB


def test_a_large_pack_is_read_as_a_small_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = store.load("static")
    monkeypatch.setattr(integrity, "MOST_TEXT", 0)
    pd.testing.assert_frame_equal(Store(store.out).load("static"), before)


def test_a_file_of_nothing_but_holes_is_not_read(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def sparse(path: Path) -> None:
        with open(path, "wb") as file:
            file.truncate(1 << 40)

    only_the_good_one(store, put(store, sparse), caplog, "not end like a Parquet file")


def test_a_large_file_of_ours_is_read(store: Store) -> None:
    many = rows(tuple(range(100, 300)), 1000)
    assert len(many) > 200_000
    store.write({}, KEY, many, {})
    sizes = [path.stat().st_size for path in folder(store).glob("*.parquet")]
    assert max(sizes) > integrity.SMALL_FILE
    assert len(store.outcomes("static")) == 202
    assert len(store.load("static")) == len(many) + 8


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's name is short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (fifo, "a pipe"),
        (Path.mkdir, "a folder"),
        (bound, "not a file"),
        (lambda path: path.symlink_to("nowhere"), "a link to nothing"),
        (lambda path: path.symlink_to(path.name), "not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to("/proc/version"), "not a results file"),
    ],
    ids=["pipe", "folder", "socket", "nothing", "itself", "device", "system"],
)
def test_what_is_no_file_is_named(
    store: Store, caplog: pytest.LogCaptureFixture, make: Callable[[Path], object], why: str
) -> None:
    only_the_good_one(store, put(store, make), caplog, why)
    assert store.tasks() == ["static"]


@pytest.mark.parametrize("name", [b"a\xe4.parquet", b"a\n\x1b[31m.parquet"])
def test_a_name_that_is_no_text_is_written_out(
    store: Store, caplog: pytest.LogCaptureFixture, name: bytes
) -> None:
    path = os.fsencode(folder(store)) + b"/" + name
    with open(path, "wb"):
        pass
    only_the_good_one(store, Path(os.fsdecode(path)), caplog)
    other = os.fsencode(folder(store)) + b"/x\xe4.json"
    with open(other, "wb"):
        pass
    store.check_writable("static")


def test_a_link_to_a_file_of_rows_is_read(store: Store, tmp_path: Path) -> None:
    away = tmp_path / "away.parquet"
    path = the_file(store)
    path.rename(away)
    path.symlink_to(away)
    assert len(store.outcomes("static")) == 2


@pytest.mark.parametrize("text", ["[]", "null", '"text"', "3", "[" * 100_000, "{", '{"a": \xff}'])
def test_a_manifest_that_is_none_is_named(
    store: Store, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path = folder(store) / f"{the_file(store).stem}.json"
    path.write_text(text, encoding="latin-1")
    with caplog.at_level(logging.WARNING):
        assert store.manifests("static") == []
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("packed", [False, True])
def test_a_flipped_bit_of_a_manifest_is_named(
    store: Store, caplog: pytest.LogCaptureFixture, packed: bool
) -> None:
    manifest = {"seconds": 3.25, "spec": {"seeds": [0, 1], "command": "é\udce9"}, "when": Path("x")}
    store.write(
        SETTING.model_dump(mode="json"), KEY | {"setting_id": "b"}, rows(), manifest, known=TYPES
    )
    if packed:
        store.compact("static")
    (path,) = (p for p in folder(store).glob("*.json") if b"3.25" in p.read_bytes())
    (stored,) = (m for m in Store(store.out).manifests("static") if m.get("seconds") == 3.25)
    assert stored == manifest | {"when": "x"}
    data = path.read_bytes()
    for old, new in [(b"3.25", b"7.25"), (b'"seconds"', b'"secondr"'), (b"0,", b"1,")]:
        path.write_bytes(data.replace(old, new, 1))
        with caplog.at_level(logging.WARNING):
            assert stored not in (fresh := Store(store.out)).manifests("static")
        assert len(fresh.manifests("static")) == (0 if packed else 1)
        assert f"skipped manifest {path}: changed since it was written" in caplog.text
        caplog.clear()
    # rows do not depend on it
    assert len(fresh.runs("static")) == 4


@pytest.mark.parametrize("packed", [False, True])
def test_a_manifest_of_earlier_versions_has_no_digest_and_is_read(
    store: Store, caplog: pytest.LogCaptureFixture, packed: bool
) -> None:
    if packed:
        store.write(
            SETTING.model_dump(mode="json"), KEY | {"setting_id": "b"}, rows(), {}, known=TYPES
        )
        store.compact("static")
    before = Store(store.out).manifests("static")
    for path in folder(store).glob("*.json"):
        if path.name != "specs.json":
            values = json.loads(path.read_bytes())
            assert values.pop("sha256")
            path.write_text(json.dumps(values, indent=1, sort_keys=True), encoding="utf-8")
    assert sorted(map(str, Store(store.out).manifests("static"))) == sorted(map(str, before))
    assert caplog.text == ""


@pytest.mark.parametrize("make", [fifo, Path.mkdir])
def test_a_manifest_that_is_no_file_is_named(
    store: Store, caplog: pytest.LogCaptureFixture, make: Callable[[Path], object]
) -> None:
    path = folder(store) / f"{the_file(store).stem}.json"
    path.unlink()
    make(path)
    with caplog.at_level(logging.WARNING):
        assert store.manifests("static") == []
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("form", ["{0}", "2000000000.1f", ".999f", "s", "", "{:>10}"])
def test_a_format_that_is_none_is_refused(
    store: Store, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    with pytest.raises(ValueError, match="format"):
        Measure(metric="mse", split="test", label="E", format=form)
    specs = STATIC.specs().model_dump(mode="json")
    specs["tables"][0]["measures"]["interpolation"]["format"] = form
    (folder(store) / "specs.json").write_text(json.dumps(specs))
    with caplog.at_level(logging.WARNING):
        assert Store(store.out).specs("static") is None
    assert "specs.json" in caplog.text


def test_specs_that_have_changed_are_refused(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder(store) / "specs.json"
    text = path.read_text(encoding="utf-8")
    changed = text.replace('"scale": 1.0', '"scale": 3.0', 1)
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    assert Store(store.out).specs("static") is None
    assert "changed since it was written" in caplog.text
    digest = json.loads(text)["sha256"]
    of_before = re.sub(rf',\s*"sha256": "{digest}"', "", text)  # earlier versions wrote no digest
    path.write_text(of_before, encoding="utf-8")
    assert Store(store.out).specs("static") == STATIC.specs()


def test_specs_with_control_characters_are_refused(store: Store) -> None:
    specs = STATIC.specs()
    assert store.specs("static") == specs
    shown = specs.tables[0].model_copy(update={"caption": "T\x1b[2J"})
    changed = TaskSpecs(**{**dict(specs), "tables": (shown,)})
    store.write_specs(changed)
    assert Store(store.out).specs("static") is None


# -- one type for each column ----------------------------------------------------------------------


def test_every_file_of_a_task_has_the_same_schema(store: Store) -> None:
    for changed in ({"clip": 1.0}, {"weight_init": 0.5}, {"options": {"epsilon": 1e-3}}):
        setting = STATIC.setting_type(**{"layer": "nalu", **changed})
        key = {"task": "static", "setting_id": setting.id}
        store.write(setting.model_dump(mode="json"), key, rows(), {}, known=TYPES)
    schemas = [pq.read_schema(path) for path in folder(store).glob("*.parquet")]
    assert len(schemas) == 4
    assert all(schema.equals(schemas[0]) for schema in schemas)
    assert not [item.name for item in schemas[0] if pa.types.is_null(item.type)]
    assert schemas[0].field("clip").type == pa.float64()
    assert schemas[0].names[: len(COLUMNS)] == COLUMNS


def test_a_trial_writes_the_types_of_its_task(fake: Any, tmp_path: Path) -> None:
    from nalu_ray.sweep.trial import Trial, TrialSpec

    for rate in (None, 1):
        setting = fake.setting_type() if rate is None else fake.setting_type(lr=rate)
        list(Trial(TrialSpec(
            task="fake", setting=setting, setting_id=setting.id,
            seeds=(0,), label="fake", steps=fake.steps(setting), out=str(tmp_path),
        )))  # fmt: skip
    schemas = [pq.read_schema(path) for path in (tmp_path / "fake").glob("*.parquet")]
    assert len(schemas) == 2
    assert schemas[0].equals(schemas[1])
    wanted = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64()}
    for name, kind in columns(fake.setting_type).items():
        assert schemas[0].field(name).type == wanted.get(kind, pa.bool_())


def test_every_field_of_every_task_has_a_type() -> None:
    from nalu_ray import registry

    for found in registry.tasks().values():
        known = columns(found.setting_type)
        assert set(known) == set(found.setting_type.model_fields)
        assert found.specs().fields == known
    assert {TYPES[name] for name in ("lr", "clip", "momentum")} == {"number"}
    assert {TYPES[name] for name in ("steps", "batch")} == {"integer"}
    assert TYPES["shared_inputs"] == "flag"
    assert {TYPES[name] for name in ("layer", "options", "weight_init", "train_range")} == {"text"}


def test_others_read_a_folder_at_once(store: Store) -> None:
    setting = STATIC.setting_type(clip=1.0)
    key = {"task": "static", "setting_id": setting.id}
    store.write(setting.model_dump(mode="json"), key, rows(), {}, known=TYPES)
    pattern = str(folder(store) / "*.parquet")
    import pyarrow.dataset as ds

    found = ds.dataset(sorted(map(str, folder(store).glob("*.parquet")))).to_table()
    assert found.num_rows == 16
    assert found["clip"].null_count == 8
    duckdb = pytest.importorskip("duckdb")
    query = f"select count(*), count(clip), min(clip) from '{pattern}'"
    assert duckdb.sql(query).fetchall() == [(16, 8, 1.0)]
    fastparquet = pytest.importorskip("fastparquet")
    files = sorted(map(str, folder(store).glob("*.parquet")))
    frame = fastparquet.ParquetFile(files).to_pandas()
    assert (len(frame), frame["clip"].count(), frame["clip"].min()) == (16, 8, 1.0)
    assert set(frame["layer"]) == set(found["layer"].to_pylist())


def test_what_reads_waits_for_no_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(atomic_files.NoFileError, match="a pipe"):
        atomic_files.read(row_files.resolve(str(tmp_path))[0], str(tmp_path / "pipe"))
