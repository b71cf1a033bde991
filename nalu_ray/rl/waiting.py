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
    """

    def __init__(self, group: Any, attempts: int = 60) -> None:
        self.group, self.attempts, self.failed = group, attempts, 0

    def check(self) -> None:
        """Waits a second if no runner is alive.

        Raises:
            RuntimeError: if none came back for too long.
        """
        if self.group.num_healthy_remote_workers():
            self.failed = 0
            return
        self.failed += 1
        if self.failed > self.attempts:
            raise RuntimeError("no environment runner is left, and none came back")
        time.sleep(1)
