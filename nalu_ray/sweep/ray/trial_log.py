"""What a trial writes to its log: the dashboard shows it on the page of the trial's task."""

from __future__ import annotations

import os
import platform
import sys
import textwrap
import time
from collections.abc import Callable

from nalu_ray.errors import printable
from nalu_ray.sweep.dispatch import Report, TrialSpec
from nalu_ray.sweep.progress import by_reason, describe_figures, describe_time

SECONDS = 5.0
WIDTH = 120


class TrialLog:
    """Writes a trial's start, progress, warnings and end to standard error.

    The dashboard opens a task's page with standard error.

    Args:
        spec: the trial.
        seconds: minimum time between two lines of progress, in seconds.
        clock: returns seconds since any fixed time.
    """

    def __init__(
        self,
        spec: TrialSpec,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec, self.seconds, self.clock = spec, seconds, clock
        self._before: tuple[float, int] | None = None  # time and step of the last line

    def started(self) -> None:
        """Writes what the trial is and where it runs."""
        spec = self.spec
        setting = spec.setting.model_dump(mode="json")
        words = " ".join(f"{name}={value}" for name, value in setting.items())
        cores = f"{spec.threads} thread" + ("s" if spec.threads > 1 else "")
        self._write(f"trial: {spec.label}")
        for line in textwrap.wrap(f"setting {spec.setting_id}: {words}", WIDTH):
            self._write(line)
        self._write(f"{len(spec.seeds):,} seeds, {spec.steps:,} steps each; rows: {spec.out}")
        self._write(f"node {platform.node()}, process {os.getpid()}, {cores}, {spec.gpus:g} GPU")

    def report(self, report: Report) -> None:
        """Writes a line of progress if it is due, and warnings and the end at once."""
        for message in report.messages:
            self._write(f"warning: {message}")
        if report.done:
            self._ended(report)
            return
        now = self.clock()
        if self._before is None:
            if report.resumed:
                self._write(f"resumed from step {report.resumed:,}")
        elif now - self._before[0] < self.seconds:
            return
        self._write(self._progress(report, now))
        self._before = now, report.step

    def failed(self, traceback: str) -> None:
        """Writes the traceback of the error that ended the trial."""
        for line in traceback.rstrip().splitlines():
            self._write(line)

    def _progress(self, report: Report, now: float) -> str:
        # no per cent sign: the dashboard colours what follows one as a comment
        parts = [f"step {report.step:,} of {report.steps:,}"]
        if self._before is not None and now > self._before[0]:
            rate = (report.step - self._before[1]) / (now - self._before[0])
            parts.append(f"{rate * len(self.spec.seeds):,.0f} seed-steps/s")
            if rate > 0:
                parts.append(f"{describe_time((report.steps - report.step) / rate)} left")
        return ", ".join(parts) + describe_figures(report.shown)

    def _ended(self, report: Report) -> None:
        good = len(self.spec.seeds) - len(report.failed)
        self._write(
            f"done in {describe_time(report.seconds)}: {good:,} of {len(self.spec.seeds):,} seeds "
            f"completed{describe_figures(report.shown)}"
        )
        for seeds, reason in by_reason(report.failed):
            listed = ", ".join(map(str, seeds[:10])) + (", ..." if len(seeds) > 10 else "")
            self._write(f"failed: seeds {listed}: {reason}")

    def _write(self, text: str) -> None:
        moment = time.strftime("%H:%M:%S")
        print(f"{moment} {printable(text)}", file=sys.stderr, flush=True)
