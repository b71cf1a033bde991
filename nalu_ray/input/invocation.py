"""Commands as the user can type them, for hints and help."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence

_PLAIN = re.compile(r"(?<![\w/])python -m nalu_ray")  # not the end of a path
_SCRIPT = "nalu-ray"


def command(name: str, words: Sequence[str] = ()) -> str:
    """Returns a command of this package, such as ``python -m nalu_ray.report static``.

    It works as printed in the present folder: it names this process's Python by its path unless
    that Python is the ``python`` on the PATH.

    Args:
        name: the command, such as ``report``.
        words: its arguments; quoted where a shell needs it.
    """
    return " ".join([f"{interpreter()} -m nalu_ray.{name}", *map(shlex.quote, words)])


def adapted(text: str) -> str:
    """Returns a text, such as a help, in which each ``python -m nalu_ray`` works as printed."""
    return _PLAIN.sub(lambda _: f"{interpreter()} -m nalu_ray", text)


def every_command() -> str:
    """Returns the shortest name of the program with all commands; ``python -m nalu_ray`` if none.

    It is installed beside this process's Python, unless the package is only on the Python path.
    """
    beside = os.path.join(os.path.dirname(sys.executable), _SCRIPT)
    return program(_SCRIPT) if os.path.exists(beside) else f"{interpreter()} -m nalu_ray"


def install(package: str) -> str:
    """Returns the command that installs a package for this process's Python."""
    return f"{interpreter()} -m pip install {shlex.quote(package)}"


def interpreter() -> str:
    """Returns the shortest name of this process's Python: ``python``, or a path to it."""
    return _shortest(sys.executable, ("python", "python3"), os.environ.get("PATH", ""), _folder())


def program(name: str) -> str:
    """Returns the shortest name of a program that is installed beside this process's Python."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    if not os.path.exists(beside):
        return name
    return _shortest(beside, (name,), os.environ.get("PATH", ""), _folder())


@functools.lru_cache(maxsize=64)
def _shortest(file: str, names: tuple[str, ...], path: str, folder: str) -> str:
    if not file:  # embedded in another program
        return names[0]
    for name in names:
        on_path = shutil.which(name, path=path)
        if on_path and _is_same(on_path, file):
            return name
    return shlex.quote(os.path.relpath(file, folder) if _is_below(file, folder) else file)


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.path.sep


def _is_same(file: str, other: str) -> bool:
    """Whether both lie in one folder; a link to a Python elsewhere has other packages."""
    return os.path.realpath(os.path.dirname(file)) == os.path.realpath(os.path.dirname(other))


def _is_below(file: str, folder: str) -> bool:
    below = os.path.join(os.path.abspath(folder), "")
    return below != os.path.sep and os.path.abspath(file).startswith(below)
