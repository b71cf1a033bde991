"""Integrity checks of a row file, before and after its rows are read.

Is it of a plausible size? Did this program write it, for this task, and is it unmodified?
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nalu_ray.input.values import check_text
from nalu_ray.results.store.columns import Columns, check_texts, typed
from nalu_ray.results.store.packs import StoredTrial
from nalu_ray.results.store.rows import COLUMNS, COMPLETED

WRITTEN = b"nalu_ray.written_ns"
DIGEST = b"nalu_ray.setting_sha256"
CHECKED = ("task", "setting_id", "seed", "step", "split", "metric", "x", "value")
_KEYS = ("task", "setting_id", "seed", "step", "metric")
_ONCE = ["seed", "step", "split", "metric", "x"]
_KEY = ("task", "setting_id")

MAGIC = b"PAR1"
MOST_COLUMNS = 500
MOST_GROUPS = 1000
MOST_ROWS = 250_000  # above that, one per two bytes of the file; writers keep to it
MOST_UNPACKED = 64 << 20  # bytes; above that, RATIO times the file's size
RATIO = 50
MOST_TEXT = 256 << 20  # bytes of a table with its texts; above that, TEXT_RATIO times the size
TEXT_RATIO = 1000
SMALL_FILE = 1 << 20  # bytes; a larger file is checked before it is read
_FOOTER = 16 << 20


def stamp(table: pa.Table) -> dict[bytes, bytes]:
    """Returns metadata for a trial's rows: the time, and a digest of their key and setting."""
    return {WRITTEN: str(time.time_ns()).encode(), DIGEST: digest(table.slice(0, 1))}


def check(
    file: pq.ParquetFile,
    schema: pa.Schema,
    table: pa.Table,
    task: str,
    known: Columns,
    *,
    sealed: bool,
    trials: Sequence[StoredTrial] | None = None,
) -> int:
    """Checks the metadata of :func:`stamp`, and that all rows are unique and of one setting.

    Args:
        file: the open file.
        schema: its schema.
        table: its rows, with the columns ``CHECKED`` at least.
        task: the task that its rows must have.
        known: the types of the setting's fields, as far as they are known.
        sealed: whether its digest was verified; otherwise more of its content is checked.
        trials: the parts of a pack, each of one setting.

    Returns:
        The time at which it was written, in nanoseconds.

    Raises:
        ValueError: the check fails; with the reason.
    """
    metadata = schema.metadata or {}
    if WRITTEN not in metadata:
        raise ValueError(f"no {WRITTEN.decode()} in its metadata")
    empty = [name for name in _KEYS if table[name].null_count]
    if empty:
        raise ValueError(f"rows without {', '.join(empty)}")
    tasks = pc.unique(table["task"]).to_pylist()
    if tasks != [task]:
        raise ValueError(f"rows of task {', '.join(tasks) or 'none'}, not {task}")
    for rows in [table] if trials is None else [trial.rows for trial in trials]:
        if pc.count_distinct(rows["setting_id"]).as_py() > 1:
            raise ValueError("rows of several settings")
        _check_ends(rows)
    if not sealed:
        _check_unsealed(file, table, metadata, known)
    for name in ("task", "setting_id", "split", "metric"):
        for text in pc.unique(table[name]).to_pylist():
            check_text(name, text or "")
    return int(metadata[WRITTEN])


def _check_ends(table: pa.Table) -> None:
    seeds = table.filter(pc.equal(table["metric"], COMPLETED))["seed"]
    if pc.count_distinct(seeds).as_py() != len(seeds):
        raise ValueError(f"two rows '{COMPLETED}' of one seed")


def _check_unsealed(
    file: pq.ParquetFile, table: pa.Table, metadata: dict[bytes, bytes], known: Columns
) -> None:
    """Checks what the digest of all bytes guarantees for sealed files."""
    row = _first_row(file)
    # older files lack the digest
    if DIGEST in metadata and metadata[DIGEST] != digest(row):
        raise ValueError("setting_id or a field of the setting was changed after it was written")
    check_texts(row)
    typed(row, known)
    if table.select(_ONCE).to_pandas().duplicated().any():
        raise ValueError("duplicate rows")


def _first_row(file: pq.ParquetFile) -> pa.Table:
    names = [name for name in file.schema_arrow.names if name in _KEY or name not in COLUMNS]
    batch = next(file.iter_batches(batch_size=1, columns=names, use_threads=False))
    return pa.Table.from_batches([batch])


