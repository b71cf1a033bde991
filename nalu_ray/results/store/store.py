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
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import fs

from nalu_ray.errors import printable
from nalu_ray.results.specs import TaskSpecs
from nalu_ray.results.store import atomic_files, index, packs, row_files, seal
from nalu_ray.results.store.atomic_files import Entry
from nalu_ray.results.store.columns import Columns, check_texts, typed
from nalu_ray.results.store.errors import ReadError, StoreError
from nalu_ray.results.store.packs import StoredTrial
from nalu_ray.results.store.rows import (
    ABOUT,
    CODE,
    COLUMNS,
    COMPLETED,
    ENDS,
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
from nalu_ray.results.store.shared import SharedColumns

__all__ = ["COLUMNS", "COMPLETED", "KEY", "Outcome", "Store", "StoreError"]

log = logging.getLogger(__name__)

_LAST = ".parquet"
_LISTINGS = 4  # how often a folder is listed whose files are being packed


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
            self.filesystem, self.root = row_files.resolve(out)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"out={out}: cannot be used as a results folder: {error}") from error
        self.out = out if "://" in out else self.root
        self.mark = mark
        self._warned: set[str] = set()
        self._ends: index.Ends = {}

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
            atomic_files.write_whole(self.filesystem, path, data, settle=settle)
        except OSError as error:
            raise StoreError(f"cannot write {printable(path)}: {error}") from error

    def check_writable(self, task: str) -> None:
        """Writes and removes a small file; also removes leftovers of writers killed long ago.

        Raises:
            StoreError: the folder cannot be written; with the system's reason.
        """
        path = self._path(task, f"probe-{uuid.uuid4().hex}")
        self.put(path, b"")
        atomic_files.remove_quietly(self.filesystem, path)
        atomic_files.remove_stale(self.filesystem, f"{self.root}/{task}")

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
        parts |= {".json": seal.seal_json(manifest), _LAST: row_files.encode(table)}
        try:
            for ending, data in parts.items():
                self.put(f"{path}{ending}", data, settle=ending == _LAST)
        except StoreError:
            for ending in parts:
                atomic_files.remove_quietly(self.filesystem, f"{path}{ending}")
            raise
        return path.rsplit("/", 1)[1]

    def write_specs(self, specs: TaskSpecs) -> None:
        """Stores the specifications of the task's tables and figures beside its rows."""
        data = seal.seal_json(specs.model_dump(mode="json"))
        self.put(self._path(specs.task, "specs.json"), data)

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
            return None if data is None else TaskSpecs.read(seal.unsealed_json(data))
        except ValueError as error:
            self._warn(path, f"skipped {printable(path)}: {printable(error)}")
            return None

    def outcomes(self, task: str) -> dict[tuple[str, int], Outcome]:
        """Returns how each stored seed ended, by (setting_id, seed).

        Raises:
            StoreError: a file exists but cannot be read.
        """
        chosen = self.runs(task)
        columns = (chosen[name] for name in [*RUN, OUTCOME, "block", "reason", CODE])
        outcomes = {}
        for sid, seed, status, block, *texts in zip(*columns, strict=True):
            reason, code = (None if pd.isna(text) else str(text) for text in texts)
            outcome = Outcome(str(sid), int(seed), str(status), reason, code, int(block))
            outcomes[outcome.setting_id, outcome.seed] = outcome
        return outcomes

    def runs(self, task: str) -> pd.DataFrame:
        """Returns the final row that counts for each stored seed.

        Returns:
            (seeds, 8), see :func:`nalu_ray.results.store.rows.endings`; ``file`` names its file.

        Raises:
            StoreError: a file exists but cannot be read.
        """
        return endings(self._read(task, ENDS, self.specs(task)))

    def counting(self, task: str) -> dict[str, set[int]]:
        """Returns per stored file, by name without extension, the seeds whose rows count."""
        tables = self._read(task, ENDS, self.specs(task))
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
        trials = self._trials(task, None, specs, shared=SharedColumns())
        tables = {trial.name: trial.rows for trial in trials}
        chosen = endings(tables)
        before = {name: _flat(value) for name, value in (specs.added if specs else {}).items()}
        parts = [
            row_files.with_columns(only(tables[str(name)], seeds.tolist()), before)
            for name, seeds in chosen.groupby("file", sort=False)["seed"]
        ]
        rows = row_files.concat(parts or [SCHEMA.empty_table()])
        # in one piece: pandas takes rows of a column in thousands of pieces slowly
        frame: pd.DataFrame = rows.combine_chunks().to_pandas()
        return frame

    def manifests(
        self, task: str, runs: Collection[tuple[str, int]] | None = None
    ) -> list[dict[str, Any]]:
        """Returns the manifests of the trials with stored rows.

        Args:
            task: the task.
            runs: settings' ids with a seed each: only of the trials whose rows of these count.

        Raises:
            StoreError: a manifest exists but cannot be read.
        """
        manifests = self._manifests(task)
        if runs is None:
            return list(manifests.values())
        columns = (self.runs(task)[name] for name in [*RUN, "file"])
        counting = {
            str(file)
            for sid, seed, file in zip(*columns, strict=True)
            if (str(sid), int(seed)) in runs
        }
        return [manifest for name, manifest in manifests.items() if name in counting]

    def _manifests(self, task: str) -> dict[str, dict[str, Any]]:
        """Returns the manifests of stored trials, by the name of the trial's file."""
        manifests: dict[str, dict[str, Any]] = {}
        for info in self._files(task):
            if info.path not in self._warned:
                manifests |= self._manifests_of(info.path)
        return manifests

    def _manifests_of(self, rows: str) -> dict[str, dict[str, Any]]:
        """Returns the manifests beside a row file; none, with a warning, if they are damaged."""
        path, packed = rows.removesuffix(_LAST) + ".json", packs.names_pack(rows)
        data = self.read(path, most=None if packed else atomic_files.TEXT_BYTES)
        if data is None:
            self._warn(path, f"skipped manifest {printable(path)}: it does not exist")
            return {}
        try:
            about = _mapping(data)
            return packs.manifests(about) if packed else {rows.rsplit("/", 1)[1]: about}
        except ValueError as error:
            self._warn(path, f"skipped manifest {printable(path)}: {printable(error)}")
            return {}

    # -- packing -----------------------------------------------------------------------------

    def compact(self, task: str) -> tuple[int, int]:
        """Merges the row files of a task's trials into packs; no row or manifest changes.

        Files without a digest (of 0.1), damaged files, and networks stay as they are.

        Returns:
            The number of row files before and after.

        Raises:
            StoreError: a file exists but cannot be read, or a pack cannot be written. The trials'
                own files stay until their pack is complete.
        """
        before = len(self._files(task))
        self._remove_packed(task)
        manifests = self._manifests(task)
        for group in packs.groups(self._trials(task, None, self.specs(task))):
            about = {
                trial.name: manifests[trial.name] for trial in group if trial.name in manifests
            }
            path = self._path(task, packs.new_name())
            self.put(f"{path}.json", seal.seal_json({packs.MANIFESTS: about}), settle=False)
            self.put(f"{path}{_LAST}", row_files.encode(packs.join(group)))
        self._remove_packed(task)
        return before, len(self._files(task))

    def _remove_packed(self, task: str) -> None:
        """Removes files whose trials are in a pack with their manifests, as read from the disk."""
        trials = self._trials(task, None, self.specs(task))
        paths = {trial.path for trial in trials if packs.names_pack(trial.path)}
        manifests = {path: set(self._manifests_of(path)) for path in paths}
        for path in packs.covered(trials, manifests):
            atomic_files.remove_quietly(self.filesystem, path)
            atomic_files.remove_quietly(self.filesystem, path.removesuffix(_LAST) + ".json")

    # -- files -------------------------------------------------------------------------------

    def _path(self, task: str, name: str) -> str:
        return f"{self.root}/{task}/{name}"

    def read(self, path: str, most: int | None = atomic_files.TEXT_BYTES) -> bytes | None:
        """Returns a file's bytes; None if there is none, or (with a warning) no regular file.

        Raises:
            StoreError: the file exists but cannot be read.
        """
        try:
            return atomic_files.read(self.filesystem, path, most)
        except FileNotFoundError:
            return None
        except atomic_files.NoFileError as error:
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
            return atomic_files.entries(self.filesystem, folder)
        except NotADirectoryError as error:
            raise StoreError(f"cannot list {printable(folder)}: {error.strerror}") from error
        except OSError as error:
            raise ReadError(folder, error) from error

    def _files(self, task: str) -> list[Entry]:
        return [item for item in self.listing(f"{self.root}/{task}") if item.extension == "parquet"]

    def _read(
        self, task: str, columns: Sequence[str] | None, specs: TaskSpecs | None
    ) -> dict[str, pa.Table]:
        """Returns the rows of each trial, by the name of its file, in the order of writing."""
        return {trial.name: trial.rows for trial in self._trials(task, columns, specs)}

    def _trials(
        self,
        task: str,
        columns: Sequence[str] | None,
        specs: TaskSpecs | None,
        shared: SharedColumns | None = None,
    ) -> list[StoredTrial]:
        """Returns the trials in the order of writing; see :func:`.files.read_trials`."""
        fields = {} if specs is None else specs.fields
        for attempt in reversed(range(_LISTINGS)):
            listed, infos, warned = time.time(), self._files(task), self._warned
            indexed = self._recall(task, infos)
            # a command reads the ends of seeds several times; a file never changes
            trials_by_info = self._ends if columns is not None else {}
            new = [info for info in infos if info not in trials_by_info]
            try:
                read = row_files.read_trials(
                    self.filesystem,
                    new,
                    task,
                    columns,
                    warned,
                    known=fields,
                    strict=attempt > 0,
                    shared=shared,
                )
            except row_files.VanishedError:
                continue  # packed meanwhile: list the folder again
            except OSError as error:
                raise ReadError(error.filename, error) from error
            of_file: dict[str, list[StoredTrial]] = {info.path: [] for info in new}
            for trial in read:
                of_file[trial.path].append(trial)
            trials_by_info |= {info: of_file[info.path] for info in new}
            if columns is None:
                self._ends |= {info: [*map(_only_ends, trials_by_info[info])] for info in new}
            if len(infos) - indexed >= index.LEAST:
                ends = {info: self._ends[info] for info in infos}
                index.write(index.place(f"{self.out}/{task}"), ends, listed)
            trials = [trial for info in infos for trial in trials_by_info[info]]
            return sorted(trials, key=lambda trial: (trial.written, trial.name))
        raise AssertionError("the last attempt skips what is gone")

    def _recall(self, task: str, infos: Sequence[Entry]) -> int:
        """Reads what the index says of many files that were not read yet; returns what is known."""
        if sum(info not in self._ends for info in infos) >= index.LEAST:
            self._ends |= index.read(index.place(f"{self.out}/{task}"), infos)
        return sum(info in self._ends for info in infos)

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
        table = row_files.conform(pa.Table.from_pandas(frame, preserve_index=False), SCHEMA)
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(f"a value cannot be stored: {error}") from error
    for item in table.schema:
        if pa.types.is_uint64(item.type):
            raise ValueError(f"{item.name} cannot be stored: a whole number of more than 64 bits")
    check_texts(table.slice(0, 1).drop_columns([*COLUMNS]))
    return typed(table, known)


def _mapping(text: bytes) -> dict[str, Any]:
    data = seal.json_values(text)
    if not isinstance(data, dict):
        raise ValueError("not a mapping of names to values")
    return data


def _only_ends(trial: StoredTrial) -> StoredTrial:
    return replace(trial, rows=trial.rows.select(ENDS))


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
