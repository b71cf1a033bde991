"""A Ray of our own: who reaches it, what is left of it, and what is said when it is lost."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import psutil
import pytest

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.machine import Capacity, Node
from nalu_ray.sweep.ray import cluster, liveness
from nalu_ray.sweep.scratch import TUNE
from tests.conftest import PYTHONPATH

from .test_runner import call, command, files, finish, processes, rows, seeds, until

SLOW = "fake layer=a lr=1 steps=20 seconds=0.1 seeds=3 --seeds-per-trial 1 --max-concurrent 1"
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: needs /proc")


def listening(session_id: int) -> dict[str, set[str]]:
    """The addresses that processes of a session listen on, by process."""
    heard: dict[str, set[str]] = {}
    for process in psutil.process_iter(["pid", "name"]):
        try:
            if os.getsid(process.pid) != session_id:
                continue
            sockets = process.net_connections("inet")
        except (psutil.Error, ProcessLookupError):
            continue
        for each in sockets:
            if each.status == psutil.CONN_LISTEN:
                heard.setdefault(process.info["name"], set()).add(each.laddr.ip)
    return heard


def of_session(session_id: int, name: str) -> list[psutil.Process]:
    """Ray's processes of a name in a session."""
    found = []
    for process in psutil.process_iter(["name", "status"]):
        try:
            if os.getsid(process.pid) == session_id and process.info["name"].startswith(name):
                found.append(process)
        except ProcessLookupError:
            continue
    return [process for process in found if process.info["status"] != psutil.STATUS_ZOMBIE]


