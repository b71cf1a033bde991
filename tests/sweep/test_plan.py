"""From settings and stored seeds to trials."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nalu_ray.command import screen
from nalu_ray.errors import ConfigError
from nalu_ray.results.store.rows import COMPLETED, DIVERGED, FAILED, OUT_OF_MEMORY
from nalu_ray.results.store.store import Outcome
from nalu_ray.sweep.machine import (
    CONTEXT_BYTES,
    FOR_BLOCKS,
    GIB,
    WORKER_BYTES,
    Capacity,
    Node,
    this_machine,
)
from nalu_ray.sweep.plan import Job, Plan, blocks, describe_seeds, make_plan
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.speeds import Starts

BIG = 1024 * GIB


def capacity(*cpus: float, gpus: float = 0, memory: int = BIG) -> Capacity:
    return Capacity("test", tuple(Node(n, gpus, memory) for n in cpus))


def points(task: Any, count: int, seeds: int, **values: Any) -> list[Point]:
    return [
        Point(setting=task.setting_type(lr=i + 1, **values), seeds=tuple(range(seeds)))
        for i in range(count)
    ]


def plan(
    task: Any,
    wanted: list[Point],
    machine: Capacity,
    stored: dict[tuple[str, int], Outcome] | None = None,
    rerun_failed: bool = False,
    **resources: Any,
) -> Plan:
    job = Job("out", Resources(**resources), 10.0, rerun_failed, "command", "abc")
    return make_plan(task, wanted, stored or {}, job, machine)


def sizes(made: Plan) -> list[int]:
    return [len(trial.seeds) for trial in made.trials]


def store(point: Point, *seeds: int, ok: bool = True) -> dict[tuple[str, int], Outcome]:
    sid = point.setting.id
    return {(sid, s): Outcome(sid, s, COMPLETED if ok else FAILED) for s in seeds}


# -- what is missing -------------------------------------------------------------------------------


def test_what_is_stored_does_not_run_again(fake: Any) -> None:
    wanted = points(fake, 2, 4)
    stored = {**store(wanted[0], 0, 2, 99), **store(wanted[1], 0, 1, 2, 3)}
    made = plan(fake, wanted, capacity(1), stored)
    assert [(trial.setting_id, trial.seeds) for trial in made.trials] == [
        (wanted[0].setting.id, (1, 3))
    ]
    assert (made.done, made.failed, made.seeds) == (6, 0, 2)


def test_failed_seeds_run_again_only_when_asked(fake: Any) -> None:
    wanted = points(fake, 1, 3)
    stored = {**store(wanted[0], 0), **store(wanted[0], 1, 2, ok=False)}
    made = plan(fake, wanted, capacity(1), stored)
    assert (made.trials, made.done, made.failed) == ((), 1, 2)
    again = plan(fake, wanted, capacity(1), stored, rerun_failed=True)
    assert [trial.seeds for trial in again.trials] == [(1, 2)]
    assert (again.done, again.failed) == (1, 0)


def test_a_block_that_ran_out_of_memory_is_tried_again_by_halves(fake: Any) -> None:
    wanted = points(fake, 2, 12)
    (trial, other) = plan(fake, wanted, capacity(1)).trials
    assert len(trial.seeds) == len(other.seeds) == 12
    sid = trial.setting_id
    stored = {(sid, seed): Outcome(sid, seed, OUT_OF_MEMORY, block=8) for seed in range(8)}
    again = plan(fake, wanted, capacity(1), stored, rerun_failed=True)
    assert {len(t.seeds) for t in again.trials if t.setting_id == sid} == {4}
    assert [len(t.seeds) for t in again.trials if t.setting_id != sid] == [12]
    # seeds that are new are not put into the block that failed either
    left = plan(fake, wanted, capacity(1), stored)
    assert [t.seeds for t in left.trials if t.setting_id == sid] == [(8, 9, 10, 11)]
    done = {key: Outcome(sid, key[1], COMPLETED, block=8) for key in stored}
    assert 4 in [len(t.seeds) for t in plan(fake, wanted, capacity(1), done).trials]
    worse = {**stored, (sid, 3): Outcome(sid, 3, OUT_OF_MEMORY, block=1)}
    alone = plan(fake, wanted, capacity(1), worse, rerun_failed=True)
    assert {len(t.seeds) for t in alone.trials if t.setting_id == sid} == {1}


# -- blocks ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 500), min_size=1, unique=True), st.integers(1, 60))
def test_blocks_hold_every_seed_once_and_are_equally_large(seeds: list[int], width: int) -> None:
    cut = blocks(seeds, width)
    assert [seed for block in cut for seed in block] == seeds
    assert max(map(len, cut)) <= width
    assert max(map(len, cut)) - min(map(len, cut)) <= 1
    assert len(cut) == -(-len(seeds) // width)


def test_many_settings_keep_whole_blocks(fake: Any) -> None:
    assert sizes(plan(fake, points(fake, 5, 100), capacity(4))) == [100] * 5


def test_few_settings_are_dealt_over_all_slots(fake: Any) -> None:
    assert sizes(plan(fake, points(fake, 2, 100), capacity(4))) == [50] * 4
    assert sizes(plan(fake, points(fake, 1, 100), capacity(2, 1))) == [34, 33, 33]
    assert sizes(plan(fake, points(fake, 3, 100), capacity(5))) == [100] * 3
    assert sizes(plan(fake, points(fake, 1, 2), capacity(64))) == [1, 1]


def test_seeds_per_trial_is_the_most_a_trial_takes(fake: Any) -> None:
    made = plan(fake, points(fake, 2, 10), capacity(1), seeds_per_trial=4)
    assert sizes(made) == [4, 4, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("resources", "most"),
    [
        ({"seeds_per_trial": 4}, 4),
        ({"seeds_per_trial": 4, "gpus_per_trial": 1}, 40),
        ({"seeds_per_trial": 4, "gpus_per_trial": 0.25}, 10),
        ({"seeds_per_trial": 4, "gpus_per_trial": 0.05}, 4),
        ({"seeds_per_trial": 1, "gpus_per_trial": 1}, 1),
        ({"seeds_per_trial": 1, "gpus_per_trial": 1, "seeds_per_gpu": 12}, 12),
        ({"seeds_per_trial": 4, "gpus_per_trial": 0.25, "seeds_per_gpu": 4}, 1),
        ({"seeds_per_trial": 4, "seeds_per_gpu": 12}, 4),
    ],
)
def test_a_trial_on_a_gpu_takes_more_seeds(fake: Any, resources: dict[str, Any], most: int) -> None:
    machine = capacity(1, gpus=2)
    made = plan(fake, points(fake, 1, 120), machine, max_concurrent=1, **resources)
    assert set(sizes(made)) == {most}


def test_a_block_that_does_not_fit_its_slot_is_halved(fake: Any) -> None:
    # the fake task takes `hidden` MiB a seed: 64 seeds take 1 GiB more than a worker
    wanted = points(fake, 4, 64, hidden=16)
    room = 2 * (WORKER_BYTES + GIB)
    assert sizes(plan(fake, wanted, capacity(2, memory=room))) == [64] * 4
    assert sizes(plan(fake, wanted, capacity(2, memory=room - 2))) == [32] * 8
    assert sizes(plan(fake, wanted, capacity(2, memory=room - 2), max_concurrent=1)) == [64] * 4


def test_a_seed_that_does_not_fit_its_slot_takes_the_place_of_several(fake: Any) -> None:
    made = plan(fake, points(fake, 4, 1, hidden=1024), capacity(8, memory=4 * GIB))
    assert sizes(made) == [1] * 4
    assert made.slots == 2
    assert {trial.memory for trial in made.trials} == {WORKER_BYTES + GIB}


def test_the_longest_trials_start_first(fake: Any) -> None:
    short, long = points(fake, 1, 10)[0], points(fake, 1, 10, steps=400)[0]
    made = plan(fake, [short, long], capacity(2))
    assert [trial.steps for trial in made.trials] == [400, 4]


def test_the_same_plan_comes_out_again(fake: Any) -> None:
    wanted = points(fake, 7, 30)
    first = plan(fake, wanted, capacity(3), seeds_per_trial=7)
    assert plan(fake, wanted, capacity(3), seeds_per_trial=7).trials == first.trials


# -- slots and time --------------------------------------------------------------------------------


def test_a_block_that_does_not_fit_its_share_of_a_gpu_is_halved(fake: Any) -> None:
    # 64 seeds take 1 GiB of the GPU beside CUDA's own
    wanted, room = points(fake, 1, 64, hidden=16), (CONTEXT_BYTES + GIB) / FOR_BLOCKS

    def block(gpu_memory: float, share: float = 1) -> int:
        machine = Capacity("test", (Node(4, 1, BIG, int(gpu_memory) + 1),))
        return max(sizes(plan(fake, wanted, machine, max_concurrent=1, gpus_per_trial=share)))

    assert block(room) == 64
    assert block(room - 99) == 32
    assert block(2 * room, 0.5) == 64
    assert block(2 * room - 99, 0.5) == 32
    assert block(-1) == 64  # of a cluster, the size is not known


@pytest.mark.parametrize(
    ("machine", "resources", "slots"),
    [
        (capacity(2), {}, 2),
        (capacity(2, 3), {}, 5),
        (capacity(8), {"cpus_per_trial": 3}, 2),
        (capacity(1), {"cpus_per_trial": 0.1}, 10),
        (capacity(8, gpus=1), {"gpus_per_trial": 0.25}, 4),
        (capacity(8, gpus=1), {"gpus_per_trial": 0.25, "max_concurrent": 3}, 3),
        (capacity(64), {}, 20),
        (Capacity("somewhere", known=False), {}, 1),
    ],
)
def test_slots(fake: Any, machine: Capacity, resources: dict[str, Any], slots: int) -> None:
    assert plan(fake, points(fake, 20, 1), machine, **resources).slots == slots


def test_the_estimate_is_the_time_of_the_fullest_slot(fake: Any) -> None:
    wanted = points(fake, 3, 100, steps=1000)
    made, starts = plan(fake, wanted, capacity(2)), Starts()
    assert made.startup == starts.ray + starts.worker
    work = 100 * 1000 * 10e-6
    assert made.seconds == pytest.approx(made.startup + 2 * (work + starts.trial))


@pytest.mark.parametrize(
    ("machine", "resources", "words"),
    [
        (capacity(2), {"cpus_per_trial": 3}, "3 CPUs (the largest node has 2)"),
        (capacity(2), {"gpus_per_trial": 1}, "1 GPUs (the largest node has 0)"),
        (capacity(2, memory=GIB), {}, "1.68 GiB (the largest node has 1)"),
        (capacity(1, 1), {"cpus_per_trial": 2}, "2 CPUs (the largest node has 1)"),
    ],
)
def test_what_never_fits_is_refused_with_the_arithmetic(
    fake: Any, machine: Capacity, resources: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(fake, points(fake, 1, 1, hidden=1024), machine, **resources)
    assert words in str(caught.value)
    assert "fits on no node" in str(caught.value)


# -- unfinished trials -----------------------------------------------------------------------------


def dealt(
    task: Any, wanted: list[Point], kept: list[tuple[str, tuple[int, ...]]], **changes: Any
) -> list[tuple[int, ...]]:
    """The blocks of a plan on four CPUs where states of some are kept."""
    machine = changes.pop("machine", capacity(4))
    stored = changes.pop("stored", {})
    job = Job("out", Resources(seeds_per_trial=100, **changes), 10.0, kept=kept)
    return sorted(trial.seeds for trial in make_plan(task, wanted, stored, job, machine).trials)


def test_a_block_with_a_state_is_a_trial_again_whatever_the_machine_is(fake: Any) -> None:
    (wanted,) = points(fake, 1, 8)
    sid = wanted.setting.id
    assert dealt(fake, [wanted], []) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert dealt(fake, [wanted], [(sid, tuple(range(8)))]) == [tuple(range(8))]
    assert dealt(fake, [wanted], [(sid, (1, 4, 5))]) == [(0,), (1, 4, 5), (2, 3), (6, 7)]
    of_another = [("other", (0, 1, 2))]
    assert dealt(fake, [wanted], of_another) == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_a_state_of_what_is_not_missing_or_too_large_does_not_count(fake: Any) -> None:
    (wanted,) = points(fake, 1, 4)
    sid = wanted.setting.id
    one = capacity(1)
    assert dealt(fake, [wanted], [(sid, (2, 3, 4))], machine=one) == [(0, 1, 2, 3)]
    twice = [(sid, (0, 1)), (sid, (1, 2)), (sid, ())]
    assert dealt(fake, [wanted], twice, machine=one) == [(0, 1), (2, 3)]
    done = store(wanted, 0)
    assert dealt(fake, [wanted], [(sid, (0, 1))], machine=one, stored=done) == [(1, 2, 3)]
    (many,) = points(fake, 1, 262, hidden=10)  # of 300: 38 at once fit, halving 262 gives 33
    fitted = capacity(1, memory=WORKER_BYTES + 400 * 2**20)
    kept = [(many.setting.id, tuple(range(38)))]
    assert tuple(range(38)) in dealt(fake, [many], kept, machine=fitted)
    (large,) = points(fake, 1, 4, hidden=1024)
    little = capacity(1, memory=WORKER_BYTES + 2 * GIB)
    kept = [(large.setting.id, (0, 1, 2, 3))]
    assert dealt(fake, [large], kept, machine=little) == [(0, 1), (2, 3)]


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ([3], "seed 3"),
        (range(100), "seeds 0-99"),
        ([0, 1, 2, 9], "seeds 0-2,9"),
        ([9, 1], "seeds 1,9"),
        (range(0, 20, 2), "seeds 0,2,4,...,18 (10 of them)"),
    ],
)
def test_seeds_are_described(seeds: Any, text: str) -> None:
    assert describe_seeds(seeds) == text


def test_labels_tell_trials_apart_and_say_no_more(fake: Any) -> None:
    make = fake.setting_type
    settings = [make(layer="b", steps=9), make(hidden=2), make(hidden=3)]
    made = plan(fake, [Point(setting=s, seeds=(0, 1)) for s in settings], capacity(1))
    assert [trial.label for trial in made.trials] == [
        "fake b lr=0.1 seeds 0-1",
        "fake a lr=0.1 hidden=2 seeds 0-1",
        "fake a lr=0.1 hidden=3 seeds 0-1",
    ]


def test_this_machine_is_what_this_process_may_use() -> None:
    (node,) = this_machine(gpus=False).nodes
    assert node.cpus >= 1
    assert GIB / 4 < node.memory < 2**50


def test_failures_that_differ_in_a_number_are_one_line_that_says_so(fake: Any) -> None:
    (point,) = wanted = points(fake, 1, 3)
    made, sid = plan(fake, wanted, capacity(1)), point.setting.id

    def lines(*steps: int) -> list[str]:
        ends = {
            (sid, seed): Outcome(sid, seed, DIVERGED, f"diverged at step {step}")
            for seed, step in enumerate(steps)
        }
        return screen.failures(made, ends)

    assert lines(5, 5, 5)[0] == "failed: 3 seeds: diverged at step 5"
    many = "failed: 3 seeds: diverged at step 5 (the first; the others differ in a number)"
    assert lines(5, 7, 5)[0] == many
    assert lines(5, 7, 5)[1].endswith("seeds 0-2")


def test_a_plan_makes_an_id_per_setting_and_not_per_seed(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    of = fake.setting_type.id.fget
    monkeypatch.setattr(
        fake.setting_type, "id", property(lambda setting: made.append(setting) or of(setting))
    )
    counts = []
    for seeds in (2, 200):
        made.clear()
        plan(fake, points(fake, 3, seeds), capacity(1), seeds_per_trial=200)
        counts.append(len(made))
    assert counts[0] == counts[1]
