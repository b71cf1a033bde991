"""Shared by the commands: flags with helpful errors, and ``key=value`` words."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from nalu_ray.errors import SHOWN, ConfigError, did_you_mean, printable, shown
from nalu_ray.input import invocation
from nalu_ray.input.values import LARGEST, ValueReader, every, split
from nalu_ray.sweep.search import MOST_SAMPLES, Range, read_range

if TYPE_CHECKING:  # loads pandas, which no flag needs
    from nalu_ray.task import Setting

SAMPLES, SEARCH_SEED = "samples", "search_seed"
WORDS = ("seeds", SAMPLES, SEARCH_SEED)  # words that are not fields of a task
ALL = "all"  # layer=all: every value that can be, of a field whose values can be listed


class Parser(argparse.ArgumentParser):
    """An argument parser that raises :class:`ConfigError` instead of exiting."""

    def __init__(self, prog: str, about: str, examples: str) -> None:
        super().__init__(
            invocation.adapted(prog),
            description=invocation.adapted(about),
            epilog=invocation.adapted(examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = sys.argv[1:] if args is None else args
        if wrong := [word for word in words if not _is_utf8(word)]:
            raise ConfigError(
                [f"{printable(ascii(word), most=SHOWN)}: not UTF-8" for word in wrong]
            )
        if wrong := _apart(words):
            raise ConfigError(wrong)
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        raise ConfigError([message.removeprefix("argument ")])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            line = did_you_mean("value", str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, line)

    def unknown(
        self,
        word: str,
        fields: Collection[str] = (),
        value: str = "",
        accepts: Callable[[str], bool] = lambda change: True,
    ) -> str:
        """Returns an error line for an unknown flag.

        Args:
            word: the flag, ``--layer`` or ``--layer=nac``.
            fields: fields that ``key=value`` words set; a flag of that name should be such a word.
            value: the word after the flag, if it belongs to it.
            accepts: whether a ``key=value`` word is valid; the error proposes no other value.
        """
        flag, _, after = word.partition("=")
        flags = [name for action in self._actions for name in action.option_strings]
        line = did_you_mean("option", flag, flags).split(" Allowed: ")[0]
        name = flag.lstrip("-").replace("-", "_")
        names = [*fields, *(option.lstrip("-") for option in flags)]
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        if not close or close[0] not in fields:
            return f"{line} --help lists them"
        text = after or value
        if not (text and accepts(f"{close[0]}={text}")):
            text = "VALUE"
        hint = printable(f"{close[0]}={text}", most=SHOWN)
        return f"{line.partition(' Did')[0]} Fields are set without dashes: {hint}"


def take_values(
    unknown: Sequence[str], argv: Sequence[str], words: list[str], keep: Collection[str] = ()
) -> dict[str, str]:
    """Returns the word that follows each unknown flag, and removes it from ``words``.

    Args:
        unknown: the unknown flags.
        argv: the command line.
        words: words that are no flags; a ``key=value`` word never belongs to a flag.
        keep: words that never belong to a flag, such as the names of tasks.
    """
    values = {}
    for flag in unknown:
        if "=" in flag or flag not in argv:
            continue
        after = next(iter(argv[argv.index(flag) + 1 :]), "")
        if after in words and "=" not in after and after not in keep:
            words.remove(after)
            values[flag] = after
    return values


def task_and_words(words: list[str]) -> tuple[str | None, list[str]]:
    """Splits the task's name from the key=value words."""
    if words and "=" not in words[0]:
        return words[0], words[1:]
    return None, words


def whole(text: str) -> int:
    """Reads a flag's whole number of at most 64 bits; a type for argparse."""
    try:
        if "_" not in text and abs(number := int(text)) <= LARGEST:
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{shown(text)}: a whole number is needed")


