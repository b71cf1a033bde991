"""What an agent takes, and whether its network can be trained, before anything runs."""

from __future__ import annotations

import functools

import torch

from nalu_ray.envs import World
from nalu_ray.errors import first_line, raise_interruption
from nalu_ray.rl.agent.network import Network, NetworkConfig
from nalu_ray.rl.agent.stored import build_network
from nalu_ray.rl.setting import GridworldSetting, unused
from nalu_ray.training import footprint, patterns
from nalu_ray.training.optimisers import OptimiserName
from nalu_ray.training.rehearsal import MOST_NUMBERS

MIB = 1024**2
# processes as RLlib starts them, before there is a network or an environment
RUNNER_BYTES, OWN_BYTES = 700 * MIB, 600 * MIB
# Tensors as large as the parameters in a runner: its own learner, gradients, weights on the way.
OF_RUNNER = 8
EPISODE_BYTES = 200  # of an environment, and of an episode's row
STEPS, COPIES = 2, 3  # of the step that tries it


def parameters(setting: GridworldSetting) -> int:
    """Returns the number of trained parameters."""
    return _sizes(setting.network(), setting.world())[0]


def trained(setting: GridworldSetting) -> int:
    """Returns the bytes of parameters, gradients and moments in the learner and the runners."""
    count = parameters(setting)
    optimiser: OptimiserName = "rmsprop" if setting.algorithm == "a3c" else "adam"
    runners = footprint.FLOAT * OF_RUNNER * setting.runners * count
    return footprint.trained(count, optimiser, seeds=1) + runners


def memory(setting: GridworldSetting) -> int:
    """Returns the bytes of the trial's processes, their rollouts, and an evaluation's episodes."""
    world, (_, state) = setting.world(), _sizes(setting.network(), setting.world())
    units = setting.nac_units * (1 if "bank" in unused(setting.variant) else setting.bank)
    wide = 12 * setting.hidden + 2 * setting.vision + 4 * units + 4 * state
    step = footprint.FLOAT * wide + EPISODE_BYTES
    rollout = 2 * setting.envs * (setting.fragment + 1) * step
    pictures = len(world.frames) * (world.size + 2 * world.border) ** 2
    sight = footprint.FLOAT * pictures * (4 * setting.channels + setting.vision)
    played = step * max(
        _times(setting.instructions) * setting.validation_episodes,
        2 * _times(setting.test_instructions) * setting.test_episodes,
        len(setting.far_instructions) * setting.test_episodes,
    )
    processes = RUNNER_BYTES * setting.runners + OWN_BYTES
    return processes + (setting.runners + 1) * (rollout + sight) + played


def check(setting: GridworldSetting) -> None:
    """Checks that a setting's network can be built and trained, by one small step.

    Raises:
        TypeError: it cannot; the message says why.
    """
    if fault := _fault(setting.network(), setting.world()):
        raise TypeError(f"variant={setting.variant} cannot be trained: {fault}")


def _times(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0] + 1


@functools.lru_cache(maxsize=1024)
def _sizes(config: NetworkConfig, world: World) -> tuple[int, int]:
    """Returns the number of trained parameters, and of numbers in the state."""
    network = footprint.without_memory(lambda: build_network(config, world))
    names = patterns.trained(network)
    return sum(network.get_parameter(name).numel() for name in names), network.core.state_size


@functools.lru_cache(maxsize=1024)
def _fault(config: NetworkConfig, world: World) -> str | None:
    """Returns why a network cannot be trained, None if it can."""
    giant = False
    try:
        count, state = _sizes(config, world)
        giant = max(count, COPIES * state) > MOST_NUMBERS
        device = torch.device("meta" if giant else "cpu")
        with torch.random.fork_rng(devices=[]), device:
            _step(build_network(config, world).to(device))  # the pictures come from NumPy
    except NotImplementedError:  # an operation that has no form without numbers
        return None if giant else "NotImplementedError"
    except MemoryError:
        raise
    except Exception as error:  # whatever the unit's code raises
        raise_interruption(error)
        return first_line(error)
    return None


def _step(network: Network) -> None:
    """A forward and a backward pass over a few steps."""
    frames = torch.zeros(STEPS * COPIES, dtype=torch.int64)
    vision = network.vision.table(frames).unflatten(0, (STEPS, COPIES))
    ones = torch.ones(STEPS, COPIES)
    state = network.initial_state(COPIES)
    logits, values, after = network(vision, ones, ones, state)
    expected: dict[str, tuple[torch.Tensor, tuple[int, ...]]] = {
        "logits": (logits, (STEPS, COPIES, network.policy.out_features)),
        "values": (values, (STEPS, COPIES)),
        "the next state": (after, tuple(state.shape)),
    }
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise TypeError(f"the shape of {name} is {tuple(tensor.shape)}, not {shape}")
    leaves = [network.get_parameter(name) for name in patterns.trained(network)]
    torch.autograd.grad(logits.sum() + values.sum(), leaves)
