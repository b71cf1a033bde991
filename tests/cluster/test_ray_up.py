"""`ray up` on three hosts, as docs/cluster.md says: up, submit, fetch, down."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from nalu_ray.results.store.store import Store

from .commands import call, rows
from .hosts import ADDRESSES
from .up import DASHBOARD, Cluster, results

pytestmark = [pytest.mark.cluster, pytest.mark.hosts, pytest.mark.timeout(1500)]

SWEEP = "static --preset smoke layer=nac,nalu op=add,mul steps=500 seeds=2 --seeds-per-trial 1"


def test_the_file_is_accepted(on_hosts: Cluster) -> None:
    on_hosts.call("python", "-m", "nalu_ray.cluster", "check", str(on_hosts.file))


def test_a_sweep_uses_several_hosts(on_hosts: Cluster, tmp_path: Path) -> None:
    on_hosts.until(lambda: on_hosts.nodes() == sorted(ADDRESSES.values()))
    on_hosts.submit("static-1", f"{SWEEP} --address auto --out {results(on_hosts.lab)}")
    text = on_hosts.finish("static-1")
    assert "the cluster at auto" in text
    assert "http://127.0.0.1:8265; its token: ray get-auth-token" in text
    used = {
        task["node_id"]
        for task in on_hosts.state("tasks")
        if task["name"].startswith("static na") and task["state"] == "FINISHED"
    }
    assert len(used) >= 2

    fetched = on_hosts.lab.home / "fetched"
    words = ("ray", "rsync-down", str(on_hosts.file))
    on_hosts.call(*words, f"{results(on_hosts.lab)}/", f"{fetched}/")
    whole = tmp_path / "whole"
    assert call(f"{SWEEP} --out {whole} --local -q")[0] == 0
    pd.testing.assert_frame_equal(rows(fetched, "static"), rows(whole, "static"), check_exact=True)


def test_a_sweep_in_this_terminal(on_hosts: Cluster) -> None:
    out = on_hosts.lab.shared / "submitted"
    sweep = f"static --preset smoke layer=nac op=add seeds=1 --address auto --out {out}"
    words = ("ray", "submit", str(on_hosts.file), "nalu_ray/tune.py", "--", *sweep.split())
    assert "everything works; these are not results" in on_hosts.call(*words)
    assert len(Store(str(out)).outcomes("static")) == 1


def test_a_job_that_is_stopped_leaves_nothing(on_hosts: Cluster) -> None:
    out = on_hosts.lab.shared / "stopped"
    # for hours
    line = f"static layer=nac op=add seeds=1 steps=100000000 --address auto --out {out}"
    on_hosts.submit("static-2", line)
    on_hosts.until(lambda: "seed-steps/s" in on_hosts.ask("/api/jobs/static-2/logs")[1])
    assert on_hosts.job("static-2") == "RUNNING"
    on_hosts.call("ray", "job", "stop", "--address", DASHBOARD, "static-2")
    assert on_hosts.job("static-2") == "STOPPED"
    on_hosts.until(lambda: "ray::static" not in on_hosts.lab.all_processes(), 60)


def test_nothing_runs_as_root(on_hosts: Cluster) -> None:
    raylets = [line for line in on_hosts.lab.processes("w1") if "/raylet/raylet " in line]
    (pid,) = {line.split()[0] for line in raylets}
    assert on_hosts.lab.on("w1", "ps", "-o", "user=", "-p", pid).strip() == on_hosts.lab.user


@pytest.mark.parametrize(
    "path", ["/api/jobs/", "/api/v0/nodes", "/api/v0/tasks", "/nodes?view=summary"]
)
def test_who_has_no_token_is_refused(on_hosts: Cluster, path: str) -> None:
    assert on_hosts.ask(path, "")[0] == 401
    assert on_hosts.ask(path, "0" * 64)[0] in (401, 403)
    assert on_hosts.ask(path)[0] == 200


def test_a_job_without_a_token_does_not_run(on_hosts: Cluster) -> None:
    mark = on_hosts.lab.shared / "intruder"
    submit = ["ray", "job", "submit", "--address", DASHBOARD, "--", "touch", str(mark)]
    text = on_hosts.call(*submit, code=1, RAY_AUTH_MODE="disabled")
    assert "401" in text or "nauthorized" in text
    assert not mark.exists()


def test_the_dashboard_is_on_loopback(on_hosts: Cluster) -> None:
    on_hosts.call("bash", "-c", f"exec 3<>/dev/tcp/{ADDRESSES['head']}/8265", code=1)


def test_down_leaves_nothing(on_hosts: Cluster) -> None:
    on_hosts.down()
    for name in ADDRESSES:
        assert on_hosts.left(name) == []
