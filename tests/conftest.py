"""Shared by all tests."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest
import torch
from hypothesis import settings

from nalu_ray import registry
from nalu_ray.sweep.device import REHEARSE

# small tensors on a busy machine: one thread is faster, and sums come out the same everywhere
torch.set_num_threads(1)

# a busy machine is no failure
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

FAKE_PACKAGE = Path(__file__).parent / "fake_task"
PYTHONPATH = os.pathsep.join([str(FAKE_PACKAGE), str(Path(__file__).parents[1])])


ON_RAY = ("sweep/test_runner.py", "sweep/test_own_ray.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the tests on Ray first: they wait most of the time, and the processes wait together."""
    if not getattr(config.option, "loadgroup", False):
        return
    items.sort(key=lambda item: not _is_on_ray(item))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends Ray after the last test on it: even idle, its processes take a tenth of a core."""
    if nextitem is None or not getattr(item.config.option, "loadgroup", False):
        return
    if _is_on_ray(item) and not _is_on_ray(nextitem) and "ray" in sys.modules:
        sys.modules["ray"].shutdown()


def _is_on_ray(item: pytest.Item) -> bool:
    if getattr(item, "callspec", None) and item.callspec.params.get("name") == "gridworld":  # type: ignore[attr-defined]
        return True  # of tests/test_every_task.py
    return "cluster" in getattr(item, "fixturenames", ()) or item.path.as_posix().endswith(ON_RAY)


@pytest.fixture(scope="session", autouse=True)
def _quick_disk() -> Iterator[None]:
    """No test outlives a loss of power: in this process nothing waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_stacks() -> Iterator[None]:
    """Stacks come without source lines, for which each of pytest's frames takes milliseconds.

    RLlib asks for its caller at every part that it makes, and uses nothing but the frame.
    """

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        found: list[inspect.FrameInfo] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            place = (frame, code.co_filename, frame.f_lineno, code.co_name, None, None)
            found.append(inspect.FrameInfo(*place))
            frame = frame.f_back
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "stack", stack)
        yield


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the user's measured speeds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NALU_RAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _activated() -> Iterator[None]:
    """Commands are printed as in an activated environment, wherever its Python lies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
        yield


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands print as wide as without a terminal, whatever shell or test ran before."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def fake(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The task of tests/fake_task, found as another package's would be; in an empty folder.

    No other test has measured its speed, which may be anything.
    """
    monkeypatch.setenv("NALU_RAY_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.syspath_prepend(FAKE_PACKAGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    registry.everything.cache_clear()
    yield registry.task("fake")
    registry.everything.cache_clear()


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """A Ray of two CPUs and two would-be GPUs for all tests that need one; its address."""
    import ray
    from ray.tune.utils.util import UtilMonitor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UtilMonitor, "start", lambda self: None)  # each stop waits for its sleep
        patch.setenv("PYTHONPATH", PYTHONPATH)
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv(REHEARSE, "1")  # else a trial that reserves one of the GPUs fails
        context = _started()
        yield str(context.address_info["gcs_address"])
        ray.shutdown()


def _started(tries: int = 3) -> Any:
    """Starts Ray; on a busy machine it may give up on a part of its own after half a minute."""
    import ray

    before = set(psutil.Process().children(recursive=True))
    for left in reversed(range(tries)):
        try:
            return ray.init(
                address="local",
                num_cpus=2,
                num_gpus=2,
                object_store_memory=100 * 2**20,
                _memory=8 * 2**30,
                log_to_driver=False,
                logging_level="ERROR",
            )
        except Exception:
            if not left:
                raise
            ray.shutdown()
            for process in set(psutil.Process().children(recursive=True)) - before:
                with contextlib.suppress(psutil.Error):
                    process.kill()
    raise AssertionError
