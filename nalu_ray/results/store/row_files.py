"""Row files of a results folder: as bytes, and read in parallel."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from nalu_ray.errors import printable
from nalu_ray.results.store import atomic_files, integrity, packs, seal
from nalu_ray.results.store.atomic_files import Entry
from nalu_ray.results.store.columns import Columns, typed
from nalu_ray.results.store.packs import StoredTrial
from nalu_ray.results.store.paths import expanded
from nalu_ray.results.store.rows import COLUMNS, LATER, OUTCOME, SCHEMA, with_outcomes
from nalu_ray.results.store.shared import SharedColumns

log = logging.getLogger(__name__)

_READERS = 16
_REASON = 300  # characters


def resolve(out: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system of a folder or URI, and the absolute path in it.

    Raises:
        OSError, pyarrow.ArrowException: there is no such file system.
    """
    if not out.strip():
        raise OSError("name a folder or a URI")
    scheme, is_uri, location = out.partition("://")
    if is_uri:
        # the rest would be dropped silently
        lost = "#" if "#" in location else "?" if "?" in location and scheme == "file" else ""
        if lost:
            code = f"%{ord(lost):02X}"
            raise OSError(f"a URI ends at '{lost}'; write {code} for it, or a path without file://")
        filesystem, path = fs.FileSystem.from_uri(out)
        if not path:
            raise OSError(f"no bucket or folder after {scheme}://")
        return filesystem, path.rstrip("/")
    return fs.LocalFileSystem(), os.path.abspath(expanded(out))


def encode(table: pa.Table) -> bytes:
    """Returns a table as a Parquet file with its origin, page checksums and a digest.

    Raises:
        ValueError: readers would refuse the file; with the reason.
    """
    stamped = table.replace_schema_metadata(integrity.stamp(table))
    data = _encoded(stamped)
    if table.num_rows > integrity.most_rows(len(data)):
        # many rows alike: as plain numbers, the seeds alone take as many bytes as readers ask for
        data = _encoded(stamped, plain="seed")
    integrity.check_size(pq.ParquetFile(pa.BufferReader(data)), len(data))
    return seal.seal_rows(data)


def _encoded(table: pa.Table, plain: str = "") -> bytes:
    names = table.column_names
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression={name: "none" if name == plain else "zstd" for name in names},
        use_dictionary=[name for name in names if name != plain],
        write_page_checksum=True,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({seal.KEY: seal.BLANK})
    data: bytes = buffer.getvalue().to_pybytes()
    return data


class VanishedError(Exception):
    """A file was removed after the folder had been listed; its trials may be in a pack now."""


def read_trials(
    filesystem: fs.FileSystem,
    infos: Iterable[Entry],
    task: str,
    columns: Sequence[str] | None,
    warned: set[str],
    *,
    known: Columns | None = None,
    strict: bool = False,
    shared: SharedColumns | None = None,
) -> list[StoredTrial]:
    """Reads Parquet files; returns their trials.

    A file that this program did not write, or that is damaged, is skipped with a warning. A trial
    that is in two files, because packing was interrupted, occurs twice.

    Args:
        filesystem: the file system.
        infos: the files.
        task: the task whose rows they must have.
        columns: the columns to read; None for all.
        warned: paths that need no further warning; skipped paths are added.
        known: the types of the setting's fields, as far as they are known.
        strict: raise if a file is no longer there, instead of skipping it.
        shared: decodes the columns of a setting in one of its files only; None: in every file.

    Raises:
        OSError: a file exists but cannot be read; its rows may be intact.
        VanishedError: a file is no longer there.
    """

    def read(info: Entry) -> list[StoredTrial]:
        try:
            data = _bytes(filesystem, info.path)
        except FileNotFoundError as error:
            if strict:
                raise VanishedError(info.path) from error
            skip(info, ValueError("removed since it was listed"))
            return []
        except ValueError as error:
            skip(info, error)
            return []
        try:
            return _read_one(data, info, task, columns, known or {}, shared=shared)
        except Exception as error:  # pyarrow may raise anything on damaged bytes
            skip(info, error)
            return []

    def skip(info: Entry, error: Exception) -> None:
        if info.path not in warned:
            name, reason = printable(info.path), printable(str(error) or type(error).__name__)
            text = "skipped %s: not a results file of this program (%s)"
            log.warning(text, name, reason[:_REASON])
        warned.add(info.path)

    with ThreadPoolExecutor(_READERS) as pool:
        return [trial for trials in pool.map(read, infos) for trial in trials]


