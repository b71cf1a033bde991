"""Hosts on this machine with a cluster on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .hosts import ADDRESSES, lab
from .up import Cluster, on_premise


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`, a file's tests run in one process, and so do all on the same hosts.

    Most of the time they wait: for a host, for Ray, for what was killed to be missed.
    """
    for item in items:
        shared = "on_hosts" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("on_hosts" if shared else item.path.name))


@pytest.fixture(scope="session")
def on_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head and two workers that ``ray up cluster/on_premise.yaml`` started."""
    with lab(tmp_path_factory.mktemp("lab"), "nalu", *ADDRESSES) as hosts:
        cluster = Cluster(hosts, on_premise(hosts))
        cluster.up()
        yield cluster