def number(text: str) -> float:
    """Reads a flag's number; a type for argparse."""
    try:
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{shown(text)}: a number is needed")


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _apart(words: Sequence[str]) -> list[str]:
    """Returns a mistake per ``layer = nac``, ``layer= nac`` and ``layer =nac`` among words."""
    mistakes = []
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        after = words[at + 1] if at + 1 < len(words) else ""
        if word == "=":
            pieces = [before, word, after]
        elif word.endswith("=") and "=" not in after:
            pieces = [word, after]
        elif word.startswith("=") and "=" not in before:
            pieces = [before, word]
        else:
            continue
        if all(pieces) and not any(piece.startswith("--") for piece in pieces):
            text, joined = (printable(by.join(pieces), most=SHOWN) for by in (" ", ""))
            mistakes.append(f"'{text}': write {joined}, without spaces")
    return mistakes


def assignments(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Reads ``key=value`` words; returns the values by key, and a line per mistake."""
    values: dict[str, str] = {}
    mistakes = []
    for word in words:
        key, sign, value = word.partition("=")
        if not (key and sign and value):
            mistakes.append(
                f"'{printable(word, most=SHOWN)}': expected key=value, such as seeds=10"
            )
        elif key in values:
            mistakes.append(f"{key} is given twice; for several values write {key}={value},...")
        else:
            values[key] = value
    return values, mistakes


@dataclass
class Changes:
    """The values and seeds in ``key=value`` words.

    A comma outside of brackets separates values, and ``all`` stands for every value of a field of
    names. Values get the type of the task's field. A value that does not fit stays as written, and
    :func:`~nalu_ray.sweep.presets.expand` reports it with all other mistakes.

    Attributes:
        values: values by field.
        seeds: the seeds; None if no word sets them.
        ranges: ranges to search, ``lr=log:1e-4:1``, by field.
        samples, search_seed: how many points to search, and from which random numbers.
        mistakes: a line per mistake.
        every: fields whose value is ``all``.
    """

    values: dict[str, list[Any]]
    seeds: tuple[int, ...] | None
    mistakes: list[str]
    ranges: dict[str, Range] = field(default_factory=dict)
    samples: int | None = None
    search_seed: int = 0
    every: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, words: Sequence[str], setting_type: type[Setting]) -> Changes:
        """Reads the words for a task."""
        from nalu_ray.sweep.presets import parse_seeds  # noqa: PLC0415 (as above)

        assigned, mistakes = assignments(words)
        seeds = None
        try:
            seeds = parse_seeds(assigned.pop("seeds")) if "seeds" in assigned else None
        except ConfigError as error:
            mistakes += error.messages
        samples = _count(assigned, SAMPLES, None, mistakes)
        search_seed = _count(assigned, SEARCH_SEED, 0, mistakes)
        ranges = {}
        for key, text in list(assigned.items()):
            try:
                limits = _range(key, text, setting_type)
            except ConfigError as error:
                mistakes += error.messages
                del assigned[key]
                continue
            if limits is not None:
                ranges[key] = limits
                del assigned[key]
        values = {key: _values(key, text, setting_type) for key, text in assigned.items()}
        every = [key for key in values if assigned[key] == ALL and ALL not in values[key]]
        return cls(values, seeds, mistakes, ranges, samples, search_seed or 0, every)


def _count(
    assigned: dict[str, str], name: str, default: int | None, mistakes: list[str]
) -> int | None:
    """Takes a whole number out of the words; a mistake is added to ``mistakes``."""
    text = assigned.pop(name, None)
    if text is None:
        return default
    least = 1 if name == SAMPLES else 0
    most = MOST_SAMPLES if name == SAMPLES else LARGEST
    try:
        number = ValueReader(int).read(text)
        if least <= number <= most:
            return int(number)
    except ValueError:
        pass
    mistakes.append(f"{name}={shown(text)}: a whole number from {least} to {most:,}")
    return default


def _range(key: str, text: str, setting_type: type[Setting]) -> Range | None:
    info = setting_type.model_fields.get(key)
    return None if info is None else read_range(key, text, Annotated[info.annotation, info])


def _values(key: str, text: str, setting_type: type[Setting]) -> list[Any]:
    info, parts = setting_type.model_fields.get(key), split(text)
    if info is None:
        return parts
    listed = every(info.annotation, info.metadata)
    if parts == [ALL] and listed and ALL not in listed:
        return listed
    reader = ValueReader(Annotated[info.annotation, info])
    return [reader.read_or_leave(part) for part in parts]