@pytest.fixture
def swift(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, the fake task takes no time."""
    monkeypatch.setattr("nalu_fake.time", SimpleNamespace(sleep=lambda seconds: None))


def alive(session_id: int) -> list[str]:
    """What still runs of a session, but for what nobody has asked about its end yet."""
    return [line for line in processes(session_id) if "<defunct>" not in line]


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
@needs_proc
def test_nobody_else_reaches_a_sweep_and_ctrl_c_keeps_what_is_finished(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """tests/cluster/test_driver_killed.py has the other signals."""
    # long enough for a busy machine to look around; Ctrl-C ends it
    line = SLOW.replace("steps=20", "steps=4").replace("seeds=3", "seeds=400")
    process = command(line)
    until(lambda: len(files()) >= 3)
    heard = listening(process.pid)
    (gcs,) = of_session(process.pid, "gcs_server")
    (logs,) = {word.removeprefix("--log_dir=") for word in gcs.cmdline() if "--log_dir=" in word}
    log = Path(logs, "job-driver-nalu-ray.log").read_text()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everyone in the foreground
    code, text = finish(process)
    assert "400 trials, 1 at a time" in log
    assert {"gcs_server", "raylet"} <= set(heard)
    assert len(heard) >= 6, heard  # the dashboard, its agents, a worker, the driver
    addresses = set().union(*heard.values())
    assert {ip.removeprefix("::ffff:") for ip in addresses} == {"127.0.0.1"}, heard
    assert code == 130, text
    assert "interrupted: finished trials are stored; rerun the same command to resume" in text
    until(lambda: not alive(process.pid))
    assert not list(Path("results").glob(".*"))
    kept = len(seeds())
    assert 3 <= kept < 400
    assert not files(pattern="*.tmp")
    _, text = call(f"{line} --dry-run", capsys)
    assert f"{kept} done before; {400 - kept} to do" in text


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
@needs_proc
def test_the_raylet_dies(capsys: pytest.CaptureFixture[str]) -> None:
    """The driver would wait forever; tests/cluster/test_parts_killed.py has the other parts."""
    check_part_that_dies("raylet", r"part on this machine \(raylet\)", capsys)


def check_part_that_dies(victim: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A sweep on its own Ray says which part it lost, and goes on from what is stored."""
    process = command(SLOW)
    until(lambda: files() and of_session(process.pid, victim))
    of_session(process.pid, victim)[0].kill()
    out, err = process.communicate(timeout=200)
    assert "Traceback" not in out + err
    assert process.returncode == 3, out + err
    assert re.fullmatch(
        rf"error: Ray's {part} at 127\.0\.0\.1:\d+ has ended \(its logs: /.*/logs\); "
        r"finished trials are stored; once this works again, rerun the same command to resume",
        err.strip(),
    )
    until(lambda: not alive(process.pid))
    assert not Path("results", TUNE).exists()
    before = files()
    assert before
    assert call(f"{SLOW} --local", capsys)[0] == 0
    assert before < files()
    assert call(f"{SLOW} --local --out whole", capsys)[0] == 0
    pd.testing.assert_frame_equal(rows(), rows("whole"))


def test_a_part_that_is_stopped_is_lost_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system accepts connections for it, and it answers none."""
    monkeypatch.setattr(liveness, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        part = liveness.RayProcess("part", "127.0.0.1", server.getsockname()[1], patience=0.0)
        assert [part.lost() for _ in range(3)] == [False] * 3
        assert part.silent
        monkeypatch.setattr(liveness, "SILENCE_SECONDS", 0.0)
        assert part.lost()
    assert [part.lost() for _ in range(2)] == [True, True]
    assert not part.silent  # nothing listens any more


# -- one that does not start -----------------------------------------------------------------------


# the command in a child for each environment: to import it takes seconds
EACH = """
import json, os, sys
import ray.tune
from nalu_ray import tune
from nalu_ray.sweep import ray as started
for environment in map(json.loads, sys.argv[1:]):
    sys.stdout.flush()
    if not (child := os.fork()):
        os.environ.update(environment)
        code = tune.main(["fake", "--preset", "smoke"])
        sys.stdout.flush()
        os._exit(code)
    print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_a_ray_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / ("x" * 100)).mkdir()
    home = {"HOME": str(tmp_path)}
    wrong = [
        ({"HOME": str(tmp_path / "file")}, "NotADirectoryError: .*/file/"),
        ({**home, "RAY_TMPDIR": str(tmp_path / "file")}, "NotADirectoryError: .*/file"),
        ({**home, "RAY_TMPDIR": str(tmp_path / ("x" * 100))}, "OSError: .*path length"),
        # as /tmp/ray of another user: nobody, root neither, may write there
        (
            {**home, "RAY_TMPDIR": "/proc/sys"},
            "[A-Za-z]+Error: .*/proc/sys/ray",
        ),
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", EACH, *(json.dumps(environment) for environment, _ in wrong)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "RAY_AUTH_MODE": "token"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    text, _ = process.communicate(timeout=200)
    until(lambda: not alive(process.pid))  # nothing of a session may be left
    lines = text.splitlines()
    assert lines[1::2] == ["exit 2"] * 4, text
    for error, (_, reason) in zip(lines[::2], wrong, strict=True):
        assert re.match(rf"error: Ray cannot start here: {reason}", error)
        assert "with --local, only gridworld needs Ray" in error
        assert "RAY_TMPDIR" in error
        assert "HOME" in error


def test_what_was_begun_is_ended() -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        begun.append(subprocess.Popen(["sleep", "600"], start_new_session=True))
        raise FileNotFoundError(2, "No such file or directory", "/tmp/ray/logs/raylet.out")

    with pytest.raises(ConfigError) as met, cluster.starting():
        start()
    assert begun[0].wait(timeout=60) == -signal.SIGKILL
    (line,) = met.value.messages
    assert "/tmp/ray/logs/raylet.out" in line


def test_a_signal_while_it_starts_is_no_mistake() -> None:
    with pytest.raises(SystemExit), cluster.starting():
        raise SystemExit(signal.SIGTERM)


@pytest.mark.parametrize("address", ["http://127.0.0.1:8265", "https://head:443/ray"])
@pytest.mark.parametrize("by", ["RAY_ADDRESS=", "--address "])
def test_the_address_of_a_dashboard_is_explained(
    address: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address if by.startswith("RAY") else "")
    with pytest.raises(ConfigError) as met, cluster.connect(address):
        pass
    (line,) = met.value.messages
    assert line.startswith(f"{by}{address}: this is where jobs are submitted")
    assert "HOST:PORT" in line


@pytest.mark.parametrize("address", [":6379", "head:", "head:abc", "head:99999999", "head:\u0663"])
def test_half_an_address_is_explained(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError) as met, cluster.connect(address):
        pass
    assert met.value.messages == [
        f"--address {address}: HOST:PORT is needed, such as 10.0.0.1:6379, or auto"
    ]
    assert capfd.readouterr().err == ""


def test_loopback_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    constants: Any = cluster.ray_constants
    monkeypatch.setattr(constants, "ENABLE_RAY_CLUSTER", True)
    monkeypatch.delenv(cluster.ADDRESS_FLAG, raising=False)
    with cluster.loopback():
        assert constants.ENABLE_RAY_CLUSTER is False
        assert os.environ[cluster.ADDRESS_FLAG] == "0"
    assert constants.ENABLE_RAY_CLUSTER is True
    assert cluster.ADDRESS_FLAG not in os.environ
    monkeypatch.setenv(cluster.ADDRESS_FLAG, "1")
    with cluster.loopback():
        assert constants.ENABLE_RAY_CLUSTER is True


def test_what_ray_changes_in_the_process_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in cluster.QUIET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TUNE_DISABLE_SIGINT_HANDLER", "0")  # the user's own stays
    environment = dict(os.environ)
    levels = {name: logging.getLogger(name).level for name in ("ray", *cluster.SILENT)}
    handler = signal.getsignal(signal.SIGTERM)

    def start(**arguments: Any) -> Any:
        """What Ray leaves behind, as seen."""
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["PYTHONBREAKPOINT"] = "ray.util.rpdb._driver_set_trace"
        os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
        logging.getLogger("ray").setLevel(logging.ERROR)
        signal.signal(signal.SIGTERM, lambda *_: None)
        return SimpleNamespace(dashboard_url="")

    ray: Any = SimpleNamespace(
        init=start,
        is_initialized=lambda: False,
        shutdown=lambda: None,
        _private=cluster.ray._private,
    )
    monkeypatch.setattr(cluster, "ray", ray)
    monkeypatch.setattr(cluster, "register", lambda: None)
    monkeypatch.setattr(cluster, "private_token", lambda: None)
    with cluster.start(Capacity("test", (Node(2, 0, 2**30),))) as session:
        assert session.guarded
        assert logging.getLogger("ray.tune").level == logging.CRITICAL
        assert os.environ["RAY_AIR_NEW_OUTPUT"] == "0"
    assert dict(os.environ) == environment
    assert {name: logging.getLogger(name).level for name in levels} == levels
    assert signal.getsignal(signal.SIGTERM) == handler


# -- one beside trials in the command's process ----------------------------------------------------

GRIDWORLD = (
    "gridworld variant=nac_core algorithm=a3c runners=1 size=3 instructions=3:5 time_limit=8 "
    "warmup=0 steps=2000000 evaluations=200 validation_episodes=1 test_instructions=3:5 "
    "test_time_limit=8 test_episodes=1 far_instructions=6 envs=16 seeds=1 --local"
)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return tmp_path


@pytest.mark.slow
@needs_proc
def test_gridworld_alone_is_reached_by_nobody_and_names_what_it_lost(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty / "home").mkdir()
    environment = {
        **os.environ,
        "HOME": str(empty / "home"),
        "PYTHONPATH": PYTHONPATH,
        "RAY_AUTH_MODE": "token",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "nalu_ray.tune", *GRIDWORLD.split()],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: of_session(process.pid, "ray::A3CRunner"))
    heard = listening(process.pid)
    token = empty / "home" / ".ray" / "auth_token"
    mode = oct(token.stat().st_mode & 0o777)
    of_session(process.pid, "raylet")[0].kill()
    out, err = process.communicate(timeout=200)
    assert {"gcs_server", "raylet"} <= set(heard)
    addresses = set().union(*heard.values())
    assert {ip.removeprefix("::ffff:") for ip in addresses} == {"127.0.0.1"}, heard
    assert mode == "0o600"
    assert "Traceback" not in out + err
    assert process.returncode == 3, out + err
    lost = err.splitlines()[-1]  # RLlib warns before
    assert re.match(r"error: Ray's part on this machine \(raylet\) at .* has ended", lost), err
    until(lambda: not alive(process.pid))
    assert not Path("results", TUNE).exists()
    assert not files("results/gridworld")  # nothing is stored as failed


@pytest.mark.slow
def test_gridworld_alone_whose_ray_cannot_start_is_one_line(empty: Path) -> None:
    (empty / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "nalu_ray.tune", *GRIDWORLD.split(), "--quiet"],
        env={
            **os.environ,
            "HOME": str(empty / "file"),
            "PYTHONPATH": PYTHONPATH,
            "RAY_AUTH_MODE": "token",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: Ray cannot start here: ")
    assert not files("results/gridworld")
