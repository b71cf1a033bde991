"""A trained agent: its world, its network, and how it acts. Stored as one file of plain tensors."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor

from nalu_ray.envs import World
from nalu_ray.errors import explain
from nalu_ray.rl.agent.network import Network, NetworkConfig
from nalu_ray.training import tensor_files

FORMAT = "nalu_ray agent 1"


class AgentError(ValueError):
    """A file that holds no agent of this version."""


@dataclass(frozen=True)
class Agent:
    """A network with the world that it was trained in.

    Attributes:
        network: the policy and value network.
        world: the world of its training.
        about: plain values that describe its training.
    """

    network: Network
    world: World
    about: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Returns the contents of a file for :meth:`from_bytes`.

        Raises:
            AgentError: if ``about`` holds more than plain values, which could not be read again.
        """
        saved = {
            "format": FORMAT,
            "network": self.network.config.model_dump(),
            "world": dataclasses.asdict(self.world),
            "weights": {name: value.cpu() for name, value in self.network.state_dict().items()},
            "about": self.about,
        }
        return tensor_files.to_bytes(saved, AgentError)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "agent") -> Agent:
        """Reads an agent; runs no code from the file.

        Raises:
            AgentError: if it is not an agent's file; the message starts with ``name``.
        """
        saved = _plain(data, name)
        try:
            world = World(**saved["world"])
            config = NetworkConfig.model_validate(saved["network"])
            with torch.device("meta"):  # no memory, whatever size the file names
                wrong = tensor_files.misfit(build_network(config, world), saved["weights"])
            if wrong is not None:
                raise ValueError(wrong)
            with torch.random.fork_rng(devices=[]):  # its weights are about to be replaced
                network = build_network(config, world)
            network.load_state_dict(saved["weights"])
            return cls(network.eval(), world, dict(saved["about"]))
        except ValidationError as error:
            raise AgentError(f"{name}: {'; '.join(explain(error))}") from error
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise AgentError(tensor_files.unreadable(name, "agent", error)) from error

    @classmethod
    def load(cls, path: Path | str) -> Agent:
        """Reads an agent's file.

        Raises:
            AgentError: if the file cannot be read or holds no agent.
        """
        return cls.from_bytes(tensor_files.read(str(path), AgentError), str(path))

    def player(self, copies: int, *, greedy: bool = True, seed: int = 0) -> Player:
        """Returns a player of ``copies`` environments at once."""
        return Player(self.network, copies, greedy, seed)


class Player:
    """Acts in N environments step by step and keeps their memory.

    Args:
        network: the agent's network, left unchanged: a copy of it acts, in evaluation mode.
        copies: N.
        greedy: whether to take the most likely action instead of sampling one.
        seed: seed of the sampled actions.
    """

    def __init__(self, network: Network, copies: int, greedy: bool, seed: int) -> None:
        # a unit's noise is for training alone, and may count its calls in a buffer
        network = copy.deepcopy(network).eval()
        self.network, self.greedy = network, greedy
        self.generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.table = network.vision.table()
        self.state = network.initial_state(copies)
        self.fresh = torch.zeros(1, copies)
        self.probabilities: Tensor = torch.empty(0)

    @torch.no_grad()
    def act(self, frame: NDArray[np.int64], instruction: NDArray[np.float32]) -> NDArray[np.int64]:
        """Returns actions, (N,), for frame ids (N,) and instructions as shown (N,)."""
        vision = self.table[torch.from_numpy(frame)][None]
        logits, _, self.state = self.network(
            vision, torch.from_numpy(instruction)[None], self.fresh, self.state
        )
        self.fresh = torch.ones_like(self.fresh)
        self.probabilities = logits[0].softmax(-1)
        if self.greedy:
            return self.probabilities.argmax(-1).numpy()
        noise = torch.empty_like(self.probabilities).exponential_(generator=self.generator)
        # the largest of p / exponential is a draw from p
        return (self.probabilities / noise).argmax(-1).numpy()


def about(data: bytes, name: str = "agent") -> dict[str, Any]:
    """Returns the description of a stored agent's training, without building its network.

    Raises:
        AgentError: if it is not an agent's file; the message starts with ``name``.
    """
    saved = _plain(data, name)
    try:
        return dict(saved["about"])
    except (KeyError, TypeError, ValueError) as error:
        raise AgentError(tensor_files.unreadable(name, "agent", error)) from error


def _plain(data: bytes, name: str) -> dict[str, Any]:
    saved = tensor_files.from_bytes(data, name, noun="agent", form=FORMAT, error=AgentError)
    try:
        for part in ("about", "network", "world"):
            tensor_files.check_values(saved.get(part), part)
    except ValueError as error:
        raise AgentError(tensor_files.unreadable(name, "agent", error)) from error
    return saved


def build_network(config: NetworkConfig, world: World) -> Network:
    """Returns a network for the pictures of a world, its weights drawn by torch's generator."""
    return Network(config, world.frames, world.cell_pixels)
