"""One point of the gridworld's grid: algorithm, network, world, training, evaluation."""

from __future__ import annotations

import functools
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from nalu_ray import layers
from nalu_ray.envs import World
from nalu_ray.errors import raise_interruption
from nalu_ray.rl.agent import cores
from nalu_ray.rl.agent.network import NetworkConfig, build_core, unit_weights
from nalu_ray.task import Setting
from nalu_ray.training import footprint
from nalu_ray.training.fields import split_list, split_range

AlgorithmName = Literal["impala", "a3c"]


def _ordered(value: tuple[int, int]) -> tuple[int, int]:
    if not 1 <= value[0] <= value[1]:
        raise ValueError(f"{value[0]}:{value[1]}; write smallest:largest, from 1 on")
    return value


Times = Annotated[tuple[int, int], BeforeValidator(split_range), AfterValidator(_ordered)]
"""Smallest and largest T, both included, written ``5:12`` on the command line."""


def _from_one_on(value: tuple[int, ...]) -> tuple[int, ...]:
    if any(time < 1 for time in value):
        raise ValueError("each T must be 1 or more; write 30:50:100")
    return value


TimeList = Annotated[tuple[int, ...], BeforeValidator(split_list), AfterValidator(_from_one_on)]
"""Some T, written ``30:50:100`` on the command line."""


def unused(variant: str) -> tuple[str, ...]:
    """The fields that the core of a variant does not read."""
    if variant == cores.COUNTERS:
        return "wiring", "instruction_scale"
    if variant == cores.FREE_COUNTERS:
        return "wiring", "instruction_scale", "sparsity"
    if variant == "lstm_nac":
        return "counter_init", "bank"
    unit = cores.beside(variant)
    if unit == cores.FREE:
        return "counter_init", "bank", "nac_init", "sparsity"
    entry = layers.first_cell(unit or variant)
    fields = ["counter_init", "bank"]
    if unit is None:
        fields += ["wiring", "nac_units"]
    if "init" not in entry.options:
        fields.append("nac_init")
    if variant not in layers.names() and (unit is None or unit not in layers.names()):
        fields += ["nac_lr_factor", "sparsity"]
    elif not _has_weights(variant):
        fields.append("sparsity")
    return tuple(fields)


@functools.cache
def _has_weights(variant: str) -> bool:
    """Returns whether the units of a core have weights for ``sparsity`` to act on."""
    pair = cores.beside(variant) in layers.pair_names()
    config = NetworkConfig(variant=variant, wiring="feedback" if pair else "accumulator")
    try:
        core = footprint.without_memory(lambda: build_core(config))
    except Exception as error:  # whatever a unit's code raises; the check before a run says it
        raise_interruption(error)
        return True
    return bool(unit_weights(core))


