"""One trial of the gridworld: seeds trained one after another by an RLlib algorithm."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch

from nalu_ray.results.store.rows import COLUMNS, COMPLETED, DIVERGED, OF_TRIAL
from nalu_ray.rl.agent.choice import ENDING
from nalu_ray.rl.agent.stored import Agent
from nalu_ray.rl.configure import build
from nalu_ray.rl.evaluation import METRICS, episodes, on_trained, per_instruction, reach, shares
from nalu_ray.rl.rllib import checkpoint as states
from nalu_ray.rl.rllib.learner import DivergedError
from nalu_ray.rl.rllib.metrics import figures
from nalu_ray.rl.rollout import TASK
from nalu_ray.rl.setting import GridworldSetting
from nalu_ray.seeding import entropy
from nalu_ray.task import Progress

ROW = [name for name in COLUMNS if name not in OF_TRIAL]
SHOWN = {"steps_per_second": "steps/s", "return": "return", "exact": "exact"}


class GridworldRun:
    """Trains the seeds of a block in turn; see :class:`nalu_ray.task.Run`."""

    def __init__(
        self, setting: GridworldSetting, seeds: Sequence[int], device: torch.device
    ) -> None:
        self.setting, self.seeds, self.device = setting, tuple(seeds), device
        self.finished: list[dict[str, Any]] = []
        self.training = self._next()

    @property
    def ended(self) -> tuple[int, ...]:
        """The seeds that were trained to their end; a failure of a later one leaves them as is."""
        return tuple(seed["seed"] for seed in self.finished)

    def advance(self) -> Progress:
        """Trains for about a second, or up to the next evaluation if that comes first."""
        training, steps = self.training, self.setting.steps
        try:
            training.advance()
            ended = training.finish() if training.done else None
        except DivergedError as error:  # ends this seed; its rows stay, and the others go on
            ended = training.give_up(str(error))
        if ended is not None:
            self.finished.append(ended)
            if len(self.finished) < len(self.seeds):
                self.training = self._next()
        worked = len(self.finished) * steps
        if len(self.finished) < len(self.seeds):
            worked += min(self.training.step, steps - 1)
        return Progress(worked // len(self.seeds), steps, training.shown)

    def rows(self) -> pd.DataFrame:
        rows = pd.DataFrame([row for seed in self.finished for row in seed["rows"]])
        return rows.reindex(columns=ROW).astype({"x": "float64"})

    def files(self) -> dict[str, bytes]:
        """Returns each seed's agent of the best score in training's range of T."""
        seeds = (seed for seed in self.finished if seed["agent"])
        return {f"{seed['seed']}{ENDING}": seed["agent"] for seed in seeds}

    def close(self) -> None:
        """Stops the processes of the seed in training."""
        self.training.stop()

    def state_dict(self) -> dict[str, Any]:
        open_seed = len(self.finished) < len(self.seeds)
        return {
            "finished": list(self.finished),
            "training": self.training.state_dict() if open_seed else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.training.stop()
        self.finished = list(state["finished"])
        if len(self.finished) < len(self.seeds):
            self.training = self._next()
            self.training.load_state_dict(state["training"])

    def _next(self) -> Training:
        return Training(self.setting, self.seeds[len(self.finished)], self.device)


class Training:
    """The training of one seed: RLlib's algorithm, its evaluations, and the best agent so far.

    The agent is selected by its greedy score on validation episodes over the trained range of T.
    The test, which covers other T too, is played once, by the selected agent.
    """

    def __init__(self, setting: GridworldSetting, seed: int, device: torch.device) -> None:
        self.setting, self.seed, self.world = setting, seed, setting.world()
        self.algorithm: Any = build(setting, seed, device)
        self.step = 0
        self.scored = 0
        self.rows: list[dict[str, Any]] = []
        self.best: tuple[float, float] = (-1.0, 0.0)
        self.agent = b""
        self.shown: dict[str, float] = {}

    @property
    def logged_step(self) -> int:
        """Step at which the last evaluation was due; the algorithm may be a few updates further."""
        return self.scored * self.setting.steps // self.setting.evaluations

    @property
    def done(self) -> bool:
        """Whether all steps are taken."""
        return self.step >= self.setting.steps

    def advance(self) -> None:
        """Runs one iteration of the algorithm, and an evaluation if one is due."""
        before, began = self.step, time.monotonic()
        metrics = figures(self.algorithm.train())
        self.step = int(metrics["steps"])
        metrics["steps_per_second"] = (self.step - before) / (time.monotonic() - began)
        self.shown = {label: metrics[name] for name, label in SHOWN.items() if name in metrics}
        if metrics.get("dropped"):
            self.shown["dropped"] = metrics["dropped"]
        due = min(
            self.step * self.setting.evaluations // self.setting.steps, self.setting.evaluations
        )
        if due > self.scored:
            self.scored = due
            self._score(metrics)

    def finish(self) -> dict[str, Any]:
        """Plays the test, stops the algorithm, and returns ``seed``, ``rows`` and ``agent``."""
        self.stop()
        self._test()
        self._row("train", COMPLETED, 1.0)
        self.rows[-1] |= {"outcome": COMPLETED}
        return {"seed": self.seed, "rows": self.rows, "agent": self.agent}

    def give_up(self, why: str) -> dict[str, Any]:
        """Stops the algorithm and returns the result of a seed that diverged."""
        self.stop()
        reason = f"diverged at step {self.step}: {why}"
        self._row("train", COMPLETED, 0.0)
        self.rows[-1] |= {"outcome": DIVERGED, "reason": reason, "step": self.step}
        return {"seed": self.seed, "rows": self.rows, "agent": self.agent}

    def stop(self) -> None:
        """Stops the sampling processes; a second call does nothing."""
        algorithm, self.algorithm = self.algorithm, None
        if algorithm is not None:
            algorithm.stop()

    def state_dict(self) -> dict[str, Any]:
        return {
            "algorithm": states.save(self.algorithm),
            "step": self.step,
            "scored": self.scored,
            "rows": list(self.rows),
            "best": list(self.best),
            "agent": self.agent,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        states.load(self.algorithm, state["algorithm"])
        self.step, self.scored = state["step"], state["scored"]
        self.rows, self.agent = list(state["rows"]), state["agent"]
        self.best = (state["best"][0], state["best"][1])

    def _score(self, metrics: dict[str, float]) -> None:
        network = states.network_of(self.algorithm)
        seed = entropy(TASK, self.seed, "validation") % 2**31
        played = on_trained(network, self.world, self.setting.validation_episodes, seed=seed)
        score = shares(played, self.world.time_limit)
        for metric, value in score.items():
            self._row("validation", metric, value)
        for metric in ("return", "exact", "dropped"):
            if metric in metrics:
                self._row("train", metric, metrics[metric])
        if (score["exact"], score["reward"]) >= self.best:
            self.best = (score["exact"], score["reward"])
            self.agent = Agent(network, self.world, self._about(score)).to_bytes()

    def _about(self, score: dict[str, float]) -> dict[str, Any]:
        setting = self.setting
        return {
            "algorithm": setting.algorithm,
            "variant": setting.variant,
            "wiring": setting.wiring,
            "show": setting.show,
            "size": setting.size,
            "instructions": list(setting.instructions),
            "seed": self.seed,
            "setting_id": setting.id,
            "step": self.step,
            "exact": score["exact"],
        }

    def _test(self) -> None:
        """Plays the test and adds its rows."""
        setting, network = self.setting, Agent.from_bytes(self.agent).network
        seed = entropy(TASK, self.seed, "test") % 2**31
        low, high = setting.test_instructions

        def play(times: Sequence[int], each: int, limit: int, greedy: bool = True) -> pd.DataFrame:
            return episodes(network, self.world, times, each, limit, greedy=greedy, seed=seed)

        near, limit = range(low, high + 1), setting.test_time_limit
        greedy = play(near, setting.test_episodes, limit)
        sampled = play(near, setting.test_episodes, limit, greedy=False)
        self._shares("", greedy)
        self._shares("_sampled", sampled)
        curves = [self._curves("greedy", greedy, limit)]
        self._curves("sampled", sampled, limit)
        if setting.far_instructions:
            limit = 2 * max(setting.far_instructions)
            far = play(setting.far_instructions, max(1, setting.test_episodes // 4), limit)
            curves.append(self._curves("far", far, limit))
        for metric, last in reach(pd.concat(curves), setting.m, setting.instructions[0]).items():
            self._row("extrapolation", metric, last)

    def _shares(self, ending: str, played: pd.DataFrame) -> None:
        limit = self.setting.test_time_limit
        trained = played["instruction"].between(*self.setting.instructions)
        for split, part in ("interpolation", played[trained]), ("extrapolation", played[~trained]):
            for metric, value in shares(part, limit).items() if len(part) else ():
                self._row(f"{split}{ending}", metric, value)

    def _curves(self, split: str, played: pd.DataFrame, limit: int) -> pd.DataFrame:
        curves = per_instruction(played, limit)
        for metric in METRICS:
            for instruction, value in curves[metric].dropna().items():
                self._row(split, metric, value, float(str(instruction)))
        return curves

    def _row(self, split: str, metric: str, value: float, x: float | None = None) -> None:
        self.rows.append(
            {
                "seed": self.seed,
                "step": self.logged_step,
                "split": split,
                "metric": metric,
                "x": x,
                "value": float(value),
                "outcome": None,
                "reason": None,
            }
        )
