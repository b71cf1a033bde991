"""Downloads the data that tasks need, and verifies it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from nalu_ray.command.exits import Exit, guarded
from nalu_ray.command.words import Parser
from nalu_ray.data import mnist
from nalu_ray.errors import ConfigError, did_you_mean

SETS = ("mnist",)
_EPILOG = f"""\
example:
  python -m nalu_ray.data mnist
      download MNIST and check it; files that are there already are not downloaded again

Files go to the folder in {mnist.VARIABLE} (default: the user's cache).
exit codes: 0 data present and verified, 1 could not be downloaded, 2 wrong usage, 130 Ctrl-C
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    parser = Parser("python -m nalu_ray.data", __doc__ or "", _EPILOG)
    parser.add_argument("name", nargs="?", default="", help=f"data set: {', '.join(SETS)}")
    parser.add_argument("-h", "--help", action="help", help="print this help")
    arguments, unknown = parser.parse_known_args(argv)
    mistakes = [
        parser.unknown(word) if word[:1] == "-" else f"'{word}': one data set at a time"
        for word in unknown
    ]
    if not arguments.name:
        mistakes.append(f"no data set given; choose from: {', '.join(SETS)}")
    elif arguments.name not in SETS:
        mistakes.append(did_you_mean("data set", arguments.name, SETS))
    if mistakes:
        raise ConfigError(mistakes)
    return _fetch()


def _fetch() -> int:
    try:
        with _Bars() as bars:
            folder = mnist.fetch(report=bars.report)
        print(folder)
        for name, train in (("train", True), ("test", False)):
            labels = mnist.load(train).labels
            counts = " ".join(map(str, labels.bincount(minlength=10).tolist()))
            print(f"{name:5}  {len(labels)} images; per digit 0 to 9: {counts}")
    except mnist.DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return Exit.FAILED_SEEDS
    except KeyboardInterrupt:
        print("interrupted: complete files are kept; rerun the command to resume", file=sys.stderr)
        return Exit.INTERRUPTED
    return Exit.DONE


class _Bars(Progress):
    """A bar per file, and one without end for an activity of unknown length."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        super().__init__(*columns, console=Console(stderr=True))

    def report(self, activity: str, done: int, of: int) -> None:
        for task in self.tasks:
            if task.total is None and task.description != activity:
                self.remove_task(task.id)
        known = {task.description: task.id for task in self.tasks}
        bar = known[activity] if activity in known else self.add_task(activity, total=None)
        self.update(bar, completed=done, total=of or None)


if __name__ == "__main__":
    sys.exit(main())
