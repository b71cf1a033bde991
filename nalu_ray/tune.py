"""``python -m nalu_ray.tune <task>``: runs a task's sweep and prints its table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nalu_ray.command import words as cli
from nalu_ray.command.exits import Exit, guarded
from nalu_ray.command.flags import parser
from nalu_ray.sweep.warnings import WarningRelay

_PRINTS = {"-h", "--help", "--list", "--print-config", "--dry-run"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    words = list(sys.argv[1:] if argv is None else argv)
    # a sweep's exit code tells of its seeds, whatever becomes of what it prints
    return guarded(lambda: _main(words), printed=not _PRINTS.isdisjoint(words))


def _main(argv: list[str]) -> int:
    # from the start, so that warnings of another package's units are passed on as they load
    with WarningRelay(lambda text: print(f"warning: {text}", file=sys.stderr)):
        return _command(argv)


def _command(argv: list[str]) -> int:
    options, unknown = parser().parse_known_intermixed_args(argv)
    if options.help and cli.task_and_words(options.words)[0] is None:
        print(parser().format_help())
        return Exit.DONE
    from nalu_ray.command import tuning  # noqa: PLC0415 (slow to load; the help needs none of it)

    return tuning.answer(options, unknown, argv)


if __name__ == "__main__":
    sys.exit(main())
