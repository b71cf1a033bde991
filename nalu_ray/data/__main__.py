"""Fetches data that tasks need, and prints the counts: ``python -m nalu_ray.data mnist``."""

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
The files go to the folder that {mnist.VARIABLE} names, or else to the user's cache.
exit codes: 0 there and right, 1 not to be had, 2 bad usage, 130 Ctrl-C
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(
        "python -m nalu_ray.data",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=["mnist"], help="what to fetch")
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
            print(f"{name:5}  {len(labels)} images; of the digits 0 to 9: {counts}")
    except mnist.DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted: whole files stay; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    return DONE


class _Bars(Progress):
    """A bar for each file, and for what takes unknown time while it does."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        super().__init__(*columns, console=Console(stderr=True))

    def report(self, what: str, done: int, of: int) -> None:
        for task in self.tasks:
            if task.total is None and task.description != what:
                self.remove_task(task.id)
        known = {task.description: task.id for task in self.tasks}
        bar = known[what] if what in known else self.add_task(what, total=None)
        self.update(bar, completed=done, total=of or None)


if __name__ == "__main__":
    sys.exit(main())
