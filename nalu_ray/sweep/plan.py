"""The plan: settings x seeds, minus stored seeds, as trials that fit the machine or cluster.

How a setting's missing seeds become trials (the same plan and machine always give the same trials):

1. A trial takes at most ``seeds_per_trial`` seeds; on a GPU more, see
   :func:`nalu_ray.sweep.block_size.widest`.
2. With fewer settings than slots (trials that run at a time), each setting's seeds are spread over
   ``slots // settings`` trials, so that all slots are used.
3. A trial that does not fit the memory of its slot is halved until it does. A block that ran out of
   memory before is halved once more.
4. Blocks of one setting have equal sizes (give or take one); the longest trials start first.
5. Before all that, a block with a saved state becomes a trial again if it still fits.

A seed's numbers do not depend on its block.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nalu_ray.results.analysis.text import spans
from nalu_ray.results.store.rows import OUT_OF_MEMORY
from nalu_ray.results.store.store import Outcome
from nalu_ray.sweep import out_of_memory
from nalu_ray.sweep.block_size import (
    fitting,
    memory_of_a_slot,
    memory_on_a_gpu,
    need,
    slots,
    widest,
)
from nalu_ray.sweep.machine import Capacity
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.speeds import Speeds, expected
from nalu_ray.sweep.trial import TrialSpec
from nalu_ray.task import Task

_RANGES_SHOWN = 4

Stored = Mapping[tuple[str, int], Outcome]
Block = tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """What one command will do.

    Attributes:
        task: the task.
        points: the requested settings and seeds.
        trials: the trials, in the order in which they start.
        slots: number of trials at a time.
        done, failed: stored seeds that completed, and that failed and are not rerun.
        seconds: estimated duration of all trials, the start of Ray included.
        expected: estimated seconds of each trial.
        measured: number of trials whose estimate was measured on this machine.
        startup: estimated seconds to start Ray and its workers; 0 without Ray.
        speeds: measured speeds of the machine, to which those of the trials are added.
        capacity: what the trials run on.
        labels: setting id -> name, for every requested setting.
        other_code, unknown_code: stored seeds whose rows come from other or unknown code.
        anew: setting id and seed of stored seeds that run again: another version of the code made
            their rows.
        codes: setting id -> digest of the source on this machine, for settings with rows.
    """

    task: Task[Any]
    points: tuple[Point, ...]
    trials: tuple[TrialSpec, ...]
    slots: int
    done: int
    failed: int
    seconds: float
    capacity: Capacity
    labels: Mapping[str, str]
    expected: tuple[float, ...]
    measured: int = 0
    startup: float = 0.0
    speeds: Speeds = field(default_factory=Speeds, compare=False)
    other_code: int = 0
    unknown_code: int = 0
    anew: frozenset[tuple[str, int]] = frozenset()
    codes: Mapping[str, str] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """Seeds to run."""
        return sum(len(trial.seeds) for trial in self.trials)

    def describe_code(self) -> list[str]:
        """Returns lines about stored seeds of another version of the code; none if none are."""
        another, unknown = "another version of the code", "an unknown version of the code"
        stored = {another: self.other_code, unknown: self.unknown_code}
        counts = [f"{count:,} from {code}" for code, count in stored.items() if count]
        again = [f"seeds rerun because they come from {another}: {len(self.anew):,}"]
        left = [f"stored seeds: {', '.join(counts)} (--rerun reruns them)"] if counts else []
        return again * bool(self.anew) + left

    def still_old(self, outcome: Outcome) -> bool:
        """Returns whether a seed that should run again still has its old rows."""
        sid = outcome.setting_id
        return (sid, outcome.seed) in self.anew and outcome.code != self.codes[sid]


@dataclass(frozen=True)
class Job:
    """What the command line says beside the points: where rows go and what a trial may use.

    Attributes:
        out: folder or URI of the rows.
        resources: what a trial may use.
        seed_step_microseconds: time per step and seed, for estimates.
        rerun_failed: whether failed seeds run again.
        tried: setting id and seed of what this command has run already; it does not run again.
        started: whether Ray runs already.
        command: the command line.
        commit: of the source, if known.
        kept: setting id and seeds of each saved state.
        preset: name of the preset.
        changes: setting id -> fields that differ from the preset.
        rerun: whether seeds with rows of another version of the code run again.
        codes: setting id -> digest of the source on this machine, for settings with rows.
        local: whether trials run in this process, without Ray.
        speeds: measured speeds of the machine that trials run on.
    """

    out: str
    resources: Resources
    seed_step_microseconds: float
    rerun_failed: bool = False
    command: str = ""
    commit: str | None = None
    kept: Sequence[tuple[str, Block]] = ()
    preset: str = ""
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rerun: bool = False
    codes: Mapping[str, str] = field(default_factory=dict)
    local: bool = False
    speeds: Speeds = field(default_factory=Speeds, compare=False)
    tried: Collection[tuple[str, int]] = frozenset()
    started: bool = False


def make_plan(
    task: Task[Any], points: Sequence[Point], stored: Stored, job: Job, capacity: Capacity
) -> Plan:
    """Returns the plan.

    Args:
        task: the task of the settings.
        points: settings with the requested seeds.
        stored: outcome of each stored seed, by setting id and seed.
        job: what the command line says beside the points.
        capacity: the machines to run on.

    Raises:
        ConfigError: a trial fits on no node; the message has the numbers.
    """
    others = _of_other_code(points, stored, job.codes)
    anew = frozenset(others if job.rerun else ())
    left = {key: outcome for key, outcome in stored.items() if key not in anew}
    missing = {point.setting.id: _missing(point, left, job) for point in points}
    to_do = [point for point in points if missing[point.setting.id]]
    pieces = max(1, slots(capacity, job.resources, memory=0) // max(1, len(to_do)))
    share = memory_of_a_slot(capacity, job.resources)
    on_gpu = memory_on_a_gpu(capacity, job.resources)
    labels = _labels(task, points)
    trials = []
    for point in to_do:
        sid = point.setting.id
        most = min([len(missing[sid]), *_after_oom(point, stored)])
        kept = [block for at, block in job.kept if at == sid and len(block) <= most]
        fits = [block for block in kept if need(task, point, len(block)) <= share]
        begun = list(_begun(fits, missing[sid]))
        seeds = sorted(set(missing[sid]).difference(*begun))
        width = min(widest(job.resources), math.ceil(len(seeds) / pieces), most)
        width = fitting(task, point, width, share, on_gpu)
        dealt = [*begun, *(blocks(seeds, width) if seeds else [])]
        trials += [_spec(task, point, block, labels[sid], job) for block in dealt]
    memory = max((trial.memory for trial in trials), default=0)
    # one size for all, so that a free worker can take any next trial
    sized = [trial.model_copy(update={"memory": memory}) for trial in trials]
    sized.sort(key=lambda trial: -trial.steps * len(trial.seeds))
    most = max(1, min(slots(capacity, job.resources, memory), len(sized)))
    seconds, measured = expected(task, sized, job.seed_step_microseconds, job.speeds)
    starts = job.speeds.starts
    on_ray = bool(sized) and not job.local
    startup = (starts.ray * (not job.started) + starts.worker) * on_ray
    return Plan(
        task=task,
        points=tuple(points),
        trials=tuple(sized),
        slots=most,
        done=_count(points, left, ok=True),
        failed=0 if job.rerun_failed else _count(points, left, ok=False),
        seconds=startup + _makespan([each + starts.trial * on_ray for each in seconds], most),
        capacity=capacity,
        labels=labels,
        expected=seconds,
        measured=measured,
        startup=startup,
        speeds=job.speeds,
        anew=anew,
        codes=job.codes,
        **_counts([outcome for key, outcome in others.items() if key not in anew], job),
    )


def blocks(seeds: Sequence[int], width: int) -> list[tuple[int, ...]]:
    """Cuts seeds into equally large blocks of at most ``width``, in order.

    Args:
        seeds: one seed or more.
        width: largest number of seeds per block, 1 or more.
    """
    count = math.ceil(len(seeds) / width)
    edges = [i * len(seeds) // count for i in range(count + 1)]
    return [tuple(seeds[low:high]) for low, high in itertools.pairwise(edges)]


def describe_seeds(seeds: Sequence[int]) -> str:
    """Returns ``seed 3``, ``seeds 0-99`` or ``seeds 0-4,9``."""
    parts = spans(seeds)
    if len(parts) > _RANGES_SHOWN:
        parts = [*parts[: _RANGES_SHOWN - 1], "...", f"{parts[-1]} ({len(seeds)} of them)"]
    return f"seed{'s' if len(seeds) > 1 else ''} {','.join(parts)}"


def _missing(point: Point, stored: Stored, job: Job) -> tuple[int, ...]:
    sid = point.setting.id

    def wanted(seed: int) -> bool:
        outcome = stored.get((sid, seed))
        again = job.rerun_failed and outcome is not None and not outcome.ok
        return (outcome is None or again) and (sid, seed) not in job.tried

    return tuple(seed for seed in point.seeds if wanted(seed))


def _of_other_code(
    points: Sequence[Point], stored: Stored, codes: Mapping[str, str]
) -> dict[tuple[str, int], Outcome]:
    asked = ((point.setting.id, point.seeds) for point in points)  # an id is a hash of all values
    return {
        (sid, seed): stored[sid, seed]
        for sid, seeds in asked
        for seed in seeds
        if (sid, seed) in stored
        and stored[sid, seed].code != codes.get(sid, stored[sid, seed].code)
    }


def _counts(others: Sequence[Outcome], job: Job) -> dict[str, int]:
    left = [outcome for outcome in others if outcome.ok or not job.rerun_failed]
    unknown = sum(outcome.code is None for outcome in left)
    return {"other_code": len(left) - unknown, "unknown_code": unknown}


def _begun(kept: Sequence[Block], missing: Sequence[int]) -> Iterator[Block]:
    """Yields the saved blocks of a setting to resume, without stored or repeated seeds."""
    left = set(missing)
    for block in kept:
        if block and left.issuperset(block):
            left -= set(block)
            yield block


def _after_oom(point: Point, stored: Stored) -> Iterator[int]:
    """Yields the block size to try next for each seed that ran out of memory."""
    sid = point.setting.id
    for seed in point.seeds:
        outcome = stored.get((sid, seed))
        if outcome and outcome.status == OUT_OF_MEMORY:
            yield out_of_memory.retry_width(outcome.block)


def _count(points: Sequence[Point], stored: Stored, *, ok: bool) -> int:
    asked = ((point.setting.id, point.seeds) for point in points)
    keys = [(sid, seed) for sid, seeds in asked for seed in seeds]
    return sum(key in stored and stored[key].ok == ok for key in keys)


def _labels(task: Task[Any], points: Sequence[Point]) -> dict[str, str]:
    """Names each setting by the task's label, and by fields that distinguish equal labels."""
    namesakes: dict[str, dict[str, dict[str, Any]]] = {}
    for point in points:
        namesakes.setdefault(task.label(point.setting), {})[point.setting.id] = point.values
    labels = {}
    for label, settings in namesakes.items():
        first, *others = settings.values()
        varying = [name for name in first if any(other[name] != first[name] for other in others)]
        for sid, values in settings.items():
            labels[sid] = " ".join([label, *(f"{name}={values[name]}" for name in varying)])
    return labels


def _spec(task: Task[Any], point: Point, seeds: tuple[int, ...], name: str, job: Job) -> TrialSpec:
    return TrialSpec(
        task=task.name,
        setting=point.setting,
        setting_id=point.setting.id,
        seeds=seeds,
        label=f"{name} {describe_seeds(seeds)}",
        steps=task.steps(point.setting),
        out=job.out,
        command=job.command,
        commit=job.commit,
        cpus=job.resources.cpus_per_trial,
        gpus=job.resources.gpus,
        memory=need(task, point, len(seeds)),
        processes=task.processes(point.setting),
        preset=job.preset,
        changes=dict(job.changes.get(point.setting.id, {})),
    )


def _makespan(seconds: Sequence[float], slots: int) -> float:
    ends = [0.0] * slots
    for each in seconds:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)
