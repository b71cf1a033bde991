"""A trial that takes too much memory is stopped alone, says so, and fits at half its size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psutil
import pytest

from nalu_ray.results.store.store import Store

from .commands import call

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("fake")]

SWEEP = """
task: fake
presets:
  smoke:
    axes: {layer: [a, b]}
    set: {steps: 40, seconds: 0.2}
    seeds: 8
    overrides: [{when: {layer: [a]}, set: {wrong: hog, steps: 4}}]
    resources: {seeds_per_trial: 8}
"""
# what this machine's other work may come to take meanwhile, and a little of the trial's
ROOM = 4 * 2**30


def reasons(store: Store) -> list[str | None]:
    return [outcome.reason for outcome in store.outcomes("fake").values() if not outcome.ok]


def test_a_trial_that_takes_all_memory(fake: Any, tmp_path: Path) -> None:
    Path("sweep.yaml").write_text(SWEEP)
    machine = psutil.virtual_memory()
    threshold = (
        machine.total - machine.available + min(ROOM, machine.available / 2)
    ) / machine.total
    monitor = {
        "RAY_memory_usage_threshold": f"{threshold:.4f}",
        "RAY_memory_monitor_refresh_ms": "100",
    }
    code, text = call("fake --config sweep.yaml", **monitor)
    assert code == 1, text
    store = Store("results")
    failed = set(reasons(store))
    assert len(failed) == 1
    reason = str(failed.pop())
    pattern = (
        r"oom: 8 seeds at once did not fit, took ([\d.]+) GiB, reserved: 0\.70 GiB \(0\.68 for a "
        r"worker, 0\.02 for seeds\); --rerun-failed runs 4 at a time; OutOfMemoryError: .* was "
        r"[\d.]+GB used / [\d.]+GB limit \([\d.]+\)"
    )
    found = re.fullmatch(pattern, reason)
    assert found, reason
    assert float(found[1]) > 1
    # the other trial, which ran all the while, lost nothing
    assert sum(outcome.ok for outcome in store.outcomes("fake").values()) == 8
    (line,) = [line for line in text.splitlines() if line.startswith("failed: 8 seeds: oom: 8")]
    assert line
    assert len(text.splitlines()) < 40

    code, text = call("fake --config sweep.yaml --rerun-failed", **monitor)
    assert code == 0, text
    assert "8 done before; 8 to do" in text
    assert "2 trials, " in text
    assert not reasons(store)
