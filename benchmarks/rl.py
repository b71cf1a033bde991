"""Trained environment steps per second of the gridworld, on one machine.

    pip install psutil
    python benchmarks/rl.py [--seconds 30] [--hidden 64] [--only plain a3c]

* plain: the loop of a script: one process, PyTorch only, the same network and loss;
* stock: RLlib's IMPALA with its default environment runner and loss, on pixels, one runner;
* stock, no pixels: the same on image numbers instead of pixels, as in our implementation;
* impala, a3c: our implementation, with the runners of the laptop preset;
* a3c in one process: no runners, one core.

Every row trains the LSTM with 64 environments per runner and rollouts of 20 steps. Steps count from
the first update, so that the start of processes is excluded; processor time includes all child
processes. One thread per process. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_worker_niceness", "0")

import gymnasium
import numpy as np
import psutil
import ray
import torch
from ray.rllib.algorithms.impala import IMPALAConfig as StockIMPALAConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env
from rich.console import Console
from rich.table import Table

from envs import TimeGridworldVectorEnv, World
from nalu_ray.rl.a3c import A3CConfig
from nalu_ray.rl.agent.network import NetworkConfig
from nalu_ray.rl.agent.stored import build_network
from nalu_ray.rl.impala import IMPALAConfig
from nalu_ray.rl.losses import LossConfig, actor_critic
from nalu_ray.rl.rllib.metrics import figures
from nalu_ray.rl.rllib.module import TimeModule

ENVS, FRAGMENT = 64, 20


class Plain:
    """Advantage actor-critic as a script has it: roll out, one update, again."""

    def __init__(self, config: NetworkConfig) -> None:
        torch.manual_seed(0)
        self.network = build_network(config, World())
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=1e-3, eps=1e-5)
        self.env = TimeGridworldVectorEnv(ENVS, autoreset_mode="SameStep", observation="frame")
        self.seen, _ = self.env.reset(seed=0)
        self.keep = torch.zeros(ENVS)
        self.memory = self.network.initial_state(ENVS)
        self.steps = 0

    def update(self) -> None:
        rows: dict[str, list[torch.Tensor]] = {
            name: [] for name in ("frame", "told", "keep", "action", "reward")
        }
        memory = self.memory
        with torch.no_grad():
            table = self.network.vision.table()
            for _ in range(FRAGMENT):
                self.observe(rows)
                logits, _, memory = self.network(
                    table[rows["frame"][-1]][None],
                    rows["told"][-1][None],
                    rows["keep"][-1][None],
                    memory,
                )
                action = torch.distributions.Categorical(logits=logits[0]).sample()
                self.seen, rewards, ended, _, _ = self.env.step(action.numpy())
                self.keep = torch.from_numpy(~ended).float()
                rows["action"].append(action)
                rows["reward"].append(torch.from_numpy(rewards).float())
            self.observe(rows)
        frame, told, keep, action, reward = (torch.stack(rows[name]) for name in rows)
        seen = self.network.vision.numbered(frame)
        logits, values, _ = self.network(seen, told, keep, self.memory)
        loss, _ = actor_critic(
            logits, values, action, reward, 1 - keep[1:], None, LossConfig(entropy=0.01)
        )
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 0.5)
        self.optimiser.step()
        self.memory, self.steps = memory, self.steps + ENVS * FRAGMENT

    def observe(self, rows: dict[str, list[torch.Tensor]]) -> None:
        rows["frame"].append(torch.from_numpy(self.seen["frame"]))
        rows["told"].append(torch.from_numpy(self.seen["instruction"][:, 0]))
        rows["keep"].append(self.keep)


def processor_seconds() -> float:
    """Returns the processor time of this process, of its children, and of theirs."""
    here = psutil.Process()
    total = 0.0
    for process in [here, *here.children(recursive=True)]:
        try:
            used = process.cpu_times()
        except psutil.Error:
            continue
        total += used.user + used.system
    return total


def measure(advance: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Returns steps per second of wall-clock time and of processor time.

    Args:
        advance: trains for a moment and returns the steps trained so far.
        seconds: to measure for, after a third of it to warm up.
    """
    until = time.perf_counter() + seconds / 3
    steps = 0
    while time.perf_counter() < until or not steps:
        steps = advance()
    began, used, first = time.perf_counter(), processor_seconds(), steps
    while time.perf_counter() - began < seconds:
        steps = advance()
    clock, work = time.perf_counter() - began, processor_seconds() - used
    return (steps - first) / clock, (steps - first) / work


