"""Shared by the commands: exit codes, flags with helpful errors, and ``key=value`` words."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, NoReturn

from nalu_ray.errors import SHOWN, ConfigError, did_you_mean, printable, shown
from nalu_ray.results.store.store import ReadError, StoreError
from nalu_ray.sweep import stdio
from nalu_ray.sweep.presets import parse_seeds
from nalu_ray.sweep.stopping import StoppedError
from nalu_ray.task import Setting
from nalu_ray.values import LARGEST, ValueReader, every, split

ALL = "all"  # layer=all: every value of a field whose values can be listed


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    FAILED_SEEDS = 1
    USAGE = 2
    STOPPED = 3
    INTERRUPTED = 130
    TERMINATED = 143


class Terminated(BaseException):
    """Raised at SIGTERM or SIGHUP, so that everything is cleaned up on the way out."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises :class:`ConfigError` instead of exiting."""

    def __init__(self, prog: str, about: str, examples: str) -> None:
        super().__init__(
            prog,
            description=about,
            epilog=examples,
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
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        raise ConfigError([message.removeprefix("argument ")])

    def unknown(self, word: str) -> str:
        """Returns an error line for an unknown flag."""
        flags = [name for action in self._actions for name in action.option_strings]
        line = did_you_mean("option", word.partition("=")[0], flags)
        return f"{line.split(' Allowed: ')[0]} --help lists them"


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


def guarded(command: Callable[[], int], *, printed: bool = True) -> int:
    """Runs a command and returns its exit code, however it ends.

    Args:
        command: the command; returns its exit code.
        printed: its output is what the user asked for, so a failure to write it ends the command
            with exit code 3. A reader that leaves early, such as ``head``, is no failure.
    """
    with stdio.lasting() as out:
        code = _guarded(command)
        out.flush()
        if out.lost is not None:
            what = "error" if printed else "warning"
            print(f"{what}: cannot write to stdout: {out.lost}", file=sys.stderr)
            code = code or (Exit.STOPPED if printed else code)
    return code


def _guarded(command: Callable[[], int]) -> int:
    try:
        return command()
    except (ReadError, StoppedError) as error:  # storage or Ray, not the user's input
        print(f"error: {printable(error)}", file=sys.stderr)
        return Exit.STOPPED
    except (ConfigError, StoreError) as error:
        for line in _lines(getattr(error, "messages", [str(error)])):
            print(f"error: {line}", file=sys.stderr)
        return Exit.USAGE
    except KeyboardInterrupt:
        print(
            "interrupted: finished trials are stored; rerun the same command to resume",
            file=sys.stderr,
        )
        return Exit.INTERRUPTED
    except (Terminated, SystemExit) as error:
        if isinstance(error, SystemExit) and not error.code:  # argparse, after it printed its help
            return Exit.DONE
        # while Ray starts, its own handler exits with the signal's number
        if isinstance(error, SystemExit) and error.code != signal.SIGTERM:
            raise
        print(
            "terminated: finished trials are stored; rerun the same command to resume",
            file=sys.stderr,
        )
        return Exit.TERMINATED


def _lines(messages: Sequence[str]) -> list[str]:
    """Returns messages that are safe to print; some have several lines."""
    return [printable(message, keep="\n") for message in messages]


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Makes SIGTERM, and SIGHUP unless it is ignored, raise :class:`Terminated` from the block."""
    came = []

    def stop(number: int, frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt  # the only exception that passes Ray's C++ loop

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with contextlib.ExitStack() as before:
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves it
                before.callback(signal.signal, number, signal.signal(number, stop))
        try:
            yield
        except KeyboardInterrupt:
            if came:
                raise Terminated from None
            raise


def assignments(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Reads ``key=value`` words; returns the values by key, and a line per mistake."""
    given: dict[str, str] = {}
    mistakes = []
    for word in words:
        key, sign, value = word.partition("=")
        if not (key and sign and value):
            mistakes.append(
                f"'{printable(word, most=SHOWN)}': expected key=value, such as seeds=10"
            )
        elif key in given:
            mistakes.append(f"{key} is given twice; for several values write {key}={value},...")
        else:
            given[key] = value
    return given, mistakes


@dataclass
class Changes:
    """The values and seeds in ``key=value`` words.

    A comma outside of brackets separates values, and ``all`` stands for every value of a field of
    names. Values get the type of the task's field. A value that does not fit stays as written, and
    :func:`~nalu_ray.sweep.presets.expand` reports it with all other mistakes.

    Attributes:
        values: values by field.
        seeds: the seeds; None if no word sets them.
        mistakes: a line per mistake.
    """

    values: dict[str, list[Any]]
    seeds: tuple[int, ...] | None
    mistakes: list[str]

    @classmethod
    def read(cls, words: Sequence[str], setting_type: type[Setting]) -> Changes:
        """Reads the words for a task."""
        given, mistakes = assignments(words)
        seeds = None
        try:
            seeds = parse_seeds(given.pop("seeds")) if "seeds" in given else None
        except ConfigError as error:
            mistakes += error.messages
        values = {key: _values(key, text, setting_type) for key, text in given.items()}
        return cls(values, seeds, mistakes)


def _values(key: str, text: str, setting_type: type[Setting]) -> list[Any]:
    field, parts = setting_type.model_fields.get(key), split(text)
    if field is None:
        return parts
    listed = every(field.annotation, field.metadata)
    if parts == [ALL] and listed and ALL not in listed:
        return listed
    reader = ValueReader(Annotated[field.annotation, field])
    return [reader.read_or_leave(part) for part in parts]
