"""Published values that stand beside ours, from a CSV file.

The file has a line per value and a heading with these columns, in any order:

| column | meaning |
|---|---|
| ``table`` | name of the table or figure |
| ``row`` | the row's value as stored, such as ``nac``; in a figure, the line's |
| ``column`` | the column's value as stored; in a figure, the panel's; may be empty |
| ``measure`` | key of the measure; in a figure, the value of x |
| ``value`` | the number as printed, such as ``98``, ``<.001`` or ``12.5%`` |
| ``bold`` | optional: ``true`` where it is printed in bold |
| ``source`` | optional: where it was published; the first of a table counts |

A task reads its file with :func:`read` and gives each table its :class:`Publication`. The values
are stored with the table, so a report needs neither the file nor the task.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nalu_ray.errors import ConfigError, printable, shown
from nalu_ray.results.published import Published

NEEDED = ("table", "row", "column", "measure", "value")
OPTIONAL = ("bold", "source")
LARGEST_FILE = 1_000_000
_PRINTED = re.compile(
    r"[<>]?\s*([+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)\.?[0-9]*(?:[eE][+-]?[0-9]+)?)\s*%?"
)
_BOLD = {"true": True, "false": False, "": False}

Place = tuple[str, str, str]
"""Row, column and measure."""


class File(Protocol):
    """A path, or a file of a package as ``importlib.resources.files`` gives it."""

    @property
    def name(self) -> str: ...

    def read_bytes(self) -> bytes: ...


class PublishedValue(BaseModel):
    """One line of a file of published values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    row: str
    column: str = ""
    measure: str
    text: str = Field(description="the number as printed")
    bold: bool = False

    @field_validator("text")
    @classmethod
    def _is_a_number(cls, text: str) -> str:
        _number(text)
        return text

    @property
    def place(self) -> Place:
        """Returns row, column and measure."""
        return self.row, self.column, self.measure

    def published(self) -> Published:
        """Returns the printed value with its number."""
        qualifier = self.text[:1] if self.text[:1] in ("<", ">") else ""
        return Published(self.text, _number(self.text), qualifier, self.bold)


class Publication(BaseModel):
    """The published values of one table or figure.

    Attributes:
        source: where the values are from, as captions say it.
        values: a value per place.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    values: tuple[PublishedValue, ...]

    def lookup(self, row: str, column: str, measure: str) -> Published | None:
        """Returns the value of a place; None if none was published."""
        return self._by_place.get((row, column, measure))

    @cached_property
    def _by_place(self) -> dict[Place, Published]:
        return {value.place: value.published() for value in self.values}


def read(file: File, source: str = "") -> dict[str, Publication]:
    """Reads a file of published values.

    Args:
        file: the file.
        source: where the values were published, for lines that do not say it; the file's name by
            default.

    Returns:
        The publication of each table or figure by its name.

    Raises:
        ConfigError: the file cannot be read or a line is wrong; the message names the file, the
            line and the value.
    """
    name = printable(str(file))
    sources: dict[str, str] = {}
    values: dict[str, dict[Place, PublishedValue]] = {}
    for number, record in _records(file, name):
        where = f"{name}, line {number}"
        table, value = record["table"], _value(record, where)
        places = values.setdefault(table, {})
        if value.place in places:
            raise ConfigError([f"{where}: {table} has a value for {', '.join(value.place)} above"])
        places[value.place] = value
        sources[table] = sources.get(table) or record.get("source", "")
    return {
        table: Publication(
            source=sources[table] or source or file.name, values=tuple(places.values())
        )
        for table, places in values.items()
    }


def _records(file: File, name: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yields each line's number and its texts by column."""
    try:
        data = file.read_bytes()
        if len(data) > LARGEST_FILE:
            raise ConfigError([f"{name}: {len(data):,} bytes; at most {LARGEST_FILE:,}"])
        lines = io.StringIO(data.decode("utf-8-sig"), newline="")
    except OSError as error:
        raise ConfigError([f"cannot read {name}: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{name}: not UTF-8"]) from error
    reader = csv.DictReader(lines, strict=True)
    try:
        _check_heading(reader.fieldnames or (), name)
        for record in reader:
            number = reader.line_num
            if None in record or None in record.values():
                count = len(reader.fieldnames or ())
                raise ConfigError([f"{name}, line {number}: {count} values are needed"])
            yield number, {key: text.strip() for key, text in record.items()}
    except csv.Error as error:
        raise ConfigError([f"{name}, line {reader.line_num + 1}: not CSV: {error}"]) from error


def _check_heading(heading: Sequence[str], name: str) -> None:
    missing = [f"no column '{column}'" for column in NEEDED if column not in heading]
    unknown = [f"column {shown(c)}" for c in heading if c not in (*NEEDED, *OPTIONAL)]
    twice = [f"column '{column}' twice" for column in heading if heading.count(column) > 1]
    if wrong := [*missing, *unknown, *twice]:
        allowed = f"{', '.join(NEEDED)}, and optionally {', '.join(OPTIONAL)}"
        raise ConfigError([f"{name}: {wrong[0]}; the columns are {allowed}"])


def _value(record: Mapping[str, str], where: str) -> PublishedValue:
    for column, text in record.items():
        if printable(text) != text:
            raise ConfigError([f"{where}: {column}={shown(text)}: control characters"])
    if (bold := record.get("bold", "").lower()) not in _BOLD:
        raise ConfigError([f"{where}: bold={shown(bold)}: true or false"])
    row, column, measure, text = (record[name] for name in NEEDED[1:])
    try:
        return PublishedValue(row=row, column=column, measure=measure, text=text, bold=_BOLD[bold])
    except ValueError:
        example = "a number is needed, such as 98, <.001 or 12.5%"
        raise ConfigError([f"{where}: value={shown(text)}: {example}"]) from None


def _number(text: str) -> float:
    """Returns the number of a printed text.

    Raises:
        ValueError: it has none, or none that is finite.
    """
    match = _PRINTED.fullmatch(text)
    number = float(match[1].replace(",", "")) if match else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{shown(text)} is not a finite number")
    return number
