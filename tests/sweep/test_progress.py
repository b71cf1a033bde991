"""What the console shows."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from nalu_ray.command.screen import describe_plan
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, Plan, make_plan
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.progress import (
    PLAIN_SECONDS,
    PLAIN_SHARE,
    Board,
    Costs,
    by_reason,
    describe_elapsed,
    describe_end,
    describe_time,
)
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.trial import Report

GOLDEN = """\
fake (section 0), laptop: 2 settings, 8 seeds; 0 done before; 8 to do
4 trials, 2 at a time; each takes 1 CPU, 0.7 GiB of test: 2 CPUs, 0 GPUs, 64.0 GiB
about 56 s, of which 15 s to start Ray (the preset's guess, not measured on this machine)
31 s: 12 percent, 0/4 trials, 2 running; 0/8 seeds, 0 failed; 32 seed-steps/s; 106 s left, \
ends about 12:02
warning: UserWarning: odd (in fake a lr=0.1 seeds 0-1)
failed: fake a lr=0.1 seeds 2-3: ValueError: no 3 (traceback: /x/1.txt)
62 s: 62 percent, 2/4 trials, 1 running; 2/8 seeds, 2 failed; 129 seed-steps/s; 68 s left, \
ends about 12:02; last: fake a lr=0.1 seeds 2-3: mse 0.25
lost the worker of fake b lr=0.1 seeds 0-1; resuming from its last state: WorkerCrashedError
failed: fake b lr=0.1 seed 1: diverged at step 7
1:52 min: 100 percent, 4/4 trials, 0 running; 5/8 seeds, 3 failed; 60 seed-steps/s; done; \
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
    for seconds, step in ((10, 100), (10, 300), (11, 500)):
        clock.now += seconds
        board.report("1", first, Report(step, 1000, seconds=clock.now - Clock.now - 2))
    clock.now += 19
    board.report("1", first, Report(900, 1000, messages=("UserWarning: odd",), seconds=48))
    board.report("2", second, Report(10, 1000, messages=("UserWarning: odd",), seconds=48))
    board.report("1", first, Report(1000, 1000, {"mse": 0.125}, seconds=48, done=True))
    board.started("3", third)
    failed = dict.fromkeys((2, 3), "ValueError: no 3 (traceback: /x/1.txt)")
    board.report("3", third, Report(500, 1000))
    clock.now += 12
    board.report("2", second, Report(10, 1000, {"mse": 0.25}, seconds=20, done=True, failed=failed))
    board.resumed("3", third, "WorkerCrashedError")
    board.started("3", third)
    board.started("4", fourth)
    board.report("3", third, Report(1000, 1000, done=True, failed={1: "diverged at step 7"}))
    clock.now += 50
    board.report("4", fourth, Report(1000, 1000, seconds=50, done=True))


def run(plan: Plan, **arguments: Any) -> tuple[str, Board]:
    out, clock = io.StringIO(), Clock()
    console = Console(file=out, width=40, highlight=False, **arguments.pop("console", {}))
    noon = datetime(2026, 3, 1, 12)

    def today() -> datetime:
        return noon + timedelta(seconds=clock.now - Clock.now)

    with Board(console, plan, clock=clock, today=today, **arguments) as board:
        play(board, clock, plan)
    return out.getvalue(), board


def test_a_line_of_a_log_has_no_per_cent_sign(plan: Plan) -> None:
    """The dashboard shows logs as Prolog, in which it begins a comment, printed in grey."""
    assert "%" not in run(plan)[0]


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


def test_a_trial_without_a_worker_does_not_run(plan: Plan) -> None:
    clock = Clock()
    first, second, *_ = plan.trials
    with Board(Console(quiet=True), plan, clock=clock) as board:
        board.started("1", first)
        clock.now += 60
        board.resumed("1", first, "WorkerCrashedError")
        board.started("2", second)
        assert [*board.running] == ["2"]
        assert len(board.costs.free_since) == 1  # of two slots
        clock.now += 1
        board.started("1", first)
        assert [*board.running] == ["2", "1"]
        assert board.costs.free_since == []
        board.report("1", first, Report(1000, 1000, done=True, seconds=30))
    assert (board.trials_done, [*board.running]) == (1, ["2"])


def test_a_terminal_has_one_live_line_below_the_failures(plan: Plan) -> None:
    text, _ = run(plan, console={"force_terminal": True})
    assert "\x1b[?25l" in text  # the cursor is hidden while the line is live
    assert text.count("failed: fake b lr=0.1 seed 1") == 1
    assert "4/4 trials" in text
    assert "\x1b[?25h" in text.split("4/4 trials")[-1]


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_the_live_line_fits_the_terminal(plan: Plan, width: int) -> None:
    out, clock = io.StringIO(), Clock()
    with Board(Console(file=out, width=width, highlight=False), plan, clock=clock) as board:
        board.started("1", plan.trials[0])
        for step in (100, 200, 300):
            clock.now += 5
            report = Report(step, 1000, {"mse": 0.5}, seconds=clock.now - Clock.now)
            board.report("1", plan.trials[0], report)
        board.seeds_failed = 1234
        board.console.print(board._line())
    (line,) = out.getvalue().splitlines()
    assert len(line) < width
    expected = ["8 %  0/4 trials", "1,234 seeds failed", "100 s left, ends about", "mse 0.5"]
    for needed, text in zip((30, 60, 80, 200), expected, strict=True):
        assert (text in line) == (width >= needed)


def test_lines_of_a_long_sweep_become_rare(plan: Plan) -> None:
    out, clock = io.StringIO(), Clock()
    with Board(Console(file=out, width=200), plan, clock=clock) as board:
        for _ in range(3600):
            clock.now += 1
            board.tick()
    minutes = [line.split(":")[0] for line in out.getvalue().splitlines()]
    assert minutes[:2] == ["30 s", "60 s"]
    assert len(minutes) < 60


def test_trials_teach_the_next_plan_how_fast_the_machine_is(plan: Plan) -> None:
    with Board(Console(file=io.StringIO()), plan, clock=(clock := Clock())) as board:
        clock.now += 9.0
        for number, trial in enumerate(plan.trials[:3]):
            failed = {0: "lost"} if number == 2 else {}
            board.started(str(number), trial)
            clock.now += 10.0
            board.report(
                str(number), trial, Report(1000, 1000, seconds=8.0, done=True, failed=failed)
            )
    speeds = plan.speeds
    assert speeds.seconds(plan.task, plan.trials[0], 10_000) == pytest.approx(8.0)
    assert speeds.seconds(plan.task, plan.trials[3], 10_000) is None  # layer b only failed
    assert speeds.starts.worker == pytest.approx(11.0)
    # the third trial waited two seconds for its end, and ten for its slot
    assert speeds.starts.trial == pytest.approx(12.0)


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
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (900, "15 min"), (4 * 3600, "4.0 h")],
)
def test_times(seconds: float, text: str) -> None:
    assert describe_time(seconds) == text


def test_lines_of_progress_have_different_times() -> None:
    moments = [30.0]
    while moments[-1] < 10 * 3600:
        moments.append(moments[-1] + max(PLAIN_SECONDS, PLAIN_SHARE * moments[-1]))
    texts = [describe_elapsed(seconds) for seconds in moments]
    assert len(set(texts)) == len(texts)
    assert {"30 s", "2:00 min", "2:30 min"} <= set(texts)
    assert [describe_elapsed(s) for s in (89.4, 125, 3599, 3600, 11_000)] == [
        "89 s", "2:05 min", "59:59 min", "1:00 h", "3:03 h"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "23:31"), (3600, "00:30"), (3 * 86400, "Wed 23:30"), (9 * 86400, "10 Mar 2026")],
)
def test_ends(seconds: float, text: str) -> None:
    assert describe_end(datetime(2026, 3, 1, 23, 30), seconds) == text
