"""Maintains stored rows: compact merges the row files of a task's trials into one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nalu_ray.command.exits import Exit, guarded
from nalu_ray.command.words import Parser
from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.results.store import paths
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.warnings import WarningRelay

_ACTIONS = ("compact",)
_EXAMPLES = """\
examples:
  python -m nalu_ray.results compact
      one row file per task instead of one per trial; commands start faster
  python -m nalu_ray.results compact static --out s3://bucket/results
      the rows of one task, in an object store

No row, manifest or trained network changes. The command may be stopped at any moment, and sweeps
may run meanwhile.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    options, unknown = _parser().parse_known_args(argv)
    mistakes = [_parser().unknown(word) for word in unknown]
    if options.action not in _ACTIONS:
        mistakes.append(did_you_mean("action", options.action, _ACTIONS))
    store = Store(options.out)
    stored = store.tasks()
    mistakes += [
        did_you_mean("stored task", name, stored) for name in options.tasks if name not in stored
    ]
    if mistakes:
        raise ConfigError(mistakes)
    with WarningRelay(lambda text: print(f"warning: {text}", file=sys.stderr)):
        for name in options.tasks or stored:
            before, after = store.compact(name)
            print(f"{name}: {before:,} row file{'s' * (before != 1)} before, {after:,} after")
    return Exit.DONE


def _parser() -> Parser:
    parser = Parser("python -m nalu_ray.results", __doc__ or "", _EXAMPLES)
    add = parser.add_argument
    add("action", metavar="compact", help="merge the row files of finished trials")
    add("tasks", nargs="*", metavar="task", help="tasks (default: every stored task)")
    add("-h", "--help", action="help", help="print this help")
    add(
        "--out",
        type=paths.place,
        default="results",
        help="folder or URI of the stored rows (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
