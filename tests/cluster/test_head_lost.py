"""The head of a cluster that `ray up` started dies in mid-sweep, as docs/cluster.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from nalu_ray.results.store import states
from nalu_ray.results.store.store import Store

from .commands import call, rows
from .hosts import ADDRESSES
from .up import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.hosts, pytest.mark.timeout(1500)]

SWEEP = (
    "static --preset smoke layer=nac op=mul steps=5000 evaluations=50 seeds=3 --seeds-per-trial 1"
)


def test_the_head_dies_and_the_same_command_goes_on(on_hosts: Cluster, tmp_path: Path) -> None:
    on_hosts.until(lambda: on_hosts.nodes() == sorted(ADDRESSES.values()))
    out, log = on_hosts.lab.shared / "head-lost", tmp_path / "driver.log"
    line = f"{SWEEP} --address auto --out {out}"
    words = ("ray", "submit", str(on_hosts.file), str(on_hosts.eager), "--", *line.split())
    driver = on_hosts.lab.start(*words, log=log, **on_hosts.environment)
    on_hosts.until(lambda: states.blocks(Store(str(out)), "static"))
    (gcs,) = {p.split()[0] for p in on_hosts.lab.processes("head") if "/gcs/gcs_server " in p}
    on_hosts.lab.on("head", "kill", "-9", gcs)
    on_hosts.until(lambda: driver.poll() is not None, 180)
    text = log.read_text(encoding="utf-8")
    ended = r"error: Ray's (head \(gcs_server\)|part on this machine \(raylet\)) .* has ended "
    assert re.search(ended, text), text
    assert "rerun the same command to resume" in text
    assert "Traceback" not in text, text

    on_hosts.call("ray", "up", str(on_hosts.file), "-y")  # which stops and starts Ray everywhere
    on_hosts.until(lambda: on_hosts.nodes() == sorted(ADDRESSES.values()))
    on_hosts.submit("head-lost-2", line)
    on_hosts.finish("head-lost-2")
    whole = tmp_path / "whole"
    assert call(f"{SWEEP} --out {whole} --local -q")[0] == 0
    pd.testing.assert_frame_equal(rows(out, "static"), rows(whole, "static"), check_exact=True)
    assert not list(out.glob(".*"))