def _bytes(filesystem: fs.FileSystem, path: str) -> bytes:
    """Returns a row file's bytes; checks the size of a large one before reading it."""
    try:
        path.rsplit("/", 1)[-1].encode()
        with atomic_files.opened(filesystem, path) as (stream, size):
            if size > integrity.SMALL_FILE:
                integrity.check_large_file(stream, size)
            return atomic_files.whole(stream, size)
    except FileNotFoundError:
        raise
    except UnicodeEncodeError:
        raise ValueError("its name is not UTF-8") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), path) from error


def _read_one(
    data: bytes,
    info: Entry,
    task: str,
    columns: Sequence[str] | None,
    known: Columns,
    *,
    shared: SharedColumns | None = None,
) -> list[StoredTrial]:
    sealed = seal.check_rows(data)
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    schema = integrity.check_size(file, len(data))
    missing = sorted(set(COLUMNS) - {*LATER, *schema.names})
    if missing:
        raise ValueError(f"missing columns: {', '.join(missing)}")
    packed = packs.is_pack(schema.names)
    if packed and not sealed:
        raise ValueError("the pack has no digest")
    if columns is not None or packed or not sealed:
        shared = None
    names, completed = None, shared is not None and shared.has(schema)
    if completed:
        names = sorted({*schema.names} & {*COLUMNS}, key=COLUMNS.index)
    elif columns is not None:
        names = list(dict.fromkeys([*columns, *integrity.CHECKED, *packs.COLUMNS * packed]))
    table = conform(integrity.read(data, file, names), SCHEMA)
    trials = packs.split(table, info.path) if packed else None
    written = integrity.check(file, schema, table, task, known, sealed=sealed, trials=trials)
    if trials is None:
        trials = [StoredTrial(info.base_name, written, table, info.path, sealed)]
    # the writer of a file with a digest has checked the outcomes
    judged = sealed and OUTCOME in table.column_names
    trials = [replace(each, rows=_finished(each.rows, columns, known, judged)) for each in trials]
    if shared is None:
        return trials
    if completed:
        return [replace(trial, rows=shared.completed(schema, trial.rows)) for trial in trials]
    shared.add(schema, table, trials[0].rows)
    return trials


def _finished(
    table: pa.Table, columns: Sequence[str] | None, known: Columns, judged: bool
) -> pa.Table:
    """Returns the wanted columns with their types, and with outcomes where none are given."""
    table = with_columns(typed(table, known), dict.fromkeys(LATER))
    if not judged and (columns is None or OUTCOME in columns):
        table = with_outcomes(table)
    return table if columns is None else table.select(list(columns))


def with_columns(table: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    """Returns a table with missing columns added, each with one value for all rows."""
    present = set(table.column_names)
    for name, value in values.items():
        if name not in present:
            column_type = SCHEMA.field(name).type if name in SCHEMA.names else None
            column = pa.repeat(pa.scalar(value, column_type), table.num_rows)
            table = table.append_column(name, column)
    return table


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Casts the columns that ``schema`` has to its types, and large strings to strings.

    Raises:
        pyarrow.ArrowException: a value does not fit.
    """
    field_by_name, types = {item.name: item for item in schema}, []
    for item in table.schema:
        plain = pa.string() if pa.types.is_large_string(item.type) else item.type
        types.append(field_by_name.get(item.name) or pa.field(item.name, plain))
    target = pa.schema(types)
    bare = table.replace_schema_metadata(None)
    return bare if bare.schema == target else bare.cast(target)


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenates tables; a column that is text in one and a number in another becomes text.

    A column that a table lacks is null in its rows.
    """
    for option in ("none", "permissive"):  # the first takes tables of one schema, but fast
        with contextlib.suppress(pa.ArrowTypeError, pa.ArrowInvalid):
            return pa.concat_tables(tables, promote_options=option)
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
