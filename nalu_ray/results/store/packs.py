"""Packs: the row files of many trials merged into one file.

A pack is a Parquet file with two more columns: ``trial``, the name of the trial's own file, and
``trial_written_ns``, the time at which that file was written. Which rows of a seed count depends on
both, so packing changes no result. The manifests are in a JSON file of the same name, by trial.

A pack appears as a whole, and only then are the files of its trials removed. If the process is
killed in between, those trials are there twice under one name; readers take them once, and the next
call removes the rest.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

TRIAL, WRITTEN = "trial", "trial_written_ns"
COLUMNS = (TRIAL, WRITTEN)
_PREFIX = "pack-"
MANIFESTS = "trials"  # the key of the JSON beside a pack
MOST_ROWS = 250_000  # per pack: readers accept that many in a file of any size


@dataclass(frozen=True)
class StoredTrial:
    """The rows of one trial, from its own file or from a pack.

    Attributes:
        name: name of the trial's own file.
        written: time at which that file was written, in nanoseconds.
        rows: its rows.
        path: the file that was read.
        sealed: whether that file has a digest, which was verified.
    """

    name: str
    written: int
    rows: pa.Table
    path: str
    sealed: bool = True


def is_pack(columns: Sequence[str]) -> bool:
    """Returns whether a file with these columns is a pack."""
    return set(COLUMNS) <= set(columns)


def join(trials: Sequence[StoredTrial]) -> pa.Table:
    """Returns the rows of trials with the same columns as the table of a pack."""
    parts = []
    for trial in trials:
        count = trial.rows.num_rows
        name, written = pa.repeat(trial.name, count), pa.repeat(trial.written, count)
        parts.append(trial.rows.append_column(TRIAL, name).append_column(WRITTEN, written))
    return pa.concat_tables(parts)


def split(table: pa.Table, path: str) -> list[StoredTrial]:
    """Returns the trials of a pack's table.

    Raises:
        ValueError: rows of one trial are apart, or have no name or time.
    """
    names = table[TRIAL].combine_chunks()
    if names.null_count or table[WRITTEN].null_count:
        raise ValueError(f"rows without {TRIAL} or {WRITTEN}")
    runs = pc.run_end_encode(names)
    ends = [0, *runs.run_ends.to_pylist()]
    labels = runs.values.to_pylist()
    if len(set(labels)) < len(labels):
        raise ValueError("the rows of one trial are not together")
    rows = table.drop_columns(list(COLUMNS))
    return [
        StoredTrial(name, table[WRITTEN][start].as_py(), rows.slice(start, end - start), path)
        for name, start, end in zip(labels, ends, ends[1:], strict=False)
    ]


def groups(trials: Sequence[StoredTrial]) -> Iterator[list[StoredTrial]]:
    """Yields the trials to merge: with the same columns, from more than one file.

    A pack that is at least half full stays as it is.
    """
    sizes: dict[str, int] = {}
    for trial in trials:
        sizes[trial.path] = sizes.get(trial.path, 0) + trial.rows.num_rows
    alike: dict[str, list[StoredTrial]] = {}
    for trial in {trial.name: trial for trial in trials}.values():
        if trial.sealed and sizes[trial.path] < MOST_ROWS // 2:
            alike.setdefault(str(trial.rows.schema), []).append(trial)
    for trials_alike in alike.values():
        for group in _batches(trials_alike):
            if len({trial.path for trial in group}) > 1:
                yield group


def _batches(trials: Sequence[StoredTrial]) -> Iterator[list[StoredTrial]]:
    batch: list[StoredTrial] = []
    rows = 0
    for trial in trials:
        if batch and rows + trial.rows.num_rows > MOST_ROWS:
            yield batch
            batch, rows = [], 0
        batch.append(trial)
        rows += trial.rows.num_rows
    yield batch


def covered(trials: Sequence[StoredTrial], manifests: Mapping[str, set[str]]) -> list[str]:
    """Returns the files that can go: each of their trials is in a pack that stays.

    Two processes that pack one folder keep the same packs: the fullest, then the first by name.

    Args:
        trials: the trials of every file.
        manifests: for each pack, the trials whose manifests lie beside it.
    """
    of_file: dict[str, set[str]] = {}
    for trial in trials:
        of_file.setdefault(trial.path, set()).add(trial.name)
    inside: set[str] = set()
    removable = []
    for path in sorted(of_file, key=lambda path: (-len(of_file[path]), path)):
        if of_file[path] <= inside:
            removable.append(path)
        else:
            inside |= of_file[path] & manifests.get(path, set())
    return removable


def new_name() -> str:
    """Returns the name of a new pack, without extension."""
    return f"{_PREFIX}{uuid.uuid4().hex[:12]}"


def names_pack(path: str) -> bool:
    """Returns whether a row file has the name of a pack."""
    return path.rsplit("/", 1)[-1].startswith(_PREFIX)


def manifests(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the manifests in a pack's JSON, by trial.

    Raises:
        ValueError: it has another form.
    """
    trials = data.get(MANIFESTS)
    if not isinstance(trials, dict) or not all(
        isinstance(manifest, dict) for manifest in trials.values()
    ):
        raise ValueError("the manifests of its trials are missing")
    return trials
