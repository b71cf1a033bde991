"""Downloads the data that tasks need: ``python -m nalu_ray.data mnist``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from nalu_ray.data import mnist
from nalu_ray.sweep import stdio

DONE, FAILED, INTERRUPTED = 0, 1, 130
_EPILOG = f"""\
Files go to the folder in {mnist.VARIABLE} (default: the user's cache).
exit codes: 0 data present and verified, 1 could not be downloaded, 2 wrong usage, 130 Ctrl-C
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(
        "python -m nalu_ray.data",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=["mnist"], help="data set")
    parser.parse_args(argv)
    with stdio.lasting():
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
        return FAILED
    except KeyboardInterrupt:
        print("interrupted: complete files are kept; rerun the command to resume", file=sys.stderr)
        return INTERRUPTED
    return DONE


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
