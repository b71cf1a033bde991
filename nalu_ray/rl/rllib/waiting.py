"""Waiting for environment runners: for the first answer, and for those that come back."""

from __future__ import annotations

import time
from typing import Any

import ray


def wait_for_any(group: Any, tag: str, timeout: float) -> None:
    """Waits until one request of an `EnvRunnerGroup` is answered, or for ``timeout`` seconds.

    RLlib's own fetching waits for all of them, so that each runner is as slow as the slowest.
    """
    requests = group._worker_manager._in_flight_req_to_actor_id.items()
    pending = [request for request, (own, _) in requests if own == tag]
    if pending:
        ray.wait(pending, num_returns=1, timeout=timeout)


class Patience:
    """Says when to give up: runners die and are replaced, but not forever.

    Args:
        group: the `EnvRunnerGroup`.
        attempts: steps of training in a row without any runner that are put up with.
        restarts: of a runner, in the mean, without an answer of any.
    """

    def __init__(self, group: Any, attempts: int = 60, restarts: int = 5) -> None:
        self.group, self.attempts, self.restarts = group, attempts, restarts
        self.failed = self.before = 0

    def answered(self) -> None:
        """A runner did what it was asked for."""
        self.failed, self.before = 0, self.group.num_remote_worker_restarts()

    def check(self) -> None:
        """Waits a second if no runner is alive.

        Raises:
            RuntimeError: if none came back for too long, or those that did died again and again.
        """
        died = self.group.num_remote_worker_restarts() - self.before
        if died > self.restarts * self.group.num_remote_env_runners():
            raise RuntimeError(
                f"environment runners died {died} times without one answer in between; Ray's logs "
                "of A3CRunner or VectorRunner say why"
            )
        if self.group.num_healthy_remote_workers():
            return
        self.failed += 1
        if self.failed > self.attempts:
            raise RuntimeError("no environment runner is left, and none came back")
        time.sleep(1)
