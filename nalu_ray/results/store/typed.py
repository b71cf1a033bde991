"""Rows with columns of the types that the setting's fields have."""

from __future__ import annotations

import pyarrow as pa

from nalu_ray.results.store.columns import Columns
from nalu_ray.values import check_text

TYPES: dict[str, pa.DataType] = {
    "text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "flag": pa.bool_(),
}  # fmt: skip


def typed(table: pa.Table, known: Columns) -> pa.Table:
    """Returns a table whose columns have the types of the fields that they are of.

    Raises:
        ValueError: a value does not fit; the message names the field.
    """
    for place, name in enumerate(table.column_names):
        kind = TYPES.get(known.get(name, ""))
        if kind is not None and table.schema.field(place).type != kind:
            try:
                table = table.set_column(place, name, table.column(place).cast(kind))
            except pa.ArrowException as error:
                raise ValueError(f"{name}: no {known[name]}: {_first(error)}") from error
    return table


def check_texts(row: pa.Table) -> None:
    """Refuses, in a table of one row, texts that no setting has.

    Raises:
        ValueError: one is too long, is nested too deeply, or has control characters.
    """
    for name in row.column_names:
        check_text("a column's name", name)
        if pa.types.is_string(row[name].type) or pa.types.is_large_string(row[name].type):
            for text in row[name].to_pylist():
                check_text(name, text or "")


def _first(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0][:200]
