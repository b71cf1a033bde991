"""Shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nalu_ray import registry

# small tensors on a busy machine: one thread is faster, and sums come out the same everywhere
torch.set_num_threads(1)

FAKE_PACKAGE = Path(__file__).parent / "fake_task"
PYTHONPATH = os.pathsep.join([str(FAKE_PACKAGE), str(Path(__file__).parents[1])])


ON_RAY = ("sweep/test_runner.py", "sweep/test_own_ray.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the tests on Ray first: they wait most of the time, and the processes wait together."""
    if not getattr(config.option, "loadgroup", False):
        return
    items.sort(key=lambda item: not _is_on_ray(item))


def _is_on_ray(item: pytest.Item) -> bool:
    return "cluster" in getattr(item, "fixturenames", ()) or item.path.as_posix().endswith(ON_RAY)


@pytest.fixture(scope="session", autouse=True)
def _quick_disk() -> Iterator[None]:
    """No test outlives a loss of power: in this process nothing waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The task of tests/fake_task, found as another package's would be; in an empty folder."""
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

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PYTHONPATH)
        patch.setenv("RAY_AUTH_MODE", "disabled")
        context = ray.init(
            address="local",
            num_cpus=2,
            num_gpus=2,
            object_store_memory=100 * 2**20,
            _memory=8 * 2**30,
            log_to_driver=False,
            logging_level="ERROR",
        )
        yield str(context.address_info["gcs_address"])
        ray.shutdown()
