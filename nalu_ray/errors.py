"""Errors in a user's input: one line per mistake, safe to print."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

SHOWN = 80  # characters of a value in a message
# control, format (marks that turn the direction of writing), half a character, line ends
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# joiners within emoji and scripts, and the soft hyphen, are harmless
_HARMLESS = {"\u00ad", "\u200c", "\u200d"}


class ConfigError(ValueError):
    """Wrong usage or input; ``messages`` has one line per mistake."""

    def __init__(self, messages: Sequence[str]) -> None:
        self.messages = list(dict.fromkeys(messages))
        super().__init__("\n".join(self.messages))


def did_you_mean(noun: str, name: str, allowed: Iterable[str]) -> str:
    """Returns an error line with the value, the nearest allowed one, and all allowed values."""
    names = sorted(allowed)
    name = printable(name, most=SHOWN)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"unknown {noun} '{name}'.{hint} Allowed: {', '.join(names)}"


def raise_interruption(error: BaseException) -> None:
    """Raises the Ctrl-C or the signal that an error hides; returns for other errors.

    An interruption that reaches torch between two steps of its own clean-up comes out as a
    RuntimeError ("INTERNAL ASSERT FAILED"), raised while the interruption was handled.

    Raises:
        BaseException: the interruption.
    """
    part: BaseException | None = error
    seen: set[int] = set()
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        if not isinstance(part, Exception):
            raise part
        # after `from`, the error is one that the code meant to raise
        part = None if part.__suppress_context__ else part.__context__


def explain(error: ValidationError) -> list[str]:
    """Returns one line per mistake: field, value, what is allowed."""
    return list(map(_explain_one, error.errors()))


def _explain_one(item: ErrorDetails) -> str:
    field = ".".join(printable(part, most=SHOWN) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"{field}: no such field"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "literal_error":
        allowed = re.findall(r"'([^']*)'", item.get("ctx", {}).get("expected", ""))
        message = did_you_mean("value", str(item["input"]), allowed)
    if isinstance(item["input"], str):  # some messages repeat it
        message = message.replace(repr(item["input"]), shown(item["input"]))
    if not field:  # a rule over several fields: its message names them
        return message
    if item["type"] == "missing":
        return f"{field}: {message}"
    return of_value(field, item["input"], message)


def of_value(field: str, value: object, message: str) -> str:
    """Returns the line of a mistake in a field's value; a message may begin with the value."""
    written = shown(value)
    return f"{field}={written}: {message.removeprefix(f'{written}: ')}"


def shown(value: object, most: int = SHOWN) -> str:
    """Returns a value as messages show it: its ``repr``, :func:`printable` and cut."""
    try:
        text = repr(value)
    except ValueError:  # Python writes out no whole number of more than 4,300 digits
        text = "a number of thousands of digits"
    return printable(text, most=most)


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message that is not empty, else the error's name."""
    lines = (line.strip() for line in str(error).splitlines())
    return printable(next(filter(None, lines), type(error).__name__))


def printable(text: object, keep: str = "", most: int | None = None) -> str:
    """Returns a text with its control characters escaped, as Python escapes them.

    Args:
        text: text, or an object whose ``str`` is used.
        keep: characters to leave as they are, such as the line feed of a text of several lines.
        most: cut a longer text to this number of characters, ending in "...".
    """
    plain = str(text)
    if not plain.isprintable():
        plain = "".join(
            character if character in keep or not _hidden(character) else _written_out(character)
            for character in plain
        )
    return plain if most is None or len(plain) <= most else f"{plain[: most - 3]}..."


def short(text: str, most: int = SHOWN) -> str:
    """Returns a :func:`printable` text of at most ``most`` characters."""
    return printable(text, most=most)


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _HARMLESS


def _written_out(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
