"""Why Tune's actors fail: kept for whoever tells it, and made what Tune can take.

Tune keeps an error as a pickle in the results folder, which may be full, or another's to write:
what is unpickled there is not ours. And Tune 2.60 ends the whole sweep on an error of an actor
that it does not know, Ray's ``OutOfMemoryError`` among them.
"""

from __future__ import annotations

from typing import Any

from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.execution import tune_controller


class SlotStoppedError(RayActorError, OutOfMemoryError):
    """Ray stopped a slot because memory was short; it is lost as with its node."""


class ActorManager(RayActorManager):
    """Tune's, with a memory for what failed.

    Attributes:
        failure: what Tune's callbacks are told of while they run.
    """

    failure: BaseException | None = None

    def _actor_start_failed(self, tracked_actor: Any, exception: Exception) -> None:
        ActorManager.failure = exception
        super()._actor_start_failed(tracked_actor, exception)

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        if isinstance(exception, OutOfMemoryError) and not isinstance(exception, RayActorError):
            exception = SlotStoppedError(error_msg=str(exception))
        ActorManager.failure = exception
        super()._actor_task_failed(tracked_actor_task, exception)


def watch_failures() -> None:
    """Makes Tune use :class:`ActorManager` from now on."""
    ActorManager.failure = None
    tune_controller.RayActorManager = ActorManager  # type: ignore[attr-defined]


def failure() -> BaseException | None:
    """Returns what Tune's callback is told of, as it was raised in the actor."""
    return getattr(ActorManager.failure, "cause", None) or ActorManager.failure


def describe(error: BaseException | None) -> str:
    """Returns an error's kind and the first line of its text."""
    lines = str(error or "").strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
