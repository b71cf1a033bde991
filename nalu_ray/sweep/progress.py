"""The console output while a sweep runs: one live line, or a plain line from time to time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from nalu_ray.errors import printable
from nalu_ray.sweep.plan import Plan, describe_seeds
from nalu_ray.sweep.trial import Report, TrialSpec

PLAIN_SECONDS = 10.0
_TRACEBACK = re.compile(r" \(traceback: .*\)$", re.DOTALL)


class Board:
    """Counts and shows what trials report.

    Args:
        console: a terminal gets a live line, any other output one line every ten seconds.
        plan: the plan that runs.
        quiet: show only failures and warnings.
        clock: returns seconds since any fixed time.
    """

    def __init__(
        self,
        console: Console,
        plan: Plan,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console, self.plan, self.quiet, self.clock = console, plan, quiet, clock
        self.running: dict[str, tuple[TrialSpec, int]] = {}
        self.earlier: dict[str, int] = {}  # steps of seeds before this command
        self.trials_done = self.trials_failed = self.seeds_done = self.seeds_failed = 0
        self.finished_steps = 0
        self.last = ""
        self.costs = Costs()
        self._began = self._told = clock()
        self._known: set[str] = set()
        live = console.is_terminal and not quiet
        self._live = (
            Live(get_renderable=self._text, console=console, transient=True) if live else None
        )

    def __enter__(self) -> Board:
        self._began = self._told = self.clock()
        self.costs = Costs([self._began] * self.plan.slots)
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    # -- events ------------------------------------------------------------------------------

    def started(self, key: str, spec: TrialSpec) -> None:
        """Records that a trial has started."""
        if key not in self.running:
            self.costs.start(key, self.clock())
        self.running[key] = (spec, 0)
        self.tick()

    def report(self, key: str, spec: TrialSpec, report: Report) -> None:
        """Records a trial's report."""
        for message in report.messages:
            self.note(f"warning: {message} (in {spec.label})", message)
        self.running[key] = (spec, report.step)
        self.earlier[key] = report.resumed * len(spec.seeds)
        if report.shown or report.done:
            self.last = f"{spec.label}{describe_figures(report.shown)}"
        if report.done:
            self._done(key, spec, report)
        self.tick()

    def resumed(self, key: str, spec: TrialSpec, reason: str) -> None:
        """Records that a trial's worker was lost and that the trial resumes."""
        self.note(
            f"lost the worker of {spec.label}; resuming from its last state: {reason}", reason
        )

    def note(self, text: str, kind: str | None = None) -> None:
        """Prints a line above the live one, once per ``kind`` (default: the line itself)."""
        pattern = kind_of(text if kind is None else kind)
        if pattern not in self._known:
            self._known.add(pattern)
            self.console.print(Text(printable(text, keep="\n")), soft_wrap=True)

    def tick(self) -> None:
        """Prints a plain line if it is due."""
        now = self.clock()
        if self._live or self.quiet or now - self._told < PLAIN_SECONDS:
            return
        self._told = now
        self.console.print(self._text(), soft_wrap=True)

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

    def _text(self) -> Text:
        plan, elapsed = self.plan, self.clock() - self._began
        steps = self.finished_steps
        steps += sum(step * len(spec.seeds) for spec, step in list(self.running.values()))
        rate = (steps - sum(self.earlier.values())) / elapsed if elapsed > 0 else 0.0
        parts = [
            f"{describe_time(elapsed)}: {self.trials_done}/{len(plan.trials)} trials, "
            f"{len(self.running)} running, {self.trials_failed} with failures",
            f"{self.seeds_done:,}/{plan.seeds:,} seeds, {self.seeds_failed:,} failed",
            f"{rate:,.0f} {plan.task.unit}/s",
        ]
        if rate:
            parts.append(f"{describe_time((plan.seed_steps - steps) / rate)} left")
        if self.last:
            parts.append(f"last: {self.last}")
        return Text("; ".join(parts))


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

    def start(self, key: str, now: float) -> None:
        """Records that a slot starts a trial."""
        if self.free_since:
            self.overhead += now - self.free_since.pop(0)
        self.began[key] = now

    def end(self, key: str, now: float, seconds: float) -> None:
        """Records that a slot has finished a trial with so many seconds of work."""
        self.overhead += max(0.0, now - self.began.pop(key, now) - seconds)
        self.work += seconds
        self.trials += 1
        self.free_since.append(now)

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
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
