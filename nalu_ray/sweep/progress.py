"""The console output while a sweep runs: one live line, or a plain line from time to time."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nalu_ray.errors import printable
from nalu_ray.sweep.pace import Pace, Work
from nalu_ray.sweep.plan import Plan, describe_seeds
from nalu_ray.sweep.trial import Report, TrialSpec

PLAIN_SECONDS = 30.0
PLAIN_SHARE = 1 / 20  # of the time so far, between two lines of a long sweep
_BAR = (8, 28)  # columns
_TRACEBACK = re.compile(r" \(traceback: .*\)$", re.DOTALL)


class Board:
    """Counts and shows what trials report.

    Args:
        console: a terminal gets a live line, any other output a line every thirty seconds or less
            often.
        plan: the plan that runs.
        quiet: show only failures and warnings.
        clock: returns seconds since any fixed time.
        today: returns the date and time of day.
    """

    def __init__(
        self,
        console: Console,
        plan: Plan,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.console, self.plan, self.quiet = console, plan, quiet
        self.clock, self.today = clock, today
        self.running: dict[str, tuple[TrialSpec, int]] = {}
        self.earlier: dict[str, int] = {}  # steps of seeds before this command
        self.trials_done = self.trials_failed = self.seeds_done = self.seeds_failed = 0
        self.finished_steps = 0
        self.last = ""
        self.costs = Costs()
        self.pace = Pace(works(plan), plan.slots, clock)
        self._began = self._told = self._estimated = clock()
        self._left: float | None = None
        self._steps_told = 0
        self._at_work = False
        self._known: set[str] = set()
        live = console.is_terminal and not quiet
        self._live = (
            Live(get_renderable=self._line, console=console, transient=True) if live else None
        )

    def __enter__(self) -> Board:
        self._began = self._told = self.clock()
        self.costs = Costs([self._began] * self.plan.slots)
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()
        if self.plan.startup and self.costs.between:
            self.plan.speeds.record_start(trial=self.costs.gap)
        self.plan.speeds.save()

    # -- events ------------------------------------------------------------------------------

    def started(self, key: str, spec: TrialSpec) -> None:
        """Records that a trial has started."""
        if key not in self.running:
            self.costs.start(key, self.clock())
        self.pace.started(spec.key)
        self.running[key] = (spec, 0)
        self.tick()

    def report(self, key: str, spec: TrialSpec, report: Report) -> None:
        """Records a trial's report.

        Args:
            key: names the trial among those that run.
            spec: the trial.
            report: what it reports.
        """
        for message in report.messages:
            self.note(f"warning: {message} (in {spec.label})", message)
        self.running[key] = (spec, report.step)
        self.earlier[key] = report.resumed * len(spec.seeds)
        self._measure(spec, report)
        if report.shown or report.done:
            self.last = f"{spec.label}{describe_figures(report.shown)}"
        if report.done:
            self._done(key, spec, report)
        self.tick()

    def resumed(self, key: str, spec: TrialSpec, reason: str) -> None:
        """Records that a trial's worker was lost and that the trial waits to resume.

        Args:
            key, spec: the trial.
            reason: why the worker was lost, for people to read.
        """
        if self.running.pop(key, None):
            self.costs.lost(key, self.clock())
        self.pace.lost(spec.key)
        self.note(
            f"lost the worker of {spec.label}; resuming from its last state: {reason}", reason
        )

    def note(self, text: str, cause: str | None = None) -> None:
        """Prints a line above the live one, once per ``cause`` (default: the line itself).

        Args:
            text: the line.
            cause: what lines of one cause share; numbers and paths in it are ignored.
        """
        pattern = kind_of(text if cause is None else cause)
        if pattern not in self._known:
            self._known.add(pattern)
            self.console.print(Text(printable(text, keep="\n")), soft_wrap=True)

    def tick(self) -> None:
        """Estimates the time left, and prints a plain line if it is due."""
        now = self.clock()
        if now - self._estimated >= 1.0 or self._left is None or not self.running:
            self._estimated, self._left = now, self.pace.left(self.costs.gap)
        every = max(PLAIN_SECONDS, PLAIN_SHARE * (now - self._began))
        if self._live or self.quiet or now - self._told < every:
            return
        text = self._plain(now)
        self._told = now
        self.console.print(text, soft_wrap=True)

    def _measure(self, spec: TrialSpec, report: Report) -> None:
        last = (spec.key, report.step, report.seconds, report.resumed)
        if report.done:
            self.pace.ended(*last)
        else:
            self.pace.reported(*last)
        if report.done and not report.failed:
            self.plan.speeds.record(self.plan.task, spec, report.seconds)
        if self.plan.startup and not self._at_work and report.seconds and not report.resumed:
            worker = max(0.0, self.clock() - self._began - report.seconds)
            self.plan.speeds.record_start(worker=worker)
        self._at_work |= report.seconds > 0

    def _done(self, key: str, spec: TrialSpec, report: Report) -> None:
        self.running.pop(key)
        self.costs.end(key, self.clock(), report.seconds)
        self.trials_done += 1
        self.trials_failed += bool(report.failed)
        self.seeds_failed += len(report.failed)
        self.seeds_done += len(spec.seeds) - len(report.failed)
        self.finished_steps += spec.steps * len(spec.seeds)
        for seeds, reason in by_reason(report.failed):
            self.note(f"failed: {self._name(spec, seeds)}: {reason}", reason)

    def _name(self, spec: TrialSpec, seeds: Sequence[int]) -> str:
        return f"{self.plan.labels[spec.setting_id]} {describe_seeds(seeds)}"

    # -- text --------------------------------------------------------------------------------

    def _plain(self, now: float) -> Text:
        steps = self.finished_steps - sum(self.earlier.values())
        steps += sum(step * len(spec.seeds) for spec, step in self.running.values())
        rate = max(0, steps - self._steps_told) / max(now - self._told, 1e-9)
        self._steps_told = steps
        plan = self.plan
        parts = [
            # no per cent sign: the dashboard colours what follows one as a comment of Prolog
            f"{describe_elapsed(now - self._began)}: {100 * self.pace.share:.0f} percent, "
            f"{self._counts()}, {len(self.running)} running",
            f"{self.seeds_done:,}/{plan.seeds:,} seeds, {self.seeds_failed:,} failed",
            f"{rate:,.0f} {plan.task.unit}/s",
            self._time_left(),
        ]
        if self.last:
            parts.append(f"last: {self.last}")
        return Text("; ".join(parts))

    def _line(self) -> Table:
        """Returns the live line: as wide as the terminal at most."""
        text = f"{100 * self.pace.share:3.0f} %  {self._counts()}"
        if self.seeds_failed:
            text += f", {self.seeds_failed:,} seed{'s' * (self.seeds_failed > 1)} failed"
        text += f", {self._time_left()}"
        low, high = _BAR
        width = self.console.width - 1
        bar = min(high, max(low, width - len(text) - 1))
        if self.last and width - bar - 1 - len(text) > len("; ") + low:
            text += f"; {self.last}"
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_column(width=bar)
        line.add_column(no_wrap=True, overflow="ellipsis", max_width=max(1, width - bar - 1))
        line.add_row(ProgressBar(1.0, self.pace.share, width=bar), Text(text))
        return line

    def _counts(self) -> str:
        return f"{self.trials_done:,}/{len(self.plan.trials):,} trials"

    def _time_left(self) -> str:
        if self.trials_done == len(self.plan.trials):
            return "done"
        if self._left is None:
            return "measuring the speed" if self._at_work else "starting"
        left = max(0.0, self._left - (self.clock() - self._estimated))
        return f"{describe_time(left)} left, ends about {describe_end(self.today(), left)}"


def works(plan: Plan) -> list[Work]:
    """Returns a plan's trials as the estimate of the time left needs them."""
    axes = plan.task.axes[:1]
    return [
        Work(spec.key, spec.steps, seconds, str([getattr(spec.setting, name) for name in axes]))
        for spec, seconds in zip(plan.trials, plan.expected, strict=True)
    ]


