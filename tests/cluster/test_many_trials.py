"""A thousand trials: every row is there, and the console stays calm."""

from __future__ import annotations

from typing import Any

import pytest

from nalu_ray.results.store import Store

from .commands import command, finish, stored

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

LINE = "fake layer=a lr=1 steps=1 seeds=1000 --seeds-per-trial 1"


def test_a_thousand_trials(fake: Any) -> None:
    with command(LINE) as process:
        code, text = finish(process, 840)
    assert code == 0, text[-2000:]
    assert "1,000 trials, " in text
    outcomes = Store("results").outcomes("fake")
    assert sorted(outcome.seed for outcome in outcomes.values()) == list(range(1000))
    assert all(outcome.ok for outcome in outcomes.values())
    assert len(Store("results").load("fake")) == 2000
    assert len(stored("results", "fake")) == 1000
    # a line every ten seconds, and a head and a tail
    assert len(text.splitlines()) < 100
