"""Hosts on this machine with a cluster on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .hosts import ADDRESSES, lab
from .up import Cluster, on_premise


@pytest.fixture(scope="session")
def on_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head and two workers that ``ray up cluster/on_premise.yaml`` started."""
    with lab(tmp_path_factory.mktemp("lab"), "nalu", *ADDRESSES) as hosts:
        cluster = Cluster(hosts, on_premise(hosts))
        cluster.up()
        yield cluster
