"""The commands under one name: ``nalu-ray tune static`` or ``python -m nalu_ray tune static``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from nalu_ray import __version__
from nalu_ray.input import invocation

COMMANDS = {
    "tune": ("nalu_ray.tune", "run a task's sweep and print its tables"),
    "report": ("nalu_ray.report", "print and write tables and figures of stored rows"),
    "watch": ("nalu_ray.watch", "watch a trained agent play"),
    "predict": ("nalu_ray.predict", "ask a trained network"),
    "results": ("nalu_ray.results.__main__", "merge row files into one"),
    "data": ("nalu_ray.data.__main__", "download the data that tasks need"),
    "cluster": ("nalu_ray.cluster.__main__", "check cluster files before `ray up`"),
    "completion": ("nalu_ray.command.completion", "print the completion script of a shell"),
}
"""Module and help of each command."""

USAGE = """\
usage: {name} COMMAND ...

{commands}

{name} COMMAND --help describes a command, and --version prints the version.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        code: int = importlib.import_module(COMMANDS[words[0]][0]).main(words[1:])
        return code
    from nalu_ray.command.exits import guarded  # noqa: PLC0415 (a command does it itself)

    return guarded(lambda: _answer(words))


def _answer(words: Sequence[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"nalu-ray {__version__}")
        return 0
    if words[:1] in (["-h"], ["--help"]):
        print(_usage(), end="")
        return 0
    from nalu_ray.errors import did_you_mean  # noqa: PLC0415 (only for a mistake)

    mistake = did_you_mean("command", words[0], COMMANDS) if words else "no command given"
    print(f"error: {mistake}" if words else f"error: {mistake}\n\n{_usage()}", file=sys.stderr)
    return 2


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {about}" for name, (_, about) in COMMANDS.items()]
    name = invocation.every_command()
    same = f"{invocation.interpreter()} -m nalu_ray"
    usage = USAGE.format(name=name, commands="\n".join(lines))
    return usage if name == same else f"{usage}{same} COMMAND is the same.\n"


if __name__ == "__main__":
    sys.exit(main())
