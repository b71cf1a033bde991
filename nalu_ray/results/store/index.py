"""How the seeds of row files ended, kept in the user's cache: a plan need not read every file.

For each row file that was read and verified, the index of a folder has the file's path, size and
time of change, and the final rows of its seeds. It is never trusted over the files: a file that
differs in one of the three is read again, and an index that is missing, damaged or of another
version is made anew. A file that changed just before the folder was listed stays out, as another
change within the same tick of the clock would not show.

Only files with a digest are in it, and only folders with many files have one. Tables are made from
the files themselves.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nalu_ray.results.store import atomic_files, seal
from nalu_ray.results.store.atomic_files import Entry
from nalu_ray.results.store.packs import StoredTrial
from nalu_ray.results.store.paths import cache_folder
from nalu_ray.results.store.rows import ENDS, SCHEMA, final_rows

log = logging.getLogger(__name__)

LEAST = 100  # fewer files are read about as fast
SETTLED_SECONDS = 10.0
_KEY, _VERSION = b"nalu_ray.index", b"1"
_OF_TRIAL = ("path", "size", "mtime_ns", "trial", "written")
_COLUMNS = pa.schema(
    [(name, pa.string() if name in ("path", "trial") else pa.int64()) for name in _OF_TRIAL]
    + [SCHEMA.field(name) for name in ENDS],
    {_KEY: _VERSION},
)

Ends = dict[Entry, list[StoredTrial]]
"""The trials of each file, with the columns :data:`.rows.ENDS` of the final rows at least."""


def place(folder: str) -> Path:
    """Returns the file of the index of a folder, which is a path or URI."""
    digest = hashlib.sha256(folder.encode(errors="surrogateescape")).hexdigest()
    return cache_folder() / "ends" / f"{digest[:24]}.arrow"


def read(path: Path, files: Iterable[Entry]) -> Ends:
    """Returns what an index says of files that have not changed; nothing if it cannot be used.

    Args:
        path: the index.
        files: the files as they are now.
    """
    try:
        data = path.read_bytes()
        if not seal.is_sealed(data):
            raise ValueError("it has no digest")
        table = pa.ipc.open_stream(seal.unsealed(data)).read_all()
        if not table.schema.equals(_COLUMNS, check_metadata=True):
            raise ValueError("it is of another version")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, pa.ArrowException) as error:
        log.debug("%s is made anew: %s", path, error)
        return {}
    info_by_stats = {(info.path, info.size, info.mtime_ns): info for info in files}
    ends: Ends = {}
    for (file, size, mtime_ns, name, written), rows in _trials(table):
        if info := info_by_stats.get((file, size, mtime_ns)):
            ends.setdefault(info, []).append(StoredTrial(name, written, rows, info.path))
    return ends


def _trials(table: pa.Table) -> Iterable[tuple[tuple[Any, ...], pa.Table]]:
    """Yields what is known of each trial, :data:`_OF_TRIAL`, and its rows."""
    paths, names = (
        table[name].combine_chunks().dictionary_encode().indices.to_numpy()
        for name in ("path", "trial")
    )
    is_first = np.append(True, (paths[1:] != paths[:-1]) | (names[1:] != names[:-1]))[: len(table)]
    starts = np.flatnonzero(is_first)
    about = table.select(_OF_TRIAL).take(pa.array(starts)).to_pydict().values()
    rows = table.select(ENDS)
    bounds = itertools.pairwise([*starts.tolist(), len(table)])
    for values, (start, end) in zip(zip(*about, strict=True), bounds, strict=True):
        yield values, rows.slice(start, end - start)


def write(path: Path, ends: Mapping[Entry, Sequence[StoredTrial]], listed: float) -> None:
    """Writes an index, if it can.

    Args:
        path: the index.
        ends: the trials of the files.
        listed: when the folder was listed, in seconds since the epoch.
    """
    limit = (listed - SETTLED_SECONDS) * 1e9
    settled = [
        (info, trial)
        for info, trials in ends.items()
        if 0 < info.mtime_ns < limit
        for trial in trials
        if trial.sealed
    ]
    rows, of_row = final_rows([trial.rows for _, trial in settled])
    # a trial without a final row would be missing from its file
    endless = np.bincount(of_row, minlength=len(settled)) == 0
    left_out = {settled[at][0] for at in np.flatnonzero(endless)}
    about = [(i.path, i.size, i.mtime_ns, trial.name, trial.written) for i, trial in settled]
    columns = [[values[at] for values in about] for at in range(len(_OF_TRIAL))]
    of_trial = pa.Table.from_arrays(columns, schema=pa.schema([*_COLUMNS][: len(_OF_TRIAL)]))
    table = pa.Table.from_arrays(
        [*of_trial.take(pa.array(of_row)).columns, *rows.select(ENDS).columns], schema=_COLUMNS
    )
    is_whole = np.array([info not in left_out for info, _ in settled], dtype=bool)[of_row]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _COLUMNS) as writer:
        writer.write_table(table.filter(pa.array(is_whole)).combine_chunks())
    try:
        atomic_files.write_bytes(path, seal.seal(sink.getvalue().to_pybytes()))
    except OSError as error:
        log.debug("cannot write %s: %s", path, error)
