"""Rollouts: a few steps of many environments, and the collector that samples them; without Ray."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call

from nalu_ray.envs import TimeGridworldVectorEnv
from nalu_ray.rl.agent.network import Network
from nalu_ray.seeding import entropy, generator
from nalu_ray.training.recording import Repeated

TASK = "gridworld"  # names the random streams, and the folder of the results


@dataclass(frozen=True)
class Rollout:
    """R steps of N environments, time first, and the observation after the last of them.

    Attributes:
        frames: (R + 1, N) int32, number of the observed picture.
        instruction: (R + 1, N) float32, T as shown to the agent.
        keep: (R + 1, N) bool, false where an episode starts with that observation.
        actions: (R, N) int8.
        log_probs: (R, N) float32, of the actions, when they were drawn.
        rewards: (R, N) float32.
        state: (N, S) float32, the memory before the first step.
        version: number of updates that had made the acting weights.
    """

    frames: NDArray[np.int32]
    instruction: NDArray[np.float32]
    keep: NDArray[np.bool_]
    actions: NDArray[np.int8]
    log_probs: NDArray[np.float32]
    rewards: NDArray[np.float32]
    state: NDArray[np.float32]
    version: int = 0

    @property
    def done(self) -> NDArray[np.bool_]:
        """(R, N), true where the episode ended with that step: the next one starts at once."""
        return ~self.keep[1:]

    @property
    def steps(self) -> int:
        """R * N."""
        return self.actions.size

    @classmethod
    def joined(cls, parts: Sequence[Rollout]) -> Rollout:
        """Joins rollouts of equal length along N; the version is that of the oldest weights."""
        if len(parts) == 1:
            return parts[0]
        timed = ("frames", "instruction", "keep", "actions", "log_probs", "rewards")
        beside = {name: np.concatenate([getattr(p, name) for p in parts], 1) for name in timed}
        state = np.concatenate([part.state for part in parts])
        return cls(**beside, state=state, version=min(part.version for part in parts))


@dataclass(frozen=True)
class Ended:
    """The E episodes that ended in a rollout.

    Attributes:
        returns: (E,), with the world's rewards, unscaled.
        lengths: (E,), in steps.
        exact: (up to E,), whether the agent arrived at T, for the episodes in which it could.
        never: (E,), whether the agent did not arrive.
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    exact: NDArray[np.bool_]
    never: NDArray[np.bool_]


