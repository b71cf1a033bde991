"""The time left of a sweep, estimated from the recent speed of its trials.

Each trial has an expected duration beforehand (:func:`nalu_ray.sweep.speeds.expected`). Trials that
have run show how far off the expectation is. A running trial is corrected by its own recent
reports. A waiting trial is corrected by the trials of its group (of its layer, say) or, if there
are none, by all trials. The trials are then distributed over the slots.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

WORK_SECONDS = 2.0
"""Work that the first estimate needs, without the first report of each trial."""
FIRST_SECONDS = 20.0
"""Seconds of work after which the first reports must do."""
WITHIN_TRIAL = 30.0  # half-life of a trial's reports, in seconds of its work
BETWEEN_TRIALS = 180.0  # half-life of finished trials
SILENT_SECONDS = 20.0  # a trial that reports nothing for longer counts as slower
LIKE_TRIALS = (
    0.1  # share of a trial's expected seconds for which the speed of similar trials counts
)
LIKE_SECONDS = 10.0  # but for no longer than this


@dataclass(frozen=True)
class Work:
    """A trial: its steps, the seconds that it is expected to take, and a group of similar speed."""

    key: str
    steps: int
    seconds: float
    group: str = ""


@dataclass
class Recent:
    """Spent and expected seconds of the same work; older work counts less."""

    half_life: float
    spent: float = 0.0
    planned: float = 0.0
    at: float = 0.0

    def add(self, spent: float, planned: float, at: float) -> None:
        """Adds work that ended at a time.

        Args:
            spent: seconds that the work took.
            planned: seconds that it was expected to take.
            at: time of its end, in seconds since any fixed time.
        """
        fading = 0.5 ** (max(0.0, at - self.at) / self.half_life)
        self.spent = self.spent * fading + spent
        self.planned = self.planned * fading + planned
        self.at = at


@dataclass
class Running:
    """A trial that runs.

    Attributes:
        work: the trial.
        started: time of its start.
        first, last: its first and last report, as step, seconds of work and time.
        start: spent and expected seconds of the first report, which has the slow start of a trial.
        recent: its own speed since then.
    """

    work: Work
    started: float
    first: tuple[int, float, float] | None = None
    last: tuple[int, float, float] | None = None
    start: tuple[float, float] = (0.0, 0.0)
    recent: Recent = field(default_factory=lambda: Recent(WITHIN_TRIAL))

    def report(self, step: int, seconds: float, now: float, resumed: int) -> None:
        """Takes a report; what a resumed trial did before is not counted.

        Args:
            step: steps so far.
            seconds: seconds of work so far.
            now: time of the report, in seconds on the clock of :class:`Pace`.
            resumed: the step from which the trial resumed; 0 for a fresh start.
        """
        if self.first is None:
            self.first = (step, seconds, now)
            self.start = (seconds, self.planned(step)) if step > resumed == 0 else (0.0, 0.0)
        elif self.last and step > self.last[0]:
            before, spent, _ = self.last
            self.recent.add(max(0.0, seconds - spent), self.planned(step - before), seconds)
        else:  # a step that takes long, or a restart: its time counts once the next one is there
            return
        self.last = (step, seconds, now)

    def planned(self, steps: int) -> float:
        """Returns the expected seconds of so many steps."""
        return self.work.seconds * steps / max(1, self.work.steps)

    def left(self, ratio: float, now: float) -> float:
        """Returns the seconds to its end.

        Args:
            ratio: spent by expected seconds, as measured in similar trials.
            now: the time, in seconds on the clock of :class:`Pace`.
        """
        step, _, at = self.last or (0, 0.0, now)
        planned, silent = self.planned(self.work.steps - step), now - at
        quiet = silent if silent > SILENT_SECONDS else 0.0
        # a pause after a few steps says little about the rest
        like = min(LIKE_SECONDS, LIKE_TRIALS * self.work.seconds)
        if self.recent.planned + like > 0:
            spent = self.recent.spent + quiet + ratio * like
            ratio = spent / (self.recent.planned + like)
        return planned * ratio if quiet else max(0.0, planned * ratio - silent)


class Pace:
    """Estimates the time left.

    Args:
        works: the trials, in the order in which they start.
        slots: number of trials at a time.
        clock: returns seconds since any fixed time.
    """

    def __init__(self, works: Iterable[Work], slots: int, clock: Callable[[], float]) -> None:
        self.waiting = {work.key: work for work in works}
        self.slots, self.clock = slots, clock
        self.running: dict[str, Running] = {}
        self.total = sum(work.seconds for work in self.waiting.values())
        self.ended_seconds = 0.0
        self._ended: dict[str, Recent] = {}
        self._has_begun = False
        self._work_began = math.inf

    def started(self, key: str) -> None:
        """Records that a trial has started, or has been started again."""
        work = self.waiting.pop(key, None)
        if work is None and key in self.running:
            work = self.running[key].work
        if work is not None:
            self.running[key] = Running(work, self.clock())

    def lost(self, key: str) -> None:
        """Records that a trial has lost its worker and waits to start again."""
        trial = self.running.pop(key, None)
        if trial is not None:
            self.waiting[key] = trial.work

    def reported(self, key: str, step: int, seconds: float, resumed: int = 0) -> None:
        """Records a report.

        Args:
            key: the trial.
            step: its last step.
            seconds: its work so far, without the start of its process.
            resumed: the step from which it resumed.
        """
        if key in self.running:
            now = self.clock()
            self._work_began = min(self._work_began, now - (0.0 if resumed else seconds))
            self.running[key].report(step, seconds, now, resumed)

    def ended(self, key: str, step: int, seconds: float, resumed: int = 0) -> None:
        """Records the last report of a trial.

        Args:
            key, step, seconds, resumed: as for :meth:`reported`.
        """
        trial = self.running.pop(key, None)
        if trial is None:
            return
        work = trial.work
        self.ended_seconds += work.seconds
        before, spent, _ = trial.first if resumed and trial.first else (0, 0.0, 0.0)
        if step > before and (trial.first or not resumed):
            ended = self._ended.setdefault(work.group, Recent(BETWEEN_TRIALS))
            ended.add(max(0.0, seconds - spent), trial.planned(step - before), self.clock())

    @property
    def share(self) -> float:
        """The part of the expected work that is done, from 0 to 1."""
        running = sum(trial.planned(trial.last[0]) for trial in self.running.values() if trial.last)
        return min(1.0, (self.ended_seconds + running) / self.total) if self.total else 1.0

    def left(self, gap: float = 0.0) -> float | None:
        """Returns the seconds to the end of all trials; None before there is work to judge by.

        Args:
            gap: seconds between two trials of a slot.
        """
        now = self.clock()
        ratios, overall, spent = self._ratios(now)
        if spent < WORK_SECONDS and not self._has_begun:
            if now - self._work_began < FIRST_SECONDS:
                return None
            ratios, overall, spent = self._ratios(now, starts=True)
        self._has_begun |= spent >= WORK_SECONDS
        if not spent:
            return None
        ends = [
            trial.left(ratios.get(trial.work.group, overall), now)
            for trial in self.running.values()
        ]
        ends += [0.0] * (self.slots - len(ends))
        heapq.heapify(ends)
        for work in self.waiting.values():
            seconds = work.seconds * ratios.get(work.group, overall)
            heapq.heapreplace(ends, ends[0] + gap + seconds)
        return max(ends)

    def _ratios(self, now: float, starts: bool = False) -> tuple[dict[str, float], float, float]:
        """Returns spent over expected seconds per group and overall, and the seconds spent.

        Args:
            now: the time.
            starts: count the first report of each trial, too.
        """
        sums: dict[str, tuple[float, float]] = {}
        for group, ended in self._ended.items():
            fading = 0.5 ** ((now - ended.at) / ended.half_life)
            sums[group] = (ended.spent * fading, ended.planned * fading)
        for trial in self.running.values():
            spent, planned = sums.get(trial.work.group, (0.0, 0.0))
            first = trial.start if starts else (0.0, 0.0)
            spent += trial.recent.spent + first[0]
            sums[trial.work.group] = (spent, planned + trial.recent.planned + first[1])
        ratios = {group: spent / planned for group, (spent, planned) in sums.items() if planned > 0}
        spent = sum(spent for spent, _ in sums.values())
        planned = sum(planned for _, planned in sums.values())
        return ratios, spent / planned if planned > 0 else 1.0, spent
