"""Agents as files, and how they act."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from envs import World
from nalu_ray.rl.agent.network import NetworkConfig
from nalu_ray.rl.agent.stored import FORMAT, Agent, AgentError, build_network

WORLD = World(size=3, cell_pixels=2, instructions=(3, 5), time_limit=8, walls=((1, 1),), m=2.0)
ABOUT = {"algorithm": "a3c", "variant": "nac_core", "seed": 3, "exact": 0.75, "step": 10, "x": None}


def agent(seed: int = 0, **settings: Any) -> Agent:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = NetworkConfig.model_validate({"vision": 8, "hidden": 6, **settings})
        network = build_network(config, WORLD)
        # far from uniform, so that choices differ
        torch.nn.init.normal_(network.policy.weight, std=3.0)
    return Agent(network, WORLD, dict(ABOUT))


@pytest.mark.parametrize("variant", ["lstm", "lstm_nac", "nac_core"])
def test_round_trip(variant: str, tmp_path: Path) -> None:
    made = agent(variant=variant, nac_init=0.5, instruction_scale=0.1)
    path = tmp_path / "one.agent.pt"
    path.write_bytes(made.to_bytes())
    for read in (Agent.load(path), Agent.load(str(path)), Agent.from_bytes(made.to_bytes())):
        assert read.world == WORLD
        assert read.about == ABOUT
        assert read.network.config == made.network.config
        assert not read.network.training
        own, other = made.network.state_dict(), read.network.state_dict()
        assert own.keys() == other.keys()
        for name, value in own.items():
            assert torch.equal(value, other[name]), name


def test_a_file_of_plain_values_and_tensors() -> None:
    saved = torch.load(io.BytesIO(agent().to_bytes()), weights_only=True)
    assert saved["format"] == FORMAT
    assert saved["world"]["instructions"] == (3, 5)


class Boom:
    """What pickle would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('ran')",))


def test_a_file_runs_no_code(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, "about": Boom()}, buffer)
    with pytest.raises(AgentError, match="evil"):
        Agent.from_bytes(buffer.getvalue(), "evil")


@pytest.mark.parametrize("value", [np.float64(0.5), WORLD])
def test_what_nobody_could_read_again_is_not_saved(value: Any) -> None:
    with pytest.raises(AgentError, match="plain values"):
        Agent(agent().network, WORLD, {"exact": value}).to_bytes()


def changed(**values: Any) -> bytes:
    saved = torch.load(io.BytesIO(agent().to_bytes()), weights_only=True)
    buffer = io.BytesIO()
    torch.save({name: value for name, value in (saved | values).items() if value != "-"}, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cannot be read"),
        (b"no agent at all", "cannot be read"),
        (agent().to_bytes()[:500], "cannot be read"),
        (agent().to_bytes()[:-200], "cannot be read"),
        (changed(format="nalu_ray agent 0"), "not written by nalu_ray as an agent"),
        (changed(format="-"), "not written by nalu_ray as an agent"),
        (changed(about="-"), "about"),
        (changed(weights={}), "cannot be read"),
        (changed(world={"size": 1}), "size=1"),
        (changed(world={"sizes": 5}), "sizes"),
        (changed(network={"variant": "grue"}), "variant"),
        (changed(network={"hidden": 7, "vision": 8}), "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_agent_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "some.agent.pt"
    path.write_bytes(data)
    with pytest.raises(AgentError, match=says) as caught:
        Agent.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_tensor_that_is_no_agent() -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(3), buffer)
    with pytest.raises(AgentError, match=r"^tensor\.pt: not written by nalu_ray"):
        Agent.from_bytes(buffer.getvalue(), "tensor.pt")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"gone\.pt: No such file"):
        Agent.load(tmp_path / "gone.pt")
    with pytest.raises(AgentError, match="a folder"):
        Agent.load(tmp_path)


# -- acting --------------------------------------------------------------------------------------


def situation(copies: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(copies, 5, np.int64), np.full(copies, 4.0, np.float32)


def test_greedy_takes_the_likeliest() -> None:
    made = agent(hidden=32, instruction_scale=0.1)
    # of all pictures and some T, so that not all choices are one
    frames, told = np.arange(64).repeat(3), np.tile(np.float32([1, 4, 9]), 64)
    player = made.player(192)
    actions = player.act(frames, told)
    probabilities = player.probabilities
    assert probabilities.shape == (192, 5)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(192))
    assert np.array_equal(actions, probabilities.argmax(-1).numpy())
    assert len(set(actions.tolist())) > 1


def test_sampled_frequencies() -> None:
    """Chi-square of 20,000 draws, 4 degrees of freedom; 18.5 is exceeded once in 1,000."""
    copies = 20_000
    player = agent().player(copies, greedy=False, seed=1)
    actions = player.act(*situation(copies))
    expected = player.probabilities[0].double().numpy() * copies
    assert expected.min() > 50
    counts = np.bincount(actions, minlength=5)
    assert ((counts - expected) ** 2 / expected).sum() < 18.5
    assert counts.std() > copies / 50  # else uniform draws would pass too


def test_draws_by_seed() -> None:
    made = agent()

    def played(seed: int) -> list[list[int]]:
        player = made.player(50, greedy=False, seed=seed)
        return [player.act(*situation(50)).tolist() for _ in range(4)]

    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    assert played(0) == played(0)
    assert played(0) != played(1)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("variant", ["lstm", "nac_core"])
def test_memory_is_one_s_own_and_starts_afresh(variant: str) -> None:
    made = agent(variant=variant)
    player = made.player(3)
    frames, told = np.array([[5, 6, 7], [8, 9, 10], [11, 12, 13]]), np.full(3, 4.0, np.float32)
    found = []
    for seen in frames:
        player.act(seen, told)
        found.append(player.probabilities)
    with torch.no_grad():
        logits, _, _ = made.network(
            made.network.vision.table()[torch.from_numpy(frames)],
            torch.full((3, 3), 4.0), torch.ones(3, 3), made.network.initial_state(3),
        )  # fmt: skip
    torch.testing.assert_close(torch.stack(found), logits.softmax(-1))
    assert (found[0] - found[2]).abs().max() > 1e-4
    again = made.player(3)
    again.act(frames[0], told)
    assert torch.equal(again.probabilities, found[0])