def digest(row: pa.Table) -> bytes:
    """Returns a digest of the key and the setting's fields of a table of one row."""
    values = {
        name: value
        for record in row.to_pylist()
        for name, value in record.items()
        if name in _KEY or name not in COLUMNS
    }
    return (
        hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode())
        .hexdigest()
        .encode()
    )


# -- before its rows are read ---------------------------------------------------------------------


def most_rows(size: int) -> int:
    """Returns how many rows a file of so many bytes may have."""
    return max(MOST_ROWS, size // 2)


def check_size(file: pq.ParquetFile, size: int) -> pa.Schema:
    """Refuses a file that would unpack to far more than its size, or has other columns than rows.

    Args:
        file: the open file.
        size: its size in bytes.

    Returns:
        Its schema, which pyarrow makes anew each time that the file is asked.

    Raises:
        ValueError: it is refused; with the reason.
    """
    about = file.metadata
    if about.num_columns > MOST_COLUMNS:
        raise ValueError(f"{about.num_columns:,} columns, more than {MOST_COLUMNS}")
    if not 0 <= about.num_rows <= most_rows(size):
        raise ValueError(f"{about.num_rows:,} rows in {size:,} bytes")
    if about.num_row_groups > MOST_GROUPS:
        raise ValueError(f"{about.num_row_groups:,} groups of rows, more than {MOST_GROUPS}")
    unpacked = _unpacked(about)
    if not 0 <= unpacked <= max(MOST_UNPACKED, RATIO * size):
        raise ValueError(f"{unpacked:,} bytes in a file of {size:,}")
    schema = file.schema_arrow
    refused = {column_type for column_type in {*schema.types} if not _is_plain(column_type)}
    for item in schema if refused else ():
        if item.type in refused:
            raise ValueError(f"column {item.name[:60]!r} is of type {str(item.type)[:60]}")
    return schema


def read(data: bytes, file: pq.ParquetFile, columns: Sequence[str] | None) -> pa.Table:
    """Reads a file whose size was checked; refuses texts that would unpack to far more than it.

    A page may name one long text many times. Where that is possible, texts are first read as
    Parquet has them, each once.

    Args:
        data: the file.
        file: the open file.
        columns: the columns to read; None for all.

    Returns:
        (rows, columns).

    Raises:
        ValueError: it is refused.
    """
    about, most = file.metadata, max(MOST_TEXT, TEXT_RATIO * len(data))
    if about.num_rows * _unpacked(about) <= most:
        return file.read(columns=columns, use_threads=False)
    schema = file.schema_arrow
    texts = [item.name for item in schema if _is_text(item.type)]
    short = pq.ParquetFile(
        pa.BufferReader(data), page_checksum_verification=True, read_dictionary=texts
    ).read(columns=columns, use_threads=False)
    size = short.nbytes + sum(map(_named, short.columns))
    if size > most:
        raise ValueError(f"{size:,} bytes in a file of {len(data):,}")
    return short.cast(pa.schema([schema.field(name) for name in short.column_names]))


def _unpacked(about: pq.FileMetaData) -> int:
    """Returns the bytes of a file's pages, in which each text may stand once."""
    return sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))


def _named(column: pa.ChunkedArray) -> int:
    """Returns the bytes of all texts of a column that has each of them once; else 0."""
    if not (pa.types.is_dictionary(column.type) and _is_text(column.type.value_type)):
        return 0
    lengths = (pc.binary_length(part.dictionary).take(part.indices) for part in column.chunks)
    return sum(pc.sum(each).as_py() or 0 for each in lengths)


def check_large_file(stream: Any, size: int) -> None:
    """Does :func:`check_size` for a file that was not read yet, from its last bytes.

    Raises:
        OSError: it cannot be read.
        ValueError: it is refused.
    """
    end = _last(stream, size, 8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or length > min(_FOOTER, size):
        raise ValueError("it does not end like a Parquet file")
    alone = MAGIC + _last(stream, size, length + 8)
    check_size(pq.ParquetFile(pa.BufferReader(alone)), size)


def _last(stream: Any, size: int, length: int) -> bytes:
    stream.seek(size - length)
    data = b""
    while len(data) < length and (part := stream.read(length - len(data))):
        data += part
    return data


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _is_plain(data_type: pa.DataType) -> bool:
    value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    tests = (
        pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating,
        _is_text,
    )  # fmt: skip
    return any(test(value_type) for test in tests)
