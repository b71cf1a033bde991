"""Integrity check: did this program write this row file, for this task, and is it unmodified?"""

from __future__ import annotations

import hashlib
import json
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nalu_ray.results.store.columns import Columns
from nalu_ray.results.store.rows import COLUMNS, COMPLETED
from nalu_ray.results.store.typed import check_texts, typed
from nalu_ray.values import check_text

WRITTEN = b"nalu_ray.written_ns"
DIGEST = b"nalu_ray.setting_sha256"
CHECKED = ("task", "setting_id", "seed", "step", "split", "metric", "x", "value")
_KEYS = ("task", "setting_id", "seed", "step", "metric")
_ONCE = ["seed", "step", "split", "metric", "x"]
_KEY = ("task", "setting_id")


def stamp(table: pa.Table) -> dict[bytes, bytes]:
    """Metadata of a trial's rows: when they were made, and a digest of their key and setting."""
    return {WRITTEN: str(time.time_ns()).encode(), DIGEST: _digest(table.slice(0, 1))}


def check(file: pq.ParquetFile, table: pa.Table, task: str, known: Columns, *, sealed: bool) -> int:
    """Checks what :func:`stamp` wrote and that all rows are of one setting of the task, each once.

    Args:
        file: the open file.
        table: its rows, with the columns ``CHECKED`` at least.
        task: the folder's.
        known: the types of the setting's fields, as far as they are known.
        sealed: its bytes are as they were written; of others all rows are looked at.

    Returns:
        When it was written, in nanoseconds.

    Raises:
        ValueError: it is not such a file, with the reason.
    """
    metadata = file.schema_arrow.metadata or {}
    if WRITTEN not in metadata:
        raise ValueError(f"no {WRITTEN.decode()} in its metadata")
    empty = [name for name in _KEYS if table[name].null_count]
    if empty:
        raise ValueError(f"rows without {', '.join(empty)}")
    tasks = pc.unique(table["task"]).to_pylist()
    if tasks != [task]:
        raise ValueError(f"rows of task {', '.join(tasks) or 'none'}, not {task}")
    if len(pc.unique(table["setting_id"])) > 1:
        raise ValueError("rows of several settings")
    _check_ends(table)
    if not sealed:
        _check_unsealed(file, table, metadata, known)
    for name in ("task", "setting_id", "split", "metric"):
        for text in pc.unique(table[name]).to_pylist():
            check_text(name, text or "")
    return int(metadata[WRITTEN])


def _check_ends(table: pa.Table) -> None:
    seeds = table.filter(pc.equal(table["metric"], COMPLETED))["seed"]
    if len(pc.unique(seeds)) != len(seeds):
        raise ValueError(f"two rows '{COMPLETED}' of one seed")


def _check_unsealed(
    file: pq.ParquetFile, table: pa.Table, metadata: dict[bytes, bytes], known: Columns
) -> None:
    """Checks what the digest of all bytes tells of others."""
    row = _first_row(file)
    # files of before the digest lack it
    if DIGEST in metadata and metadata[DIGEST] != _digest(row):
        raise ValueError("setting_id or a field of the setting was changed after it was written")
    check_texts(row)
    typed(row, known)
    if table.select(_ONCE).to_pandas().duplicated().any():
        raise ValueError("rows that are there twice")


def _first_row(file: pq.ParquetFile) -> pa.Table:
    names = [name for name in file.schema_arrow.names if name in _KEY or name not in COLUMNS]
    batch = next(file.iter_batches(batch_size=1, columns=names, use_threads=False))
    return pa.Table.from_batches([batch])


def _digest(row: pa.Table) -> bytes:
    """Digest of the key and the setting's fields of a table of one row."""
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