def plain(network: NetworkConfig, seconds: float) -> tuple[float, float]:
    loop = Plain(network)

    def advance() -> int:
        for _ in range(10):
            loop.update()
        return loop.steps

    return measure(advance, seconds)


def trained(config: Any, seconds: float) -> tuple[float, float]:
    algorithm = config.reporting(min_time_s_per_iteration=1).build_algo()
    try:
        return measure(lambda: int(figures(algorithm.train())["steps"]), seconds)
    finally:
        algorithm.stop()


def ours(kind: Any, runners: int, network: NetworkConfig, seconds: float) -> tuple[float, float]:
    config = (
        kind()
        .rl_module(model_config=network.model_dump())
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=ENVS,
            rollout_fragment_length=FRAGMENT,
        )
        .training(lr=1e-3)
        .debugging(seed=0)
    )
    return trained(config, seconds)


def stock(network: NetworkConfig, seconds: float, observation: str) -> tuple[float, float]:
    """RLlib's own IMPALA, each step a real one: it counts one too many an episode."""

    def make(arguments: dict[str, Any]) -> Any:
        if "num_envs" in arguments:
            return TimeGridworldVectorEnv(**arguments)
        return gymnasium.make("envs:nalu_ray/TimeGridworld-v0", **arguments)

    register_env("gridworld", make)
    config = (
        StockIMPALAConfig()
        .environment("gridworld", env_config={"observation": observation})
        .env_runners(
            num_env_runners=1,
            num_envs_per_env_runner=ENVS,
            rollout_fragment_length=FRAGMENT,
            gym_env_vectorize_mode="vector_entry_point",
        )
        .learners(num_learners=0)
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=TimeModule,
                model_config={**network.model_dump(), "max_seq_len": FRAGMENT + 1},
            )
        )
        .training(
            train_batch_size_per_learner=ENVS * FRAGMENT,
            lr=1e-3,
            timeout_s_sampler_manager=0.2,
        )
        .reporting(min_time_s_per_iteration=1)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    share = 1.0

    def advance() -> int:
        nonlocal share
        result = algorithm.train()
        runners = result["env_runners"]
        length = runners.get("episode_len_mean", np.nan)
        if np.isfinite(length):
            share = length / (length + 1)
        learners = result.get("learners", {}).get("__all_modules__", {})  # none at first
        return int(learners.get("num_env_steps_trained_lifetime", 0) * share)

    try:
        return measure(advance, seconds)
    finally:
        algorithm.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30, help="duration of each measurement")
    parser.add_argument(
        "--hidden", type=int, default=64, help="units of the LSTM and of the layer below it"
    )
    parser.add_argument("--only", nargs="+", help="rows to measure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    network = NetworkConfig(variant="lstm", hidden=options.hidden, vision=options.hidden)
    seconds = options.seconds
    rows: dict[str, Callable[[], tuple[float, float]]] = {
        "plain": lambda: plain(network, seconds),
        "stock": lambda: stock(network, seconds, "pixels"),
        "stock, no pixels": lambda: stock(network, seconds, "frame"),
        "impala": lambda: ours(IMPALAConfig, 1, network, seconds),
        "a3c": lambda: ours(A3CConfig, 2, network, seconds),
        "a3c in one process": lambda: ours(A3CConfig, 0, network, seconds),
    }
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
    )
    table = Table("", "steps/s", "steps/CPU-s", "x stock", "plain / it, per CPU-s", box=None)
    measured = {name: work() for name, work in rows.items() if name in (options.only or rows)}
    for name, (clock, work) in measured.items():
        against = f"{clock / measured['stock'][0]:.1f}" if "stock" in measured else ""
        floor = f"{measured['plain'][1] / work:.2f}" if "plain" in measured else ""
        table.add_row(name, f"{clock:,.0f}", f"{work:,.0f}", against, floor)
    console = Console()
    console.print(table)
    console.print(
        f"{os.cpu_count()} CPUs, Python {platform.python_version()}, torch {torch.__version__}, "
        f"ray {ray.__version__}; LSTM of {options.hidden} units"
    )


if __name__ == "__main__":
    main()