class Costs:
    """The overhead of trials: waiting for a worker, its start, and passing results on.

    Args:
        free_since: per slot, the time since which it has been idle.
    """

    def __init__(self, free_since: list[float] | None = None) -> None:
        self.free_since = free_since or []
        self.began: dict[str, float] = {}
        self.work = self.overhead = 0.0
        self.trials = 0
        self.between: list[float] = []  # overhead of trials beside the first ones
        self._slots = len(self.free_since)
        self._started = 0
        self._first: set[str] = set()
        self._idle: dict[str, float] = {}

    def start(self, key: str, now: float) -> None:
        """Records that a slot starts a trial.

        Args:
            key: names the trial.
            now: the time, in seconds.
        """
        if self.free_since:
            self._idle[key] = now - self.free_since.pop(0)
            self.overhead += self._idle[key]
        self.began[key] = now
        self._started += 1
        if self._started <= self._slots:
            self._first.add(key)

    def lost(self, key: str, now: float) -> None:
        """Records that a slot has lost a trial, which starts again later."""
        self.began.pop(key, None)
        self.free_since.append(now)

    def end(self, key: str, now: float, seconds: float) -> None:
        """Records that a slot has finished a trial with so many seconds of work."""
        waited = max(0.0, now - self.began.pop(key, now) - seconds)
        self.overhead += waited
        if key not in self._first:
            self.between.append(self._idle.pop(key, 0.0) + waited)
        self.work += seconds
        self.trials += 1
        self.free_since.append(now)

    @property
    def gap(self) -> float:
        """Overhead of a slot per trial, in seconds, not counting the slot's first trial."""
        return statistics.median(self.between) if self.between else 0.0

    def describe(self) -> str:
        """Returns a line about the overhead."""
        share = 100 * self.overhead / max(self.work + self.overhead, 1e-9)
        each = self.overhead / max(self.trials, 1)
        return (
            f"overhead, worker start included: {each:.2f} s per trial, {share:.1f} % of "
            f"{self.work + self.overhead:.1f} slot-seconds ({self.trials} trials)"
        )


