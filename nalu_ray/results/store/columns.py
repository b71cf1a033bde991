"""Columns for the fields of a setting: the type of each, and tables cast to these types."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, PydanticUserError

from nalu_ray.input.values import check_text

Column = Literal["text", "integer", "number", "flag"]
Columns = Mapping[str, Column]

TYPES: dict[str, pa.DataType] = {
    "text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "flag": pa.bool_(),
}  # fmt: skip
_OF_JSON: dict[frozenset[str], Column] = {
    frozenset({"integer"}): "integer",
    frozenset({"number"}): "number",
    frozenset({"integer", "number"}): "number",
    frozenset({"boolean"}): "flag",
}


@functools.cache
def columns(setting_type: type[BaseModel]) -> Columns:
    """Returns the type of each field's column; lists, mappings and mixed types are text.

    An optional field has the type of its other values.
    """
    try:
        schema = setting_type.model_json_schema(mode="serialization")
    except PydanticUserError:  # a type without a JSON schema
        return {}
    definitions = schema.get("$defs", {})
    return {
        name: _OF_JSON.get(
            frozenset(_kinds(schema["properties"].get(name, {}), definitions)), "text"
        )
        for name in setting_type.model_fields
    }


def _kinds(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yields the JSON types that a schema allows, except null."""
    if "$ref" in schema:
        yield from _kinds(definitions.get(schema["$ref"].rsplit("/", 1)[-1], {}), definitions)
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _kinds(part, definitions)
    types = schema.get("type", ())
    yield from {types} - {"null"} if isinstance(types, str) else set(types) - {"null"}


def typed(table: pa.Table, known: Columns) -> pa.Table:
    """Returns a table with its columns cast to the types of their fields.

    Raises:
        ValueError: a value does not fit; the message names the field.
    """
    for index, name in enumerate(table.column_names):
        column_type = TYPES.get(known.get(name, ""))
        if column_type is not None and table.schema.field(index).type != column_type:
            try:
                table = table.set_column(index, name, table.column(index).cast(column_type))
            except pa.ArrowException as error:
                raise ValueError(f"{name}: not of type {known[name]}: {_first(error)}") from error
    return table


def check_texts(row: pa.Table) -> None:
    """Refuses texts in a table of one row that no setting can have.

    Raises:
        ValueError: a text is too long, is nested too deeply, or has control characters.
    """
    for name in row.column_names:
        check_text("a column's name", name)
        if pa.types.is_string(row[name].type) or pa.types.is_large_string(row[name].type):
            for text in row[name].to_pylist():
                check_text(name, text or "")


def _first(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0][:200]
