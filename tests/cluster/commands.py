"""The real command as a process of its own, and what it stores."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from nalu_ray.results.store.store import Store
from tests.conftest import PYTHONPATH

# what a shell starts in the background ignores it, and so does all that this starts
HEEDING_CTRL_C = ["env", "--default-signal=INT,HUP"]
# the command, but with states (and so, reports) as often as can be
EAGER = """
import functools, sys
from nalu_ray import tune
from nalu_ray.sweep import ray
ray.run = functools.partial(ray.run, state_seconds=0.0)
sys.exit(tune.main(sys.argv[1:]))
"""


@contextmanager
def command(line: str, eager: bool = False, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Starts the command in a session of its own; whatever is left of it in the end is killed."""
    program = ["-c", EAGER] if eager else ["-m", "nalu_ray.tune"]
    process = subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, *program, *shlex.split(line)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "RAY_AUTH_MODE": "disabled", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pid in processes(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if process.stdout:
            process.stdout.close()


def finish(process: subprocess.Popen[str], seconds: float = 240) -> tuple[int, str]:
    """Waits for a command's end; returns its exit code and what it printed."""
    text, _ = process.communicate(timeout=seconds)
    assert "Traceback" not in text, text
    return process.returncode, text


def call(line: str, eager: bool = False, **environment: str) -> tuple[int, str]:
    """Runs a command to its end."""
    with command(line, eager, **environment) as process:
        return finish(process)


def processes(session: int) -> list[int]:
    """What still runs of the session that a command was started in."""
    asked = ["ps", "-o", "pid=", "-s", str(session)]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in found.split()]


def until(happened: Callable[[], Any], seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)  # to look takes the processor from those that are waited for


def rows(out: str | Path, task: str) -> pd.DataFrame:
    """Every row that counts, in an order of its own. No column of them is provenance."""
    frame = Store(str(out)).load(task)
    return frame.sort_values(list(frame.columns)).reset_index(drop=True)


def stored(out: str | Path, task: str) -> set[str]:
    return {path.name for path in Path(out, task).glob("*.parquet")}
