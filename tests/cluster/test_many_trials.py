"""Hundreds of trials: every row is there, and the console stays calm."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from nalu_ray.results.store.store import Store

from .commands import command, finish, stored, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

LINE = "fake layer=a lr=1 steps=1 seeds=400 --seeds-per-trial 1"


def test_hundreds_of_trials(fake: Any) -> None:
    with command(LINE) as process:
        driver, curve = psutil.Process(process.pid), []
        for count in (100, 200, 300, 390):
            until(lambda count=count: len(stored("results", "fake")) >= count, 800)
            curve.append(driver.memory_info().rss / 2**20)
        code, text = finish(process, 840)
    assert code == 0, text[-2000:]
    # what it keeps of a trial, benchmarks/many_trials.py has the curve: 60 KiB, not a megabyte
    assert curve[-1] - curve[0] < 100, curve
    assert "400 trials, " in text
    outcomes = Store("results").outcomes("fake")
    assert sorted(outcome.seed for outcome in outcomes.values()) == list(range(400))
    assert all(outcome.ok for outcome in outcomes.values())
    assert len(Store("results").load("fake")) == 800
    assert len(stored("results", "fake")) == 400
    # a line every ten seconds, and a head and a tail
    assert len(text.splitlines()) < 100
