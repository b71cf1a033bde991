"""The fields of a task's setting as columns: each has one type, whatever a file's value is."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, PydanticUserError

Column = Literal["text", "integer", "number", "flag"]
Columns = Mapping[str, Column]

_OF_JSON: dict[frozenset[str], Column] = {
    frozenset({"integer"}): "integer",
    frozenset({"number"}): "number",
    frozenset({"integer", "number"}): "number",
    frozenset({"boolean"}): "flag",
}


def columns(setting_type: type[BaseModel]) -> Columns:
    """Returns the type of each field's column; lists, mappings and mixtures are text.

    A field that may be none has the type of its other values.
    """
    return _columns(setting_type)


@functools.cache
def _columns(setting_type: type[BaseModel]) -> Columns:
    try:
        schema = setting_type.model_json_schema(mode="serialization")
    except PydanticUserError:  # a type that has no form in JSON's schemas
        return {}
    known = schema.get("$defs", {})
    return {
        name: _OF_JSON.get(frozenset(_kinds(schema["properties"].get(name, {}), known)), "text")
        for name in setting_type.model_fields
    }


def _kinds(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names of JSON's types that a schema allows, null left out."""
    if "$ref" in schema:
        yield from _kinds(known.get(schema["$ref"].rsplit("/", 1)[-1], {}), known)
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _kinds(part, known)
    given = schema.get("type", ())
    yield from {given} - {"null"} if isinstance(given, str) else set(given) - {"null"}
