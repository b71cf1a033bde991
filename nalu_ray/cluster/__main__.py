"""Checks cluster files before `ray up`: schema, versions, open ports, secrets, misspelt keys."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nalu_ray.cluster.check import check
from nalu_ray.command.words import Exit, Parser, guarded
from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.results.store import paths

_EXAMPLES = """\
examples:
  python -m nalu_ray.cluster check cluster.yaml
  python -m nalu_ray.cluster check cluster.yaml cluster/on_premise.yaml
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.words.Exit`."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:
        raise ConfigError([_parser().unknown(word) for word in unknown])
    if arguments.command != "check":
        raise ConfigError([did_you_mean("command", arguments.command, ["check"])])
    mistakes = []
    for path in arguments.files:
        found = check(path, allow_open=arguments.allow_open)
        mistakes += [f"{path}: {line}" for line in found.mistakes]
        for line in [*found.notes, *([] if found.mistakes else [f"ok: {found.summary}"])]:
            print(f"{path}: {line}")
    if mistakes:
        raise ConfigError(mistakes)
    return Exit.DONE


def _parser() -> Parser:
    parser = Parser("python -m nalu_ray.cluster", __doc__ or "", _EXAMPLES)
    add = parser.add_argument
    add("command", help="check")
    add("files", nargs="+", type=paths.file, metavar="FILE", help="what `ray up` takes")
    add("-h", "--help", action="help", help="print this help")
    add(
        "--allow-open",
        action="store_true",
        help="accept a dashboard on every address, and groups that are open to the world",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
