"""The choice among stored agents."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from envs import World
from nalu_ray.errors import ConfigError
from nalu_ray.results.store.networks import describe
from nalu_ray.results.store.store import StoreError
from nalu_ray.rl.agent.choice import best
from nalu_ray.rl.agent.network import NetworkConfig
from nalu_ray.rl.agent.stored import Agent, build_network

WORLD = World(size=3, cell_pixels=2, instructions=(3, 5), time_limit=8)


def store(out: Path, name: str, **about: Any) -> str:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build_network(NetworkConfig(vision=8, hidden=6), WORLD)
    path = out / "gridworld" / f"{name}.agent.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Agent(network, WORLD, about).to_bytes())
    return str(path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    store(tmp_path, "a", variant="lstm", algorithm="a3c", seed=0, exact=0.5)
    store(tmp_path, "b", variant="lstm", algorithm="impala", seed=1, exact=0.875)
    store(tmp_path, "c", variant="nac_core", algorithm="a3c", seed=0, exact=0.75)
    store(tmp_path, "d", variant="nac_core", algorithm="a3c", seed=1, exact=0.75)
    store(tmp_path, "e", variant="lstm", algorithm="a3c", seed=2, exact=math.nan)
    store(tmp_path, "f", algorithm="none")
    (tmp_path / "gridworld" / "rows.json").write_bytes(b"rows")
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ({}, "b"),
        ({"algorithm": "a3c"}, "c"),
        ({"variant": "nac_core", "seed": "1"}, "d"),
        ({"variant": "lstm", "algorithm": "a3c"}, "a"),
        ({"variant": "lstm", "seed": "2"}, "e"),
        ({"algorithm": "none"}, "f"),
        ({"exact": "0.5"}, "a"),
    ],
)
def test_the_highest_exact_of_those_that_match(
    out: Path, wanted: dict[str, str], name: str
) -> None:
    path, agent = best(str(out), wanted)
    assert path == str(out / "gridworld" / f"{name}.agent.pt")
    assert agent.about.keys() == Agent.load(path).about.keys()
    assert agent.world == WORLD
    assert best(out.as_uri(), wanted)[0] == path


def test_none_stored(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tune gridworld --preset smoke trains one"):
        best(str(tmp_path / "nowhere"), {})
    assert not (tmp_path / "nowhere").exists()


def test_none_that_matches(out: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        best(str(out), {"variant": "gru", "seed": "0"})
    (line,) = caught.value.messages
    assert line.startswith("no agent with variant=gru seed=0 in ")
    assert line.endswith("there is variant: lstm, nac_core, none; seed: 0, 1, 2, none")


def test_a_key_that_none_knows(out: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'varient'\. Did you mean 'variant'"):
        best(str(out), {"varient": "lstm"})


def test_files_that_are_none_are_named_and_skipped(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = out / "gridworld" / "aa.agent.pt"
    bad.write_bytes(b"no agent")
    with caplog.at_level(logging.WARNING):
        assert best(str(out), {})[0].endswith("b.agent.pt")
    (record,) = caplog.records
    assert record.getMessage().startswith(f"skipped {bad}: cannot be read as an agent")


def test_a_place_that_is_none() -> None:
    with pytest.raises(StoreError, match="nowhere"):
        best("nowhere://x", {})


def test_description() -> None:
    assert describe({"variant": "lstm", "step": 4_000_000, "exact": 0.98765}) == (
        "variant=lstm step=4000000 exact=0.9877"
    )
