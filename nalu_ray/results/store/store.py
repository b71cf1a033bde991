"""Stored rows: Parquet, append-only, one file per trial, written completely or not at all.

``<out>/<task>/`` holds, for each trial, ``<trial>.json`` (the manifest) and ``<trial>.parquet``
(the rows; the trial counts as soon as this file exists), and ``specs.json`` (tables and figures).
All meaning is in columns, none in file names. ``<out>/.states/`` has the states from which
unfinished trials resume.

Row columns: ``task, setting_id, seed, step, split, metric, x, value, reason, outcome, code`` and
one column per field of the setting. ``x`` is the coordinate of a point on a curve (null elsewhere),
``code`` the digest of the source that the numbers depend on (null in older files). The last row of
a seed has metric ``completed``: value 1 if the seed completed, else 0. Only this row has an
``outcome`` (``completed``, ``diverged``, ``failed`` or ``out_of_memory``) and, unless completed, a
``reason``. ``preset`` is the sweep that included the setting, and ``changes`` the fields that
differ from that preset, as JSON; older files lack both.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import fs

from nalu_ray.errors import printable
from nalu_ray.results.specs import TaskSpecs
from nalu_ray.results.store import files, raw
from nalu_ray.results.store.columns import Columns, check_texts, typed
from nalu_ray.results.store.raw import Entry
from nalu_ray.results.store.rows import (
    ABOUT,
    CODE,
    COLUMNS,
    COMPLETED,
    FINAL,
    FLOATS,
    INTEGERS,
    KEY,
    OUTCOME,
    RUN,
    SCHEMA,
    check_whole,
    endings,
    only,
    with_outcomes,
)

__all__ = ["COLUMNS", "COMPLETED", "KEY", "Outcome", "Store", "StoreError"]

log = logging.getLogger(__name__)

_LAST = ".parquet"


class StoreError(RuntimeError):
    """The results folder cannot be read or written; stored rows are unchanged."""


class ReadError(StoreError):
    """A file of the results folder exists but cannot be read; its content may be intact."""

    def __init__(self, path: str, error: OSError) -> None:
        why = error.strerror or str(error)
        super().__init__(
            f"cannot read {printable(path)}: {printable(why)}; nothing was changed; once it can "
            "be read, rerun the same command to resume"
        )


@dataclass(frozen=True)
class Outcome:
    """How one seed of one setting ended.

    Attributes:
        status: ``completed``, ``diverged``, ``failed`` or ``out_of_memory``.
        reason: why the seed did not complete, for people to read; None if it completed.
        code: digest of the source that ran it; None if unknown.
        block: number of seeds in its trial.
    """

    setting_id: str
    seed: int
    status: str
    reason: str | None = None
    code: str | None = None
    block: int = 1

    @property
    def ok(self) -> bool:
        """Whether the seed completed."""
        return self.status == COMPLETED


class Store:
    """The rows of every task under one folder or URI (``s3://``, ``gs://``, ``file://``).

    Args:
        out: folder or URI; a folder becomes absolute, so that worker processes use the same one.
        mark: path below ``out`` of a file that must exist for anything to be written. Another
            machine's folder of that name, or the mount point of a disk that is gone, lacks it.

    Raises:
        StoreError: ``out`` cannot be created or reached.
    """

    def __init__(self, out: str, mark: str = "") -> None:
        try:
            self.filesystem, self.root = files.resolve(out)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"out={out}: cannot be used as a results folder: {error}") from error
        self.out = out if "://" in out else self.root
        self.mark = mark
        self._warned: set[str] = set()

    @property
    def folder(self) -> str | None:
        """The root as a local path; None for an object store."""
        return self.root if isinstance(self.filesystem, fs.LocalFileSystem) else None

    # -- writing -----------------------------------------------------------------------------

    def put(self, path: str, data: bytes, *, settle: bool = True) -> None:
        """Writes a file completely, or not at all.

        Args:
            path: path in the store's file system.
            data: the content.
            settle: wait until the file's name is on the disk, too.

        Raises:
            StoreError: the file could not be written, or the mark does not exist.
        """
        try:
            if self.mark:
                self.filesystem.open_input_stream(f"{self.root}/{self.mark}").close()
            files.write_whole(self.filesystem, path, data, settle=settle)
        except OSError as error:
            raise StoreError(f"cannot write {printable(path)}: {error}") from error

    def check_writable(self, task: str) -> None:
        """Writes and removes a small file; also removes leftovers of writers killed long ago.

        Raises:
            StoreError: the folder cannot be written; with the system's reason.
        """
        path = self._path(task, f"probe-{uuid.uuid4().hex}")
        self.put(path, b"")
        files.remove_quietly(self.filesystem, path)
        files.remove_stale(self.filesystem, f"{self.root}/{task}")

    def write(
        self,
        setting: Mapping[str, Any],
        key: Mapping[str, Any],
        rows: pd.DataFrame,
        manifest: Mapping[str, Any],
        beside: Mapping[str, bytes] | None = None,
        *,
        known: Columns | None = None,
        about: Mapping[str, str] | None = None,
    ) -> str:
        """Adds one trial's rows and manifest; returns the trial's file name without extension.

        Args:
            setting: the setting's values, one column each.
            key: ``task`` and ``setting_id``, and ``code`` if known.
            rows: columns ``seed, step, split, metric, x, value, reason, outcome``.
            manifest: further information, stored as JSON.
            beside: further files of the trial, such as a trained agent, by their names' endings.
            known: the types of the setting's fields; default: the type of each value.
            about: ``preset`` and ``changes``, one column each.

        Raises:
            StoreError: the rows could not be written; no existing file was changed.
            ValueError: a field of the setting has the name of a row's column, or a value cannot be
                stored: a number of more than 64 bits, a text of more than 10,000 characters.
        """
        taken = sorted(set(setting) & {*COLUMNS, *ABOUT})
        if taken:
            raise ValueError(f"a setting's field cannot be called {', '.join(taken)}")
        columns = {name: _flat(value) for name, value in setting.items()}
        check_whole(rows)
        columns |= about or {}
        frame = rows.assign(**{**columns, **key}).reindex(columns=[*COLUMNS, *columns])
        texts = dict.fromkeys((OUTCOME, "reason"), "string")
        numbers = {**dict.fromkeys(FLOATS, "float64"), **dict.fromkeys(INTEGERS, "int64")}
        table = with_outcomes(_typed(frame.astype({**numbers, **texts}), known or {}))
        path = self._path(str(key["task"]), f"{key['setting_id']}-{uuid.uuid4().hex[:12]}")
        # the rows come last: once they exist, so does the rest
        parts = {f"-{name}": data for name, data in (beside or {}).items()}
        parts |= {".json": _json(manifest), _LAST: files.encode(table)}
        try:
            for ending, data in parts.items():
                self.put(f"{path}{ending}", data, settle=ending == _LAST)
        except StoreError:
            for ending in parts:
                files.remove_quietly(self.filesystem, f"{path}{ending}")
            raise
        return path.rsplit("/", 1)[1]

    def write_specs(self, specs: TaskSpecs) -> None:
        """Stores the specifications of the task's tables and figures beside its rows."""
        self.put(self._path(specs.task, "specs.json"), specs.model_dump_json(indent=1).encode())

    def write_text(self, task: str, name: str, text: str) -> str:
        """Stores a text, such as a traceback, beside the rows and returns its path."""
        path = self._path(task, name)
        self.put(path, text.encode(errors="backslashreplace"))
        return path

    # -- reading -----------------------------------------------------------------------------

    def tasks(self) -> list[str]:
        """Returns the tasks with stored rows.

        Raises:
            StoreError: the folder cannot be listed.
        """
        folders = [
            item.base_name
            for item in self.listing(self.root)
            if item.folder and not item.base_name.startswith(".")
        ]
        return sorted(name for name in folders if self._files(name))

    def specs(self, task: str) -> TaskSpecs | None:
        """Returns the specifications of a task's tables and figures; None without valid ones.

        Raises:
            StoreError: they exist but cannot be read.
        """
        path = self._path(task, "specs.json")
        data = self.read(path)
        try:
            return None if data is None else TaskSpecs.read(data)
        except ValueError as error:
            self._warn(path, f"skipped {printable(path)}: {printable(error)}")
            return None

    def outcomes(self, task: str) -> dict[tuple[str, int], Outcome]:
        """Returns how each stored seed ended, by (setting_id, seed).

        Raises:
            StoreError: a file exists but cannot be read.
        """
        chosen = endings(self._read(task, [*FINAL, "metric"], self.specs(task)))
        columns = (chosen[name] for name in [*RUN, OUTCOME, "block", "reason", CODE])
        outcomes = {}
        for sid, seed, status, block, *texts in zip(*columns, strict=True):
            reason, code = (None if pd.isna(text) else str(text) for text in texts)
            outcome = Outcome(str(sid), int(seed), str(status), reason, code, int(block))
            outcomes[outcome.setting_id, outcome.seed] = outcome
        return outcomes

    def counting(self, task: str) -> dict[str, set[int]]:
        """Returns per stored file, by name without extension, the seeds whose rows count."""
        tables = self._read(task, [*FINAL, "metric"], self.specs(task))
        seeds: dict[str, set[int]] = {name.removesuffix(".parquet"): set() for name in tables}
        chosen = endings(tables)
        for name, seed in zip(chosen["file"], chosen["seed"], strict=True):
            seeds[str(name).removesuffix(".parquet")].add(int(seed))
        return seeds

    def load(self, task: str) -> pd.DataFrame:
        """Returns every row of a task; a seed that was stored twice comes from one file only.

        A completed seed takes precedence over a failed one, then the file that was written first.
        If other code ran a seed again, its older rows no longer count. Rows older than a field get
        the value that reproduces them.

        Raises:
            StoreError: a file exists but cannot be read.
        """
        specs = self.specs(task)
        tables = self._read(task, None, specs)
        chosen = endings(tables)
        before = {name: _flat(value) for name, value in (specs.added if specs else {}).items()}
        kept = [
            files.with_columns(only(tables[str(name)], runs), before)
            for name, runs in chosen.groupby("file", sort=False)
        ]
        frame: pd.DataFrame = files.concat(kept or [SCHEMA.empty_table()]).to_pandas()
        return frame

    def manifests(self, task: str) -> list[dict[str, Any]]:
        """Returns the manifests of the trials with stored rows.

        Raises:
            StoreError: a manifest exists but cannot be read.
        """
        manifests = []
        for info in self._files(task):
            if info.path in self._warned:
                continue
            path = info.path.removesuffix(".parquet") + ".json"
            data = self.read(path)
            if data is None:
                self._warn(path, f"skipped manifest {printable(path)}: it is not there")
                continue
            try:
                manifests.append(_mapping(data))
            except (ValueError, RecursionError) as error:
                self._warn(path, f"skipped manifest {printable(path)}: {printable(error)}")
        return manifests

    # -- files -------------------------------------------------------------------------------

    def _path(self, task: str, name: str) -> str:
        return f"{self.root}/{task}/{name}"

    def read(self, path: str, most: int | None = raw.TEXT_BYTES) -> bytes | None:
        """Returns a file's bytes; None if there is none, or (with a warning) no regular file.

        Raises:
            StoreError: the file exists but cannot be read.
        """
        try:
            return raw.read(self.filesystem, path, most)
        except FileNotFoundError:
            return None
        except raw.NoFileError as error:
            self._warn(path, f"skipped {printable(path)}: {error}")
            return None
        except OSError as error:
            raise ReadError(path, error) from error

    def listing(self, folder: str) -> list[Entry]:
        """Returns the entries of a folder; none if it does not exist.

        Raises:
            StoreError: it cannot be listed.
        """
        try:
            return files.list_folder(self.filesystem, folder)
        except NotADirectoryError as error:
            raise StoreError(f"cannot list {printable(folder)}: {error.strerror}") from error
        except OSError as error:
            raise ReadError(folder, error) from error

    def _files(self, task: str) -> list[Entry]:
        return [item for item in self.listing(f"{self.root}/{task}") if item.extension == "parquet"]

    def _read(
        self, task: str, columns: Sequence[str] | None, specs: TaskSpecs | None
    ) -> dict[str, pa.Table]:
        known = {} if specs is None else specs.fields
        infos, seen = self._files(task), self._warned
        try:
            return files.read_tables(self.filesystem, infos, task, columns, seen, known=known)
        except OSError as error:
            raise ReadError(error.filename, error) from error

    def _warn(self, path: str, text: str) -> None:
        if path not in self._warned:
            log.warning("%s", text)
        self._warned.add(path)


def _typed(frame: pd.DataFrame, known: Columns) -> pa.Table:
    """Rows as a table in which each column has its type.

    Raises:
        ValueError: a value cannot be stored, with the name of its column.
    """
    try:
        table = files.conform(pa.Table.from_pandas(frame, preserve_index=False), SCHEMA)
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(f"a value cannot be stored: {error}") from error
    for item in table.schema:
        if pa.types.is_uint64(item.type):
            raise ValueError(f"{item.name} cannot be stored: a whole number of more than 64 bits")
    check_texts(table.slice(0, 1).drop_columns([*COLUMNS]))
    return typed(table, known)


def _mapping(text: bytes) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("no mapping of names to values")
    return data


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, indent=1, sort_keys=True, default=str).encode()
