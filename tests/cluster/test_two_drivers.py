"""Two commands on one store, clocks that disagree, and nodes that differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import nalu_ray
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.device import REHEARSE
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, Plan, make_plan
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.trial import Trial
from tests.conftest import FAKE_PACKAGE, PYTHONPATH

from .commands import call, command, finish, rows, stored

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("fake")]

YEAR = 365 * 24 * 3600


def test_two_commands_at_once(cluster: str) -> None:
    sweep = "static --preset smoke layer=nac,nalu op=add,mul steps=400 seeds=4 --seeds-per-trial 2"
    line = f"{sweep} --out shared --max-concurrent 1 --address {cluster}"
    with command(line, eager=True) as first, command(line, eager=True) as second:
        for process in (first, second):
            code, text = finish(process, 240)
            assert code == 0, text
    assert len(stored("shared", "static")) > 0
    assert call(f"{sweep} --out whole --local -q")[0] == 0
    pd.testing.assert_frame_equal(
        rows("shared", "static"), rows("whole", "static"), check_exact=True
    )
    assert not list(Path("shared").glob(".*"))
    assert not list(Path("shared").rglob("*.tmp"))


# -- clocks ----------------------------------------------------------------------------------------


def plan(task: Any, out: str, **values: Any) -> Plan:
    points = [Point(setting=task.setting_type(**values), seeds=(0, 1, 2))]
    job = Job(out, Resources(seeds_per_trial=1), 1.0)
    stored_ = Store(out).outcomes("fake")
    return make_plan(task, points, stored_, job, Capacity("test", (Node(1, 0, 8 * GIB),)))


@pytest.mark.parametrize("order", [(10, 0, -40), (-40, 10, 0)])
def test_clocks_that_disagree(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    """Files of hosts whose clocks are ten years ahead and forty behind."""
    here, now = str(tmp_path / "here"), time.time()
    for spec in plan(fake, str(tmp_path / "whole")).trials:
        list(Trial(spec))
    for spec, years in zip(plan(fake, here).trials, order, strict=True):
        clock = now + years * YEAR
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda clock=clock: clock)
            patch.setattr(time, "time_ns", lambda clock=clock: int(clock * 1e9))
            list(Trial(spec))
        for path in Path(here, "fake").glob(f"{spec.setting_id}*"):
            os.utime(path, (clock, clock))
    writing = Path(here, "fake", "other.parquet.1234abcd.tmp")
    writing.touch()  # by whoever writes at this moment
    Store(here).check_writable("fake")
    assert writing.exists()
    assert plan(fake, here).trials == ()
    pd.testing.assert_frame_equal(
        rows(here, "fake"), rows(tmp_path / "whole", "fake"), check_exact=True
    )


@pytest.mark.parametrize("years", [10, -40])
def test_what_completed_counts_whatever_the_clock_said(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    out, now = str(tmp_path), time.time()
    spec, *_ = plan(fake, out).trials
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: int((now + years * YEAR) * 1e9))
        Trial(spec).fail_with("lost", 1)
    list(Trial(spec))
    (seed,) = spec.seeds
    key = (spec.setting_id, seed)
    outcome = Store(out).outcomes("fake")[key]
    assert (outcome.status, outcome.block, outcome.reason) == ("completed", 1, None)
    assert [left.seeds for left in plan(fake, out).trials] == [(1,), (2,)]


# -- nodes -----------------------------------------------------------------------------------------

SEVERAL_NODES = """
import sys
from ray.cluster_utils import Cluster
from nalu_ray import tune

memory = 2 * 2**30
head = dict(num_cpus=1, memory=memory, object_store_memory=100 * 2**20)
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.add_node(
    num_cpus=1, num_gpus=1, memory=memory, object_store_memory=100 * 2**20,
    env_vars={"PYTHONPATH": sys.argv[1]},
)
try:
    for line in sys.argv[2:]:
        code = tune.main([*line.split(), "--address", cluster.address])
        sys.stderr.flush()
        print("exit", int(code), flush=True)
finally:
    cluster.shutdown()
"""


def on_two_nodes(path: str, *lines: str) -> str:
    """Runs commands on a head and a node with a GPU whose packages lie elsewhere."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL_NODES, path, *lines],
        env={
            **os.environ, "PYTHONPATH": PYTHONPATH, "RAY_AUTH_MODE": "disabled", REHEARSE: "1",
        },
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout


def test_what_no_single_node_can_hold_is_refused() -> None:
    text = on_two_nodes(
        PYTHONPATH,
        "fake --preset smoke --cpus-per-trial 2",
        "fake --preset smoke hidden=2000 seeds=1",
        "fake --preset smoke --gpus-per-trial 0.5 -q",
    )
    assert "a trial asks for 2 CPUs (the largest node has 1)" in text
    assert "2.64 GiB (the largest node has 2)" in text
    assert text.count("fits on no node of the cluster at") == 2
    assert [line for line in text.splitlines() if line.startswith("exit")] == [
        *["exit 2"] * 2,
        "exit 0",
    ]


def test_a_node_with_another_version_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    root = Path(nalu_ray.__file__).parents[1]
    for package in ("nalu_ray", "envs"):
        shutil.copytree(root / package, other / package)
    path = f"{other}:{FAKE_PACKAGE}"
    module = other / "nalu_ray" / "__init__.py"
    code = module.read_text()
    module.write_text(code.replace(nalu_ray.__version__, "0.0.9"))
    text = on_two_nodes(path, "fake --preset smoke --out results")
    assert "exit 2" in text
    assert f"has nalu_ray 0.0.9, this command {nalu_ray.__version__}: install the same" in text
    assert not stored("results", "fake")
