"""Runs a plan in this process, one trial after another, without Ray: the same rows."""

from __future__ import annotations

from nalu_ray.sweep.plan import Plan
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.trial import Trial


def run_local(plan: Plan, board: Board, fail_fast: bool = False) -> None:
    """Runs every trial of a plan.

    Args:
        plan: what to run.
        board: what is told how far it is.
        fail_fast: stop after the first trial with a seed that failed.
    """
    for number, spec in enumerate(plan.trials):
        board.started(str(number), spec)
        for report in Trial(spec):
            board.report(str(number), spec, report)
        if fail_fast and board.seeds_failed:
            return
