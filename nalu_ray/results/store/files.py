"""Files of a results folder: written whole or not at all, read in parallel, bad ones named."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from nalu_ray.results.store import origin
from nalu_ray.results.store.paths import expanded
from nalu_ray.results.store.rows import COLUMNS, LATER, SCHEMA

log = logging.getLogger(__name__)

STALE_SECONDS = 24 * 3600
_READERS = 16


def resolve(out: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system of a folder or URI, and the absolute path in it.

    Raises:
        OSError, pyarrow.ArrowException: there is no such file system.
    """
    if "://" in out:
        filesystem, path = fs.FileSystem.from_uri(out)
        return filesystem, path.rstrip("/")
    return fs.LocalFileSystem(), os.path.abspath(expanded(out))


def write_whole(filesystem: fs.FileSystem, path: str, data: bytes) -> None:
    """Writes a file that appears under its name only once it is complete.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    local = isinstance(filesystem, fs.LocalFileSystem)
    # an object store shows an object only once it is whole; a file system needs the rename
    target = f"{path}.{uuid.uuid4().hex[:8]}.tmp" if local else path
    try:
        filesystem.create_dir(path.rsplit("/", 1)[0], recursive=True)
        with filesystem.open_output_stream(target) as stream:
            stream.write(data)
        if local:
            filesystem.move(target, path)
    except OSError:
        if local:
            remove_quietly(filesystem, target)
        raise


def remove_quietly(filesystem: fs.FileSystem, path: str) -> None:
    """Removes a file if it can."""
    try:
        filesystem.delete_file(path)
    except OSError:
        log.debug("left behind %s", path)


def remove_if_empty(filesystem: fs.FileSystem, folder: str) -> None:
    """Removes a folder of this machine's file systems that holds nothing."""
    if isinstance(filesystem, fs.LocalFileSystem):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def remove_stale(filesystem: fs.FileSystem, folder: str) -> None:
    """Removes what writers that were killed a day ago or earlier left in a folder."""
    limit = (time.time() - STALE_SECONDS) * 1e9
    for item in list_folder(filesystem, folder):
        if item.extension == "tmp" and (item.mtime_ns or limit) < limit:
            remove_quietly(filesystem, item.path)


def list_folder(filesystem: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """Returns what lies in a folder; nothing if there is no such folder."""
    found: list[fs.FileInfo] = filesystem.get_file_info(
        fs.FileSelector(folder, allow_not_found=True)
    )
    return found


def encode(table: pa.Table) -> bytes:
    """Returns a table as Parquet that remembers where it is from, whoever copies the file."""
    buffer = pa.BufferOutputStream()
    stamped = table.replace_schema_metadata(origin.stamp(table))
    pq.write_table(stamped, buffer, compression="zstd")
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def read_tables(
    filesystem: fs.FileSystem,
    infos: Iterable[fs.FileInfo],
    task: str,
    columns: Sequence[str] | None,
    warned: set[str],
) -> dict[str, pa.Table]:
    """Reads Parquet files, the first written first; what is none of ours is named and skipped.

    Args:
        filesystem: where they are.
        infos: the files.
        task: whose rows they must hold.
        columns: the columns wanted; none means all.
        warned: paths that were named before; grows.

    Returns:
        File name to table, without metadata.
    """

    def read(info: fs.FileInfo) -> tuple[int, fs.FileInfo, pa.Table] | None:
        try:
            written, table = _read_one(filesystem, info.path, task, columns)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            if info.path not in warned:
                log.warning("skipped %s: not a results file of this program (%s)", info.path, error)
            warned.add(info.path)
            return None
        return written, info, table

    with ThreadPoolExecutor(_READERS) as pool:
        found = [item for item in pool.map(read, infos) if item is not None]
    found.sort(key=lambda item: (item[0], item[1].path))
    return {info.base_name: table for _, info, table in found}


def _read_one(
    filesystem: fs.FileSystem, path: str, task: str, columns: Sequence[str] | None
) -> tuple[int, pa.Table]:
    with filesystem.open_input_file(path) as source:
        file = pq.ParquetFile(source)
        missing = sorted(set(COLUMNS) - {*LATER, *file.schema_arrow.names})
        if missing:
            raise ValueError(f"no column {', '.join(missing)}")
        wanted = None if columns is None else list(dict.fromkeys([*columns, *origin.CHECKED]))
        table = conform(file.read(columns=wanted, use_threads=False), SCHEMA)
        written = origin.check(file, table, task)
    table = with_columns(table, dict.fromkeys(LATER))
    return written, table if columns is None else table.select(list(columns))


def with_columns(table: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    """Returns a table with those columns that it lacks, one value for all rows of each."""
    for name, value in values.items():
        if name not in table.column_names:
            kind = SCHEMA.field(name).type if name in SCHEMA.names else None
            column = pa.repeat(pa.scalar(value, kind), table.num_rows)
            table = table.append_column(name, column)
    return table


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Casts a table to the types of ``schema`` where it has the column; text is plain text.

    Raises:
        pyarrow.ArrowException: a value does not fit.
    """
    types = []
    for item in table.schema:
        plain = pa.string() if pa.types.is_large_string(item.type) else item.type
        known = item.name in schema.names
        types.append(schema.field(item.name) if known else pa.field(item.name, plain))
    return table.replace_schema_metadata(None).cast(pa.schema(types))


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Puts tables below one another; a column that is text in one and a number in another is text.

    A column that a table lacks is null there.
    """
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        mixed = _mixed(tables)
    return pa.concat_tables(
        [
            table.cast(
                pa.schema(
                    [pa.field(f.name, pa.string()) if f.name in mixed else f for f in table.schema]
                )
            )
            for table in tables
        ],
        promote_options="permissive",
    )


def _mixed(tables: Sequence[pa.Table]) -> set[str]:
    kinds: dict[str, set[str]] = {}
    for table in tables:
        for item in table.schema:
            if not pa.types.is_null(item.type):
                number = pa.types.is_integer(item.type) or pa.types.is_floating(item.type)
                kinds.setdefault(item.name, set()).add("number" if number else str(item.type))
    return {name for name, found in kinds.items() if len(found) > 1}
