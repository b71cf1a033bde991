"""Giving up when no runner is left, or when they die again and again."""

from __future__ import annotations

import time

import pytest

from nalu_ray.rl.rllib.env_runner import Patience


class Group:
    """An `EnvRunnerGroup` of two, of which this many are alive."""

    alive = 0
    restarts = 0

    def num_healthy_remote_workers(self) -> int:
        return self.alive

    def num_remote_env_runners(self) -> int:
        return 2

    def num_remote_worker_restarts(self) -> int:
        return self.restarts


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    group = Group()
    patience = Patience(group, attempts=2)
    patience.check()
    group.alive = 1
    patience.check()
    assert slept == [1]
    # An answer makes it begin anew.
    patience.answered()
    group.alive = 0
    patience.check()
    patience.check()
    with pytest.raises(RuntimeError, match="all environment runners are gone"):
        patience.check()
    assert slept == [1, 1, 1]


def test_runners_that_come_back_and_die_again_are_given_up() -> None:
    group = Group()
    group.alive = 2
    patience = Patience(group, restarts=3)
    group.restarts = 6
    patience.check()
    patience.answered()
    group.restarts = 12
    patience.check()
    group.restarts = 13
    with pytest.raises(RuntimeError, match="died 7 times without one answer"):
        patience.check()
