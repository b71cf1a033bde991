"""Converts values of the command line and of files to the types of their fields."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from nalu_ray.errors import printable
from nalu_ray.input.strict_yaml import YAMLError, load

LARGEST = 2**63 - 1
LONGEST = 10_000  # characters of a setting's text
DEEPEST = 32  # brackets within one another

_GROUPED = re.compile(r"[0-9]_+[0-9]")
_OPENING, _CLOSING = "[{(", ")}]"


class StrictModel(BaseModel):
    """A model whose numbers are finite, within 64 bits, and neither ``true`` nor ``1_0``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_plain(cls, value: Any, info: ValidationInfo) -> Any:
        check_plain(value, cls.model_fields[str(info.field_name)].annotation)
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _fits(cls, value: Any) -> Any:
        check_fits(value)
        return value


def check_plain(value: object, field_type: Any) -> None:
    """Raises ``ValueError`` if a number is wanted and ``true`` or ``1_0`` is given."""
    leaves = set(_leaves(field_type))
    if not leaves & {int, float} or get_origin(field_type) is dict or isinstance(value, Mapping):
        return
    for part in value if isinstance(value, list | tuple) else [value]:
        if isinstance(part, bool) and bool not in leaves:
            raise ValueError(f"{str(part).lower()} is not a number")
        if isinstance(part, str) and _GROUPED.search(part):
            raise ValueError("write numbers without '_'")


def check_fits(value: object) -> None:
    """Raises ``ValueError`` if a whole number, at any depth, is beyond 64 bits."""
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        raise ValueError(f"whole numbers go up to 2^63 - 1, which is {LARGEST}")
    if isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            check_fits(part)


def _leaves(field_type: Any) -> Iterator[Any]:
    """Yields the plain types within a type, except literals."""
    parts = [part for part in get_args(field_type) if isinstance(part, type) or get_origin(part)]
    yield from (leaf for part in parts for leaf in _leaves(part))
    if not get_args(field_type):
        yield field_type


def scalar_types(field_type: Any) -> set[Any]:
    """Returns the types that a value of a field may have, without None: ``{float}``."""
    origin, parts = get_origin(field_type), get_args(field_type)
    if origin is Annotated:
        return scalar_types(parts[0])
    if origin in (Union, types.UnionType):
        return set().union(*map(scalar_types, parts))
    return set() if field_type is type(None) else {origin or field_type}


@dataclass(frozen=True)
class Named:
    """In a field's ``Annotated``: the values are names, all of which ``names`` lists."""

    names: Callable[[], Sequence[str]]


def every(field_type: Any, metadata: Sequence[Any]) -> list[Any] | None:
    """Returns all values of a field's type; None if they cannot be listed.

    Args:
        field_type: the type.
        metadata: what its ``Annotated`` says beside it.
    """
    for item in metadata:
        if isinstance(item, Named):
            return list(item.names())
    return list(get_args(field_type)) if get_origin(field_type) is Literal else None


class ValueReader:
    """Converts values to one type.

    Args:
        field_type: the type, such as ``float | None`` or ``Annotated[float, Field(gt=0)]``.
    """

    def __init__(self, field_type: Any) -> None:
        self._field_type = field_type
        self._adapter = TypeAdapter[Any](field_type)

    def read(self, value: Any) -> Any:
        """Returns the typed value.

        A text that fits the type stays as it is. Otherwise ``none`` becomes None, and other texts
        are read as YAML.

        Raises:
            ValueError: the value does not fit; may be pydantic's error.
        """
        first: ValueError | None = None
        for reading in _readings(value):
            try:
                return self._one(reading)
            except ValueError as error:
                first = first or error
        raise first or ValueError("no value")

    def read_or_leave(self, value: Any) -> Any:
        """Returns the typed value, or the given value if it does not fit."""
        try:
            return self.read(value)
        except ValueError:
            return value

    def _one(self, value: Any) -> Any:
        check_plain(value, self._field_type)
        typed = self._adapter.validate_python(value)
        check_fits(typed)
        return typed


def reason(error: ValueError) -> str:
    """Returns the first mistake in a value, on one line."""
    if isinstance(error, ValidationError):
        return error.errors()[0]["msg"].removeprefix("Value error, ")
    return str(error)


def scalar(text: str) -> Any:
    """Returns a text's value as plain YAML, or the text itself if it is not YAML."""
    try:
        return load(text)
    except YAMLError:
        return text


def _readings(value: Any) -> Iterator[Any]:
    if not isinstance(value, str):
        yield value
        return
    readings: list[Any] = [value]
    if value.lower() in ("none", "null"):
        readings.append(None)
    if value.strip():
        readings.append(scalar(value))
    # a text in brackets is first tried as a list or a mapping
    yield from reversed(readings) if value[:1] in ("[", "{") else readings


def split(text: str) -> list[str]:
    """Splits a text at the commas outside of brackets."""
    depth, parts, start = 0, [], 0
    for index, letter in enumerate(text):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth = max(0, depth - 1)
        elif letter == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def check_text(name: str, text: str) -> None:
    """Refuses texts that no setting can have.

    Raises:
        ValueError: the text is too long, is nested too deeply, or has control characters.
    """
    if len(text) > LONGEST:
        raise ValueError(f"{name}: a text of {len(text):,} characters, more than {LONGEST:,}")
    if printable(text) != text:
        raise ValueError(f"{name}={text[:60]!r}: control characters")
    depth = 0
    for character in text if text[:1] in ("[", "{") else "":
        depth += (character in "[{") - (character in "]}")
        if depth > DEEPEST:
            raise ValueError(f"{name}: more than {DEEPEST} brackets within one another")
