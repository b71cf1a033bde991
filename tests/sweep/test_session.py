"""What a cluster offers, counting what may come yet."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray
import yaml

from nalu_ray.sweep.machine import Node
from nalu_ray.sweep.ray import cluster

LAUNCHED = {
    "max_workers": 3,
    "head_node_type": "head",
    "available_node_types": {
        "head": {"resources": {"CPU": 0}, "max_workers": 0},
        "gpu": {"resources": {"CPU": 4, "GPU": 1, "memory": 10**10}, "max_workers": 2},
        "cpu": {"resources": {"CPU": 8}},
    },
}


@pytest.fixture
def one_of_three(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A head and one worker of the three that the launcher's file allows."""
    file = tmp_path / "ray_bootstrap_config.yaml"
    file.write_text(yaml.safe_dump(LAUNCHED, sort_keys=False))
    alive = [{"memory": 10**9}, {"CPU": 4, "GPU": 1, "memory": 10**10}]
    nodes = [{"Alive": True, "Resources": found} for found in alive]
    monkeypatch.setattr(ray, "nodes", lambda: [*nodes, {"Alive": False, "Resources": {"CPU": 99}}])
    monkeypatch.setattr(cluster, "LAUNCHED", file)


@pytest.mark.usefixtures("one_of_three")
def test_what_the_launcher_may_still_add_counts() -> None:
    found = cluster._capacity("auto").nodes
    assert found[:2] == (Node(0, 0, 10**9), Node(4, 1, 10**10))
    # two more may come; one that says nothing of memory gets no trial that asks for some
    assert found[2:] == (Node(4, 1, 10**10), Node(8, 0, 0))
