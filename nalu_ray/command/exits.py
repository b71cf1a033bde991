"""Shared by the commands: exit codes, and how a command ends at errors and signals."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any

from nalu_ray.errors import ConfigError, printable
from nalu_ray.results.store.errors import ReadError, StoreError
from nalu_ray.sweep import stdio
from nalu_ray.sweep.stopping import StoppedError


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
            level = "error" if printed else "warning"
            print(f"{level}: cannot write to stdout: {out.lost}", file=sys.stderr)
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
