"""Parts of Ray that die: of another process's Ray, and an agent that takes its raylet along.

tests/sweep/test_own_ray.py has the raylet of a Ray that the command has started.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nalu_ray.sweep.scratch import TUNE
from tests.conftest import PYTHONPATH
from tests.sweep.test_own_ray import (  # noqa: F401
    SLOW,
    alive,
    check_part_that_dies,
    needs_proc,
    of_session,
    swift,
)
from tests.sweep.test_runner import call, command, files, until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("swift"), needs_proc]

# whoever starts the command does not wait for a head that may come back
IMPATIENT = "from nalu_ray.sweep.ray import liveness; liveness.PATIENCE_SECONDS = 2.0"
HOLDER = """
import time, ray
started = ray.init(address="local", num_cpus=1, _memory=2**33, object_store_memory=100 * 2**20)
print(started.address_info["gcs_address"], flush=True)
time.sleep(600)
"""


@pytest.fixture
def anothers() -> Iterator[subprocess.Popen[str]]:
    """A Ray that another process has started; the address is its first line."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "RAY_AUTH_MODE": "disabled"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    yield holder
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == holder.pid:
                process.kill()
    holder.communicate()


@pytest.mark.parametrize("victim", ["raylet", "gcs_server"])
def test_a_part_of_anothers_ray_that_dies(
    victim: str, anothers: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """As at the loss of a head, or of the node that the driver runs on."""
    assert anothers.stdout
    address = anothers.stdout.readline().strip()
    process = command(f"{SLOW} --address {address}", IMPATIENT)
    until(files, 120)
    of_session(anothers.pid, victim)[0].kill()
    out, err = process.communicate(timeout=180)
    assert "Traceback" not in out + err
    assert process.returncode == 3, out + err
    assert re.fullmatch(
        rf"error: Ray's .*{victim}.* has ended .*, rerun the same command to resume", err.strip()
    )
    until(lambda: not alive(process.pid))
    assert not Path("results", TUNE).exists()
    assert call(f"{SLOW} --local", capsys)[0] == 0


def test_the_head_of_its_own_ray_dies(capsys: pytest.CaptureFixture[str]) -> None:
    check_part_that_dies("gcs_server", r"head \(gcs_server\)", capsys)


def test_an_agent_takes_its_raylet_along(capsys: pytest.CaptureFixture[str]) -> None:
    process = command(SLOW)
    until(lambda: files() and of_session(process.pid, "ray::DashboardAgent"), 120)
    of_session(process.pid, "ray::DashboardAgent")[0].kill()
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in out + err
    assert process.returncode == 3, out + err
    assert re.match(r"error: Ray's part on this machine \(raylet\) at .* has ended ", err)
    until(lambda: not alive(process.pid))
    assert not Path("results", TUNE).exists()
    assert call(f"{SLOW} --local", capsys)[0] == 0
