"""Runs a plan in this process, one trial after another, without Ray: the same rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from nalu_ray.results.store.store import Store, StoreError
from nalu_ray.sweep import device
from nalu_ray.sweep.dispatch import NodeError, check_node
from nalu_ray.sweep.plan import Plan
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.scratch import MARK, TUNE, discard, scratch
from nalu_ray.sweep.stdio import lasting
from nalu_ray.sweep.stopping import StoppedError
from nalu_ray.sweep.trial import Trial

Check = Callable[[], None]
Watched = Callable[[Callable[[], None]], contextlib.AbstractContextManager[Check]]


@contextlib.contextmanager
def unwatched(_: Callable[[], None]) -> Iterator[Check]:
    """Watches nothing, for trials that do not use Ray."""
    yield lambda: None


def run_local(
    plan: Plan, board: Board, store: Store, fail_fast: bool = False, watched: Watched = unwatched
) -> None:
    """Runs every trial of a plan.

    Args:
        plan: the plan.
        board: shows the progress.
        store: gets the rows; a marker file in it, removed at the end, identifies the folder.
        fail_fast: stop after the first trial with a failed seed.
        watched: watches what the trials need while they run; given what to do before an exit at
            once, it yields the check of a trial's errors, see :class:`Trial`.

    Raises:
        StoppedError: the rows cannot be written, a trial has left the GPU unusable, or what is
            watched is lost.
    """
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(device.kept_settings())
            stack.enter_context(lasting())
            name = stack.enter_context(scratch(store))
            check = stack.enter_context(watched(lambda: discard(store, name)))
            device.prepare_cublas(plan.trials)
            mark = {"mark": f"{TUNE}/{name}/{MARK}"}
            for number, planned in enumerate(plan.trials):
                spec = planned.model_copy(update=mark)
                check_node(spec.out, spec.mark, spec.code)
                board.started(str(number), spec)
                for report in Trial(spec, check=check):
                    board.report(str(number), spec, report)
                if fail_fast and board.seeds_failed:
                    return
                if spec.gpus and device.is_lost():
                    raise StoppedError(f"{spec.label} left CUDA unusable in this process")
    except (NodeError, StoreError) as error:
        raise StoppedError(str(error)) from error