def kind_of(reason: str) -> str:
    """Returns a reason without numbers and paths, equal for failures of one cause."""
    return re.sub(r"\d+", "#", _TRACEBACK.sub("", reason))


def by_reason(failed: Mapping[int, str]) -> list[tuple[list[int], str]]:
    """Returns, per cause, the failed seeds and the reason of the first one."""
    grouped: dict[str, list[int]] = {}
    for seed, reason in failed.items():
        grouped.setdefault(kind_of(reason), []).append(seed)
    return [(seeds, failed[seeds[0]]) for seeds in grouped.values()]


def describe_figures(shown: Mapping[str, float]) -> str:
    """Returns ``: interpolation 1.2e-05, extrapolation 0.31``, or nothing."""
    figures = ", ".join(f"{name} {value:.3g}" for name, value in shown.items())
    return f": {figures}" if figures else ""


def describe_time(seconds: float) -> str:
    """Returns ``42 s``, ``15 min`` or ``3.2 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def describe_elapsed(seconds: float) -> str:
    """Returns ``42 s``, ``2:05 min`` or ``3:02 h``: lines 30 s apart, or 5 % of it, differ."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


def describe_end(now: datetime, left: float) -> str:
    """Returns the time of day after ``left`` seconds: ``16:42``, ``Tue 16:42`` or ``12 Dec 2026``.

    Args:
        now: date and time of day.
        left: seconds from now; from 1e9 on, it is ``never``.
    """
    if left >= 1e9:
        return "never"
    end = now + timedelta(seconds=left)
    if left < 20 * 3600:
        return f"{end:%H:%M}"
    return f"{end:%a %H:%M}" if left < 6 * 86400 else f"{end:%d %b %Y}"
