"""Commands that are killed, terminated and interrupted: the same command goes on, row for row."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from .commands import call, command, finish, processes, rows, stored, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200), pytest.mark.usefixtures("fake")]

# one trial that takes a while, and many short ones
SWEEP = """
task: static
presets:
  smoke:
    axes: {layer: [nac, nalu], op: [add, mul], lr: [0.01, 0.02, 0.03]}
    set: {steps: 400, evaluations: 10}
    seeds: 4
    overrides:
      - when: {layer: [nalu], op: [mul], lr: [0.01]}
        set: {steps: 8000, evaluations: 40}
        seeds: 1
    resources: {seeds_per_trial: 1}
"""
KILLS = 8
BEFORE_IT_IS_UP = 3


def manifests(out: str) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in Path(out, "static").glob("*-*.json")]


def kill_at_random(line: str, moments: random.Random, early: bool) -> bool:
    """Starts the command and kills it; returns whether it was still at work."""
    with command(line, eager=True) as process:
        if early:
            time.sleep(moments.uniform(0, 4))
        else:
            count = len(stored("killed", "static")) + moments.randint(0, 3)
            assert process.stdout is not None
            process.stdout.readline()  # the dashboard's: Ray is there
            until(lambda: len(stored("killed", "static")) >= count or process.poll() is not None)
            time.sleep(moments.uniform(0, 0.5))
        alive = process.poll() is None
        process.kill()
        process.wait()
    return alive


def test_a_driver_killed_again_and_again(cluster: str) -> None:
    Path("sweep.yaml").write_text(SWEEP)
    assert call("static --config sweep.yaml --out whole --local -q")[0] == 0
    line = f"static --config sweep.yaml --out killed --address {cluster}"
    moments = random.Random(20)
    early = [True] * BEFORE_IT_IS_UP + [False] * (KILLS - BEFORE_IT_IS_UP)
    moments.shuffle(early)
    hit = [kill_at_random(line, moments, how) for how in early]
    assert sum(hit) == KILLS, "the sweep is too short to be killed so often"
    assert len(stored("killed", "static")) > 0

    code, text = call(line, eager=True)
    assert code == 0, text
    pd.testing.assert_frame_equal(
        rows("killed", "static"), rows("whole", "static"), check_exact=True
    )
    resumed = [found for found in manifests("killed") if found["resumed"]]
    assert resumed, "nothing went on from a state"
    assert not Path("killed", ".states").exists()
    assert not list(Path("killed").rglob("*.tmp"))


SLOW = "fake layer=a lr=1 steps=4 seconds=0.1 seeds=24 --seeds-per-trial 1 --max-concurrent 1"


@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGTERM,), 143), ((signal.SIGHUP,), 143), ((signal.SIGINT, signal.SIGINT), 130)],
    ids=["terminated", "hung up", "interrupted twice"],
)
def test_a_command_with_a_ray_of_its_own(signals: tuple[signal.Signals, ...], code: int) -> None:
    with command(SLOW) as process:
        until(lambda: len(stored("results", "fake")) >= 3)
        for number in signals:
            process.send_signal(number)
            time.sleep(0.3)
        ended, text = finish(process)
        until(lambda: not processes(process.pid))
    assert ended == code, text
    assert "finished trials are stored; rerun the same command to resume" in text
    assert not list(Path("results").rglob("*.tmp"))

    kept = len(stored("results", "fake"))
    assert 3 <= kept < 24
    ended, text = call(f"{SLOW} --local")  # what goes on on Ray is above
    assert ended == 0
    assert f"{kept} done before; {24 - kept} to do" in text
    assert not list(Path("results").glob(".*"))
    assert len(stored("results", "fake")) == 24
    call(f"{SLOW} --out whole --local -q")
    pd.testing.assert_frame_equal(rows("results", "fake"), rows("whole", "fake"), check_exact=True)
