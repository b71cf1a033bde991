"""What the commands share: exit codes, flags that fail kindly, and the ``key=value`` grammar."""

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

from nalu_ray.errors import ConfigError, did_you_mean, printable, short, shown
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
    """SIGTERM or SIGHUP came; raised so that everything is cleaned up on the way out."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises :class:`ConfigError` instead of leaving the program."""

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
            raise ConfigError([f"{short(ascii(word))}: not UTF-8" for word in wrong])
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        raise ConfigError([message.removeprefix("argument ")])

    def unknown(self, word: str) -> str:
        """Returns an error line for a flag that there is not."""
        flags = [name for action in self._actions for name in action.option_strings]
        line = did_you_mean("option", word.partition("=")[0], flags)
        return f"{line.split(' Allowed: ')[0]} --help lists them"


def whole(text: str) -> int:
    """Reads a flag's whole number of up to 64 bits, for argparse."""
    try:
        if "_" not in text and abs(number := int(text)) <= LARGEST:
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{shown(text)}: a whole number is needed")


def number(text: str) -> float:
    """Reads a flag's number, for argparse."""
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
    """Runs a command and turns every way it can end into an exit code.

    Args:
        command: what to run.
        printed: what it prints is what was asked for: it fails where that cannot be written. A
            reader that has seen enough, such as ``head``, is none the worse.
    """
    with stdio.lasting() as out:
        code = _guarded(command)
        out.flush()
        if out.lost is not None:
            what = "error" if printed else "warning"
            print(f"{what}: cannot write to stdout: {out.lost}", file=sys.stderr)
            code = code or (Exit.USAGE if printed else code)
    return code


def _guarded(command: Callable[[], int]) -> int:
    try:
        return command()
    except (ReadError, StoppedError) as error:  # the storage's or Ray's doing, not the user's
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
        # while Ray starts, its own handler is in charge and leaves with the signal's number
        if isinstance(error, SystemExit) and error.code != signal.SIGTERM:
            raise
        print(
            "terminated: finished trials are stored; rerun the same command to resume",
            file=sys.stderr,
        )
        return Exit.TERMINATED


def _lines(messages: Sequence[str]) -> list[str]:
    """Messages as a terminal may see them; some are of several lines."""
    return [printable(message, keep="\n") for message in messages]


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Makes SIGTERM, and SIGHUP where it is not ignored, raise :class:`Terminated` out of this."""
    came = []

    def stop(number: int, frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt  # the one exception that Ray lets through its C++ loop

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
    """Reads ``key=value`` words; returns them, and a line for each that is wrong."""
    given: dict[str, str] = {}
    mistakes = []
    for word in words:
        key, sign, value = word.partition("=")
        if not (key and sign and value):
            mistakes.append(f"'{short(word)}': expected key=value, such as seeds=10")
        elif key in given:
            mistakes.append(f"{key} is given twice; for several values write {key}={value},...")
        else:
            given[key] = value
    return given, mistakes


@dataclass
class Changes:
    """What ``key=value`` words ask for.

    A comma separates values, but not inside brackets; ``all`` stands for every value of a field
    whose values are names. Values are typed as the task's field is; one
    that cannot be is left as written, for :func:`~nalu_ray.sweep.presets.expand` to refuse with
    the others.
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
