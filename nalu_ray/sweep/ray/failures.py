"""Errors of Tune's actors: recorded for messages, and converted to types that Tune handles.

Tune itself passes an error on as a pickle in the results folder. That folder may be full, or others
may write there, so the pickle is not read. And Tune 2.60 ends the whole sweep on errors of an actor
that it does not know, such as Ray's ``OutOfMemoryError``.
"""

from __future__ import annotations

from typing import Any

from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.execution import tune_controller


class SlotStoppedError(RayActorError, OutOfMemoryError):
    """Ray stopped a slot as memory ran short; Tune treats it like a lost node."""


class ActorManager(RayActorManager):
    """Tune's actor manager, which also records the last failure.

    Attributes:
        failure: the error that Tune's callbacks are handling.
    """

    failure: BaseException | None = None

    def add_actor(self, cls: Any, *arguments: Any, **options: Any) -> Any:
        """Adds an actor with the options that its class has as ``actor_options``."""
        trainable = cls.__ray_metadata__.modified_class
        cls._default_options.update(getattr(trainable, "actor_options", {}))
        return super().add_actor(cls, *arguments, **options)

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
    """Returns the error that Tune's callbacks are handling, as it was raised in the actor."""
    return getattr(ActorManager.failure, "cause", None) or ActorManager.failure


def describe(error: BaseException | None) -> str:
    """Returns an error's type and the first line of its text."""
    lines = str(error or "").strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