class Collector:
    """Acts in N environments; each rollout continues where the one before it ended.

    Args:
        env: an environment whose observations are frames, in the mode ``SameStep``.
        length: R.
        seed: seed of all random numbers; None draws a fresh one.
        index: number of the collector within its run: each draws other random numbers.
    """

    def __init__(
        self, env: TimeGridworldVectorEnv, length: int, seed: int | None, index: int | str
    ) -> None:
        self.env, self.length = env, length
        name = secrets.token_hex(16) if seed is None else seed
        starts = generator(TASK, name, f"starts of runner {index}")
        self.seen, _ = env.reset(seed=starts.integers(2**63, size=env.num_envs).tolist())
        self.keep = np.zeros(env.num_envs, np.bool_)
        draws = entropy(TASK, name, f"actions of runner {index}") % 2**63
        self.generator = torch.Generator().manual_seed(draws)
        self.memory: torch.Tensor | None = None
        self._actor: tuple[Network, Repeated] | None = None

    @torch.no_grad()
    def collect(self, network: Network, version: int = 0) -> tuple[Rollout, Ended]:
        """Takes R steps in each environment.

        Args:
            network: the policy, on the CPU.
            version: number of updates that made its weights.
        """
        env, length, count = self.env, self.length, self.env.num_envs
        memory = network.initial_state(count) if self.memory is None else self.memory
        before = memory.numpy()
        frames = np.empty((length + 1, count), np.int32)
        instruction = np.empty((length + 1, count), np.float32)
        keep = np.empty((length + 1, count), np.bool_)
        rewards = np.empty((length, count), np.float32)
        actions = torch.empty(length, count, dtype=torch.int64)
        log_probs = torch.empty(length, count)
        ends = np.empty((4, length, count), np.int64)
        table = network.vision.table()
        act, weights = self._act(network), list(network.parameters())
        # The largest of log p - log(exponential) is a draw from p.
        noise = torch.empty(length, count, network.policy.out_features)
        noise.exponential_(generator=self.generator).log_()
        for t in range(length):
            frames[t], instruction[t], keep[t] = (
                self.seen["frame"],
                self.seen["instruction"][:, 0],
                self.keep,
            )
            step_keep = torch.from_numpy(keep[t]).float()[None]
            vision = table[torch.from_numpy(frames[t])][None]
            step_instruction = torch.from_numpy(instruction[t])[None]
            actions[t], log_probs[t], memory = act(
                vision, step_instruction, step_keep, memory, noise[t], *weights
            )
            # What the step is about, since the environment moves on to the next episode in it.
            ends[:3, t] = env.t, env.instruction, env.distance
            self.seen, rewards[t], ended, _, infos = env.step(actions[t].numpy())
            # An arrival ends the episode.
            ends[3, t] = infos["final_info"]["arrived"] if "final_info" in infos else False
            self.keep = ~ended
        frames[-1], instruction[-1], keep[-1] = (
            self.seen["frame"],
            self.seen["instruction"][:, 0],
            self.keep,
        )
        self.memory = memory
        small = actions.numpy().astype(np.int8)
        rollout = Rollout(
            frames, instruction, keep, small, log_probs.numpy(), rewards, before, version
        )
        return rollout, _ended(rollout, *ends)

    def _act(self, network: Network) -> Repeated:
        """Returns the function that draws actions by a network."""
        if self._actor is None or self._actor[0] is not network:
            self._actor = network, Repeated(Acting(network))
        return self._actor[1]

    def state_dict(self) -> dict[str, Any]:
        """Returns tensors and plain values; loads under ``torch.load(weights_only=True)``."""
        # Signed: torch cannot unpickle what it pickles of uint64.
        env = {
            name: torch.from_numpy(values.view(np.int64) if values.dtype == np.uint64 else values)
            for name, values in self.env.state_dict().items()
        }
        return {
            "env": env,
            "frame": torch.from_numpy(self.seen["frame"].copy()),
            "told": torch.from_numpy(self.seen["instruction"].copy()),
            "keep": torch.from_numpy(self.keep.copy()),
            "memory": None if self.memory is None else self.memory.clone(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes exactly from a saved state."""
        types = {name: values.dtype for name, values in self.env.state_dict().items()}
        env = {name: value.numpy().view(types[name]) for name, value in state["env"].items()}
        self.env.load_state_dict(env)
        self.seen = {"frame": state["frame"].numpy(), "instruction": state["told"].numpy()}
        self.keep = state["keep"].numpy()
        self.memory = state["memory"]
        self.generator.set_state(state["generator"])


class Acting:
    """One step of a policy, as a function of tensors alone.

    Args:
        network: the policy.
    """

    def __init__(self, network: Network) -> None:
        self.network, self.names = network, [name for name, _ in network.named_parameters()]

    def __call__(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Draws an action in each environment.

        Args:
            given: features of the pictures (1, N, V), instructions and ``keep`` (1, N), memory
                (N, S), noise (N, actions), and the network's parameters.

        Returns:
            Actions and their log-probabilities, (N,), and the memory after the step.
        """
        vision, instruction, keep, memory, noise, *weights = given
        logits, _, after = functional_call(
            self.network,
            dict(zip(self.names, weights, strict=True)),
            (vision, instruction, keep, memory),
        )
        log_policy = logits[0].log_softmax(-1)
        actions = (log_policy - noise).argmax(-1)
        return actions, log_policy.gather(-1, actions[:, None])[:, 0], after


def _ended(
    rollout: Rollout,
    t: NDArray[np.int64],
    instruction: NDArray[np.int64],
    distance: NDArray[np.int64],
    arrived: NDArray[np.int64],
) -> Ended:
    done = rollout.done
    length, came, due_time = t[done] + 1, arrived[done] > 0, instruction[done]
    exact = (came & (length == due_time))[distance[done] <= due_time]
    # Only an arrival is paid, and it ends the episode.
    return Ended(rollout.rewards[done].astype(np.float64), length, exact, ~came)
