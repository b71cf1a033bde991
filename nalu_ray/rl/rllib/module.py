"""RLlib's view of the network: pixels from a stock environment runner, or numbers of pictures."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from nalu_ray.envs import World
from nalu_ray.rl.agent.network import Network, NetworkConfig
from nalu_ray.rl.agent.stored import build_network
from nalu_ray.rl.rollout import TASK
from nalu_ray.seeding import entropy

# Of the model's configuration: what is no field of NetworkConfig.
OTHER = ("world", "seed", "max_seq_len")


class TimeModule(TorchRLModule, ValueFunctionAPI):
    """A :class:`nalu_ray.rl.agent.network.Network` as RLlib's `RLModule`.

    Its configuration has the fields of `NetworkConfig`, and

    * ``world``: arguments of :class:`envs.World`, the one that is played,
    * ``seed``: of the weights; none leaves them to torch's generator,
    * ``max_seq_len``: RLlib's length of a row in training.

    Observations are the environment's: ``pixels`` (B, T, P, P, 3) or ``frame`` (B, T), and
    ``instruction`` (B, T, 1). The memory is ``{"memory": (B, S)}``, zeros where an episode starts.
    """

    network: Network

    def setup(self) -> None:
        world = World(**self.model_config.get("world", {}))
        config = network_config(self.model_config)
        seed = self.model_config.get("seed")
        with torch.random.fork_rng(devices=[], enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(entropy(TASK, seed, "weights") % 2**63)
            self.network = build_network(config, world)

    def get_initial_state(self) -> dict[str, Any]:
        return {"memory": torch.zeros(self.network.core.state_size).numpy()}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Returns the values, (B, T); nothing of the forward pass is kept for it."""
        return self._time_major(batch)[1].mT

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        logits, values, memory = self._time_major(batch)
        return {
            Columns.ACTION_DIST_INPUTS: logits.transpose(0, 1),
            Columns.VF_PREDS: values.mT,
            Columns.STATE_OUT: {"memory": memory},
        }

    def _time_major(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        observation = batch[Columns.OBS]
        instruction = observation["instruction"][..., 0].mT
        if "frame" in observation:
            vision = self.network.vision.numbered(observation["frame"])
        else:
            vision = self.network.vision(observation["pixels"])
        # RLlib starts a row where an episode starts: within a row nothing is reset.
        memory = batch[Columns.STATE_IN]["memory"]
        keep = torch.ones_like(instruction)
        return self.network(vision.transpose(0, 1), instruction, keep, memory)  # type: ignore[no-any-return]


def network_config(model_config: dict[str, Any]) -> NetworkConfig:
    """Returns the part of a model's configuration that describes the network.

    Raises:
        pydantic.ValidationError: it names a field that does not exist, or a value not allowed.
    """
    values = {name: value for name, value in model_config.items() if name not in OTHER}
    return NetworkConfig.model_validate(values)