class GridworldSetting(NetworkConfig, Setting):
    """Algorithm, network, world, training and test of an agent."""

    algorithm: AlgorithmName = Field(
        "a3c", description="training algorithm, impala or a3c (section 4.5 uses A3C)"
    )
    # the world
    size: int = Field(5, ge=2, description="cells along a side of the grid (section 4.5)")
    instructions: Times = Field(
        (5, 12), description="range of T in training, as low:high (section 4.5)"
    )
    time_limit: int = Field(
        20, ge=1, description="L, the time at which a training episode ends at the latest"
    )
    reward: Literal["symmetric", "early", "exact"] = Field(
        "symmetric", description="reward of arrivals at other times than T, see docs/gridworld.md"
    )
    m: float = Field(1.0, gt=0, description="reward of an arrival at T")
    c: float = Field(0.1, ge=0, description="cost of each unit of time between arrival and T")
    show: Literal["always", "first"] = Field(
        "first",
        description="whether the agent sees T at every step or only at the start of the "
        "episode (section 4.5)",
    )
    # training
    steps: int = Field(4_000_000, ge=1, description="environment steps per seed")
    runners: int = Field(
        1, ge=0, description="number of sampling processes; 0 = sample in the trial's own process"
    )
    envs: int = Field(64, ge=1, description="environments per sampling process")
    fragment: int = Field(20, ge=1, description="steps per rollout")
    lr: float = Field(
        1e-3, gt=0, description="peak learning rate, which falls linearly over the steps"
    )
    warmup: int = Field(
        100_000,
        ge=0,
        description="initial environment steps over which the learning rate rises to lr, as "
        "RMSProp's first updates are ten times too large",
    )
    lr_end: float = Field(0.05, ge=0, le=1, description="final learning rate, as a fraction of lr")
    nac_lr_factor: float = Field(
        10.0, gt=0, description="learning rate of the NAC's parameters, as a multiple of lr"
    )
    gamma: float = Field(0.99, gt=0, le=1, description="discount per step")
    lam: float = Field(0.95, ge=0, le=1, description="lambda of the returns; 1 = n-step returns")
    value_weight: float = Field(
        0.1, ge=0, description="weight of the value loss; 0.5 lets it dominate the policy"
    )
    entropy: float = Field(
        0.03, ge=0, description="weight of the policy's entropy at the start of training"
    )
    entropy_end: float = Field(
        0.001, ge=0, description="weight of the policy's entropy at the end of training"
    )
    clip: float = Field(0.5, gt=0, description="largest gradient norm")
    reward_scale: float = Field(5.0, gt=0, description="factor by which the loss scales rewards")
    sparsity: float = Field(
        0.0,
        ge=0,
        description="weight of the penalty that draws the NAC's weights to -1, 0 and 1 late "
        "in training",
    )
    # evaluation
    evaluations: int = Field(
        20, ge=1, description="number of evaluations, evenly spaced over training"
    )
    validation_episodes: int = Field(
        100, ge=1, description="episodes per trained T that select the checkpoint"
    )
    test_instructions: Times = Field(
        (5, 25), description="range of T in the test, as low:high (Figure 5)"
    )
    test_episodes: int = Field(400, ge=1, description="episodes per T in the test")
    test_time_limit: int = Field(50, ge=1, description="L of the test episodes")
    far_instructions: TimeList = Field(
        (30, 40, 50, 60, 70, 80, 90, 100),
        description="values of T far beyond training; these episodes last up to twice the largest",
    )

    def unread(self) -> dict[str, str]:
        return {name: f"variant={self.variant} has no {name}" for name in unused(self.variant)}

    def units(self) -> tuple[str, ...]:
        unit = cores.beside(self.variant)
        return () if unit in (None, cores.FREE) else (unit,)

    @model_validator(mode="after")
    def _only_what_the_variant_has(self) -> GridworldSetting:
        """Sets fields that the variant does not have to their default: a grid is one setting."""
        for name in unused(self.variant):
            object.__setattr__(self, name, type(self).model_fields[name].default)
        return self

    @model_validator(mode="after")
    def _world_is_possible(self) -> GridworldSetting:
        self.world()
        if self.test_instructions[1] > self.test_time_limit:
            raise ValueError(
                f"test_instructions={self.test_instructions}: T may be at most "
                f"test_time_limit={self.test_time_limit}"
            )
        if self.warmup >= self.steps:
            raise ValueError(f"warmup={self.warmup}: must be below steps={self.steps}")
        low, high = self.instructions
        if self.test_instructions[0] > high or self.test_instructions[1] < low:
            raise ValueError(
                f"test_instructions={self.test_instructions}: some T of "
                f"instructions={self.instructions} must be among them"
            )
        return self

    def world(self) -> World:
        """Returns the world that is trained in.

        Raises:
            ValueError: its arguments do not fit together.
        """
        return World(
            size=self.size,
            instructions=self.instructions,
            time_limit=self.time_limit,
            reward=self.reward,
            m=self.m,
            c=self.c,
            show=self.show,
        )

    def network(self) -> NetworkConfig:
        """Returns what the network is made of."""
        return NetworkConfig(**{name: getattr(self, name) for name in NetworkConfig.model_fields})
