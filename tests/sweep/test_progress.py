"""What the console shows."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from nalu_ray.command.screen import describe_plan
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, Plan, make_plan
from nalu_ray.sweep.presets import Point, Resources
from nalu_ray.sweep.progress import Board, Costs, by_reason, describe_time
from nalu_ray.sweep.trial import Report

GOLDEN = """\
fake (section 0), laptop: 2 settings, 8 seeds; 0 done before; 8 to do
4 trials, 2 at a time, about 40 s; each takes 1 CPU, 0.7 GiB of test: 2 CPUs, 0 GPUs, 64.0 GiB
10 s: 0/4 trials, 2 running, 0 with failures; 0/8 seeds, 0 failed; 100 seed-steps/s; 70 s left
warning: UserWarning: odd (in fake a lr=0.1 seeds 0-1)
failed: fake a lr=0.1 seeds 2-3: ValueError: no 3 (traceback: /x/1.txt)
20 s: 2/4 trials, 1 running, 1 with failures; 2/8 seeds, 2 failed; 250 seed-steps/s; 12 s left; \
last: fake a lr=0.1 seeds 2-3: mse 0.25
lost the worker of fake b lr=0.1 seeds 0-1; resuming from its last state: WorkerCrashedError
failed: fake b lr=0.1 seed 1: diverged at step 7
31 s: 4/4 trials, 0 running, 2 with failures; 5/8 seeds, 3 failed; 258 seed-steps/s; 0 s left; \
last: fake b lr=0.1 seeds 2-3
"""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def plan(fake: Any) -> Plan:
    wanted = [
        Point(setting=fake.setting_type(layer=layer, steps=1000), seeds=(0, 1, 2, 3))
        for layer in "ab"
    ]
    machine = Capacity("test", (Node(2, 0, 64 * GIB),))
    return make_plan(fake, wanted, {}, Job("out", Resources(seeds_per_trial=2), 10_000), machine)


def play(board: Board, clock: Clock, plan: Plan) -> None:
    first, second, third, fourth = plan.trials
    board.started("1", first)
    board.started("2", second)
    clock.now += 10
    board.report("1", first, Report(500, 1000))
    clock.now += 9
    board.report("1", first, Report(600, 1000, messages=("UserWarning: odd",)))
    board.report("2", second, Report(10, 1000, messages=("UserWarning: odd",)))
    board.report("1", first, Report(1000, 1000, {"mse": 0.125}, seconds=17, done=True))
    board.started("3", third)
    failed = dict.fromkeys((2, 3), "ValueError: no 3 (traceback: /x/1.txt)")
    board.report("3", third, Report(500, 1000))
    clock.now += 1
    board.report("2", second, Report(10, 1000, {"mse": 0.25}, seconds=20, done=True, failed=failed))
    board.resumed("3", third, "WorkerCrashedError")
    board.started("3", third)
    board.started("4", fourth)
    board.report("3", third, Report(1000, 1000, done=True, failed={1: "diverged at step 7"}))
    clock.now += 11
    board.report("4", fourth, Report(1000, 1000, done=True))


def run(plan: Plan, **arguments: Any) -> tuple[str, Board]:
    out, clock = io.StringIO(), Clock()
    console = Console(file=out, width=40, highlight=False, **arguments.pop("console", {}))
    with Board(console, plan, clock=clock, **arguments) as board:
        play(board, clock, plan)
    return out.getvalue(), board


def test_plain_output(plan: Plan) -> None:
    text, _ = run(plan)
    assert "\n".join(describe_plan(plan, "laptop")) + "\n" + text == GOLDEN


def test_quiet_output_has_warnings_and_failures_alone(plan: Plan) -> None:
    text, _ = run(plan, quiet=True)
    assert [line.split(":")[0].split(" ")[0] for line in text.splitlines()] == [
        "warning",
        "failed",
        "lost",
        "failed",
    ]


def test_a_terminal_has_one_live_line_below_the_failures(plan: Plan) -> None:
    text, _ = run(plan, console={"force_terminal": True})
    assert "\x1b[?25l" in text  # the cursor is hidden while the line is live
    assert text.count("failed: fake b lr=0.1 seed 1") == 1
    assert "4/4 trials" in text
    assert "\x1b[?25h" in text.split("4/4 trials")[-1]


def test_many_failures_of_one_kind_are_told_once(plan: Plan) -> None:
    out = io.StringIO()
    with Board(Console(file=out, width=200), plan) as board:
        for number, trial in enumerate(plan.trials):
            reason = f"ValueError: at {number} (traceback: /x/{number}.txt)"
            board.started(str(number), trial)
            failed = dict.fromkeys(trial.seeds, reason)
            board.report(str(number), trial, Report(0, 4, done=True, failed=failed))
    assert out.getvalue().count("ValueError") == 1
    assert (board.trials_failed, board.seeds_failed, board.seeds_done) == (4, 8, 0)


def test_reasons_that_differ_in_numbers_and_paths_are_one() -> None:
    failed = {3: "bad at 1 (traceback: /a)", 5: "bad at 22 (traceback: /b)", 6: "other"}
    assert by_reason(failed) == [([3, 5], "bad at 1 (traceback: /a)"), ([6], "other")]


def test_costs_are_what_slots_spend_beside_the_work() -> None:
    costs = Costs([0.0, 0.0])
    costs.start("1", 2.0)
    costs.start("2", 3.0)
    costs.end("1", 12.0, seconds=9.0)  # 2 of waiting, 1 of handing over
    costs.start("3", 12.5)  # half a second between two trials
    costs.end("3", 22.5, seconds=10.0)
    costs.end("2", 43.0, seconds=40.0)
    assert costs.overhead == pytest.approx(2 + 3 + 1 + 0.5)
    assert costs.work == 59.0
    assert "2.17 s per trial, 9.9 % of 65.5 slot-seconds" in costs.describe()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (900, "15 min"), (4 * 3600, "4.0 h")]
)
def test_times(seconds: float, text: str) -> None:
    assert describe_time(seconds) == text
