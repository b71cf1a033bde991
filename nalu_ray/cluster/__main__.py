"""Checks cluster files before `ray up`: fields, versions, open ports, the token, secrets."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nalu_ray.cluster.check import check
from nalu_ray.command.exits import Exit, guarded
from nalu_ray.command.words import Parser
from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.results.store import paths

_EXAMPLES = """\
examples:
  python -m nalu_ray.cluster check cluster.yaml
  python -m nalu_ray.cluster check cluster.yaml cluster/on_premise.yaml
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:
        raise ConfigError([_parser().unknown(word) for word in unknown])
    if arguments.command != "check":
        raise ConfigError([did_you_mean("command", arguments.command, ["check"])])
    mistakes = []
    for path in arguments.files:
        checked = check(path, allow_open=arguments.allow_open)
        mistakes += [f"{path}: {line}" for line in checked.mistakes]
        for line in checked.lines():
            print(f"{path}: {line}")
    if mistakes:
        raise ConfigError(mistakes)
    return Exit.DONE


def _parser() -> Parser:
    parser = Parser("python -m nalu_ray.cluster", __doc__ or "", _EXAMPLES)
    add = parser.add_argument
    add("command", help="check: list the mistakes in the files")
    add("files", nargs="+", type=paths.file, metavar="FILE", help="cluster file for `ray up`")
    add("-h", "--help", action="help", help="print this help")
    add(
        "--allow-open",
        action="store_true",
        help="accept dashboards and security groups that are open to the world",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
