"""Columns that all files of one setting share: decoded in the first file, reused for the others.

Every row of a trial's file repeats the fields of its setting, its preset and what was changed;
decoding these forty or so columns takes most of the time of reading the file. The file also has a
digest of these fields, which the file's own seal protects. Of all files with equal digests, only
one is decoded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from nalu_ray.results.store import integrity
from nalu_ray.results.store.rows import COLUMNS


@dataclass
class _Constants:
    schema: pa.Schema
    row: pa.Table
    arrays: dict[int, dict[str, pa.Array]] = field(default_factory=dict)

    def repeated(self, count: int) -> dict[str, pa.Array]:
        if count not in self.arrays:
            columns = zip(self.row.column_names, self.row.columns, strict=True)
            self.arrays[count] = {name: pa.repeat(column[0], count) for name, column in columns}
        return self.arrays[count]


class SharedColumns:
    """The columns beside :data:`.rows.COLUMNS`, by the digest of the setting, for one reading."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Constants] = {}

    def has(self, schema: pa.Schema) -> bool:
        """Returns whether a file with this schema needs no more than :data:`.rows.COLUMNS`."""
        constants = self._known.get(_digest(schema))
        return constants is not None and constants.schema == schema

    def add(self, schema: pa.Schema, read: pa.Table, finished: pa.Table) -> None:
        """Keeps the constants of a file, if its digest is theirs.

        Args:
            schema: of the file.
            read: all of its rows.
            finished: the same, with each column of its field's type.
        """
        if read.num_rows and integrity.digest(read.slice(0, 1)) == _digest(schema):
            names = [name for name in finished.column_names if name not in COLUMNS]
            constants = _Constants(schema, finished.select(names).slice(0, 1))
            self._known.setdefault(_digest(schema), constants)

    def completed(self, schema: pa.Schema, rows: pa.Table) -> pa.Table:
        """Returns rows of :data:`.rows.COLUMNS` with the constants of their setting."""
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        return pa.Table.from_pydict(columns | self._known[_digest(schema)].repeated(rows.num_rows))


def _digest(schema: pa.Schema) -> bytes:
    return bytes((schema.metadata or {}).get(integrity.DIGEST, b""))
