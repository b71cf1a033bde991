"""Files of a results folder: written completely or not at all, read in parallel."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from nalu_ray.errors import printable
from nalu_ray.results.store import integrity, raw, seal
from nalu_ray.results.store.columns import Columns, typed
from nalu_ray.results.store.paths import expanded
from nalu_ray.results.store.raw import Entry
from nalu_ray.results.store.rows import COLUMNS, LATER, OUTCOME, SCHEMA, with_outcomes

log = logging.getLogger(__name__)

STALE_SECONDS = 24 * 3600
_READERS = 16
_REASON = 300  # characters


def resolve(out: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system of a folder or URI, and the absolute path in it.

    Raises:
        OSError, pyarrow.ArrowException: there is no such file system.
    """
    if not out.strip():
        raise OSError("name a folder or a URI")
    scheme, is_uri, rest = out.partition("://")
    if is_uri:
        # the rest would be dropped silently
        lost = "#" if "#" in rest else "?" if "?" in rest and scheme == "file" else ""
        if lost:
            code = f"%{ord(lost):02X}"
            raise OSError(f"a URI ends at '{lost}'; write {code} for it, or a path without file://")
        filesystem, path = fs.FileSystem.from_uri(out)
        if not path:
            raise OSError(f"no bucket or folder after {scheme}://")
        return filesystem, path.rstrip("/")
    return fs.LocalFileSystem(), os.path.abspath(expanded(out))


def write_whole(filesystem: fs.FileSystem, path: str, data: bytes, *, settle: bool = True) -> None:
    """Writes a file that appears under its name only once it is complete and on the disk.

    Args:
        filesystem: the file system.
        path: path in it.
        data: the content.
        settle: also wait for the folder; see :func:`nalu_ray.results.store.raw.write_local`.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    if raw.is_local(filesystem):
        raw.write_local(path, data, settle=settle)
        return
    # an object store shows an object only once it is complete
    filesystem.create_dir(path.rsplit("/", 1)[0], recursive=True)
    with filesystem.open_output_stream(path) as stream:
        stream.write(data)


def remove_quietly(filesystem: fs.FileSystem, path: str) -> None:
    """Removes a file if it can."""
    try:
        if raw.is_local(filesystem):
            os.unlink(path)
        else:
            filesystem.delete_file(path)
    except OSError:
        log.debug("left behind %s", printable(path))


def remove_if_empty(filesystem: fs.FileSystem, folder: str) -> None:
    """Removes a local folder if it is empty."""
    if raw.is_local(filesystem):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def remove_stale(filesystem: fs.FileSystem, folder: str) -> None:
    """Removes temporary files that are older than a day, if it can: their writers were killed."""
    limit = (time.time() - STALE_SECONDS) * 1e9
    with contextlib.suppress(OSError):
        for item in list_folder(filesystem, folder):
            if item.extension == "tmp" and 0 < item.mtime_ns < limit:
                remove_quietly(filesystem, item.path)


def list_folder(filesystem: fs.FileSystem, folder: str) -> list[Entry]:
    """Returns the entries of a folder; none if it does not exist.

    Raises:
        OSError: it cannot be listed.
    """
    return raw.entries(filesystem, folder)


def encode(table: pa.Table) -> bytes:
    """Returns a table as a Parquet file with its origin, page checksums and a digest."""
    buffer = pa.BufferOutputStream()
    stamped = table.replace_schema_metadata(integrity.stamp(table))
    with pq.ParquetWriter(
        buffer, stamped.schema, compression="zstd", write_page_checksum=True
    ) as writer:
        writer.write_table(stamped)
        writer.add_key_value_metadata({seal.KEY: seal.BLANK})
    return seal.seal_rows(buffer.getvalue().to_pybytes())


def read_tables(
    filesystem: fs.FileSystem,
    infos: Iterable[Entry],
    task: str,
    columns: Sequence[str] | None,
    warned: set[str],
    *,
    known: Columns | None = None,
) -> dict[str, pa.Table]:
    """Reads Parquet files in the order in which they were written.

    A file that this program did not write, or that is damaged, is skipped with a warning.

    Args:
        filesystem: the file system.
        infos: the files.
        task: the task whose rows they must have.
        columns: the columns to read; None for all.
        warned: paths that need no further warning; skipped paths are added.
        known: the types of the setting's fields, as far as they are known.

    Returns:
        File name to table, without metadata.

    Raises:
        OSError: a file exists but cannot be read; its rows may be intact.
    """

    def read(info: Entry) -> tuple[int, Entry, pa.Table] | None:
        try:
            data = _bytes(filesystem, info.path)
        except ValueError as error:
            skip(info, error)
            return None
        try:
            written, table = _read_one(data, task, columns, known or {})
        except Exception as error:  # pyarrow may raise anything on damaged bytes
            skip(info, error)
            return None
        return written, info, table

    def skip(info: Entry, error: Exception) -> None:
        if info.path not in warned:
            name, reason = printable(info.path), printable(str(error) or type(error).__name__)
            text = "skipped %s: not a results file of this program (%s)"
            log.warning(text, name, reason[:_REASON])
        warned.add(info.path)

    with ThreadPoolExecutor(_READERS) as pool:
        loaded = [item for item in pool.map(read, infos) if item is not None]
    loaded.sort(key=lambda item: (item[0], item[1].path))
    return {info.base_name: table for _, info, table in loaded}


def _bytes(filesystem: fs.FileSystem, path: str) -> bytes:
    """Returns a row file's bytes; checks the size of a large one before reading it."""
    try:
        path.rsplit("/", 1)[-1].encode()
        with raw.opened(filesystem, path) as (stream, size):
            if size > integrity.SMALL_FILE:
                integrity.check_large_file(stream, size)
            return raw.whole(stream, size)
    except FileNotFoundError:
        raise ValueError("removed since it was listed") from None
    except UnicodeEncodeError:
        raise ValueError("its name is not UTF-8") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), path) from error


def _read_one(
    data: bytes, task: str, columns: Sequence[str] | None, known: Columns
) -> tuple[int, pa.Table]:
    sealed = seal.check_rows(data)
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    integrity.check_size(file, len(data))
    missing = sorted(set(COLUMNS) - {*LATER, *file.schema_arrow.names})
    if missing:
        raise ValueError(f"no column {', '.join(missing)}")
    wanted = None if columns is None else list(dict.fromkeys([*columns, *integrity.CHECKED]))
    table = conform(file.read(columns=wanted, use_threads=False), SCHEMA)
    written = integrity.check(file, table, task, known, sealed=sealed)
    table = with_columns(typed(table, known), dict.fromkeys(LATER))
    if columns is None or OUTCOME in columns:
        table = with_outcomes(table)
    return written, table if columns is None else table.select(list(columns))


def with_columns(table: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    """Returns a table with missing columns added, each with one value for all rows."""
    for name, value in values.items():
        if name not in table.column_names:
            kind = SCHEMA.field(name).type if name in SCHEMA.names else None
            column = pa.repeat(pa.scalar(value, kind), table.num_rows)
            table = table.append_column(name, column)
    return table


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Casts the columns that ``schema`` has to its types, and large strings to strings.

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
    """Concatenates tables; a column that is text in one and a number in another becomes text.

    A column that a table lacks is null in its rows.
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
    return {name for name, types in kinds.items() if len(types) > 1}
