"""Giving up when no runner is left."""

from __future__ import annotations

import time

import pytest

from nalu_ray.rl.waiting import Patience


class Group:
    """An `EnvRunnerGroup` of which this many are alive."""

    alive = 0

    def num_healthy_remote_workers(self) -> int:
        return self.alive


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    group = Group()
    patience = Patience(group, attempts=2)
    patience.check()
    group.alive = 1
    patience.check()
    assert slept == [1]
    # One that is alive between makes it begin anew.
    group.alive = 0
    patience.check()
    patience.check()
    with pytest.raises(RuntimeError, match="no environment runner is left"):
        patience.check()
    assert slept == [1, 1, 1]
