"""Workers that are lost in mid-trial: trials go on elsewhere, no row is lost or doubled."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from nalu_ray import registry
from nalu_ray.results.store import states
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.dispatch import TrialSpec
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, make_plan
from nalu_ray.sweep.presets import expand, load_sweep
from nalu_ray.sweep.resources import Resources

from .commands import call, rows
from .hosts import ADDRESSES
from .up import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.hosts, pytest.mark.timeout(1500)]

# a slot for each CPU of three hosts
CHANGES = {"layer": ["nac", "nalu"], "op": ["mul"], "steps": [5000], "evaluations": [50]}
SEEDS = 3
WORDS = [f"{name}={','.join(map(str, values))}" for name, values in CHANGES.items()]
SWEEP = f"static --preset smoke {' '.join(WORDS)} seeds={SEEDS} --seeds-per-trial 1"
TRIALS = 6


def running(cluster: Cluster, host: str) -> list[str]:
    """The trials that a host runs, by label; Ray names the processes so."""
    lines = cluster.lab.processes(host)
    return [match[1] for line in lines if (match := re.search(r"ray::(static \S.*)", line))]


def start(cluster: Cluster, name: str, host: str) -> tuple[Path, set[str]]:
    """Starts a sweep; returns where, and what the host runs and has kept a state of."""
    out = cluster.lab.shared / name
    cluster.submit(name, f"{SWEEP} --address auto --out {out}", eager=True)
    labels = trials()

    def kept() -> set[str]:
        blocks = states.blocks(Store(str(out)), "static")
        return {labels[block] for block in blocks} & set(running(cluster, host))

    cluster.until(kept)
    return out, kept()


def trials() -> dict[tuple[str, tuple[int, ...]], str]:
    """The sweep's trials by setting and seeds."""
    task, preset = registry.task("static"), load_sweep("static").presets["smoke"]
    points = expand(preset, task.setting_type, CHANGES, seeds=tuple(range(SEEDS)))
    job = Job("", Resources(seeds_per_trial=1), 1.0)
    plan = make_plan(task, points, {}, job, Capacity("any", (Node(1, 0, 64 * GIB),)))
    return {(trial.setting_id, trial.seeds): trial.label for trial in plan.trials}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the sweep stores where nothing is lost."""
    out = tmp_path_factory.mktemp("whole")
    assert call(f"{SWEEP} --out {out} --local -q")[0] == 0
    return out


def check(cluster: Cluster, whole: Path, out: Path, lost: set[str]) -> None:
    """The job ends well, what was lost went on from its state, and every row is there once."""
    text = cluster.finish(out.name)
    assert f"{TRIALS} of {TRIALS} seeds ran" in text
    assert not [line for line in text.splitlines() if line.startswith("failed: ")], text
    assert "lost the worker" in text
    resumed = {
        TrialSpec.model_validate(found["spec"]).label: found["resumed"]
        for found in Store(str(out)).manifests("static")
    }
    assert len(resumed) == TRIALS
    assert lost
    for label in lost:
        assert resumed[label]["step"] > 0, label
    pd.testing.assert_frame_equal(rows(out, "static"), rows(whole, "static"), check_exact=True)
    assert not list(out.glob(".*"))


def test_a_raylet_is_killed(on_hosts: Cluster, whole: Path) -> None:
    on_hosts.until(lambda: on_hosts.nodes() == sorted(ADDRESSES.values()))
    out, lost = start(on_hosts, "raylet-killed", "w1")
    (raylet,) = {
        line.split()[0] for line in on_hosts.lab.processes("w1") if "/raylet/raylet " in line
    }
    on_hosts.lab.on("w1", "kill", "-9", raylet)
    check(on_hosts, whole, out, lost)


def test_a_host_is_lost(on_hosts: Cluster, whole: Path) -> None:
    out, lost = start(on_hosts, "host-lost", "w2")
    on_hosts.lab.kill("w2")
    try:
        check(on_hosts, whole, out, lost)
    finally:
        on_hosts.lab.boot("w2")
    on_hosts.until(lambda: on_hosts.nodes() == sorted(ADDRESSES.values()))  # it is taken back
