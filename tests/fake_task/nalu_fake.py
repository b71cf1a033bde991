"""A task of another package: numbers from its seeds alone, and every way to go wrong."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import Field

from nalu_ray.seeding import entropy
from nalu_ray.task import Progress, Setting, Task


class FakeSetting(Setting):
    """Fields of the fake task."""

    layer: Literal["a", "b", "gamma"] = Field("a", description="which network")
    lr: float = Field(0.1, gt=0, description="learning rate")
    hidden: int = Field(2, ge=1, description="hidden units")
    steps: int = Field(4, ge=1, description="training steps")
    seconds: float = Field(0.0, ge=0, description="time a step takes")
    clip: float | None = Field(None, description="largest norm")
    wrong: Literal["no", "diverge", "raise", "kill", "kill_always", "warn", "no_memory", "hog"] = (
        Field("no", description="what goes wrong, halfway")
    )
    folder: str = Field("", description="where runs leave marks")


class FakeRun:
    """Sums numbers that depend on the seed and the step."""

    def __init__(self, setting: FakeSetting, seeds: Sequence[int]) -> None:
        self.setting, self.seeds = setting, tuple(seeds)
        self.step = 0
        self.values = dict.fromkeys(seeds, 0.0)
        self.mark("start")

    def mark(self, event: str) -> None:
        if self.setting.folder:
            gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
            fields = (event, self.setting.layer, self.seeds[0], self.step, os.getpid(), gpus)
            with open(Path(self.setting.folder, "marks"), "a", encoding="utf-8") as file:
                print(*fields, file=file)

    def advance(self) -> Progress:
        time.sleep(self.setting.seconds)
        if self.step == self.setting.steps // 2:
            self.go_wrong()
        for seed in self.seeds:
            self.values[seed] += entropy("fake", seed, str(self.step)) / 2**128 * self.setting.lr
        self.step += 1
        self.mark("step")
        return Progress(self.step, self.setting.steps, {"mse": self.values[self.seeds[0]]})

    def go_wrong(self) -> None:
        wrong = self.setting.wrong
        if wrong == "raise":
            raise ValueError(f"cannot go on at seed {self.seeds[0]}")
        if wrong == "warn":
            warnings.warn("weights look odd", stacklevel=1)
        if wrong == "no_memory" and len(self.seeds) > 2:
            raise MemoryError
        if wrong == "hog" and len(self.seeds) > 4:
            self.fill_memory()
        if wrong in ("kill", "kill_always"):
            once = Path(self.setting.folder, f"killed-{self.setting.layer}-{self.seeds[0]}")
            if wrong == "kill_always" or not once.exists():
                once.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    def fill_memory(self) -> None:
        """Takes more and more, until someone stops it."""
        held = []
        while len(held) < 120:
            held.append(bytearray(b"1" * 100 * 2**20))
            time.sleep(0.02)
        raise AssertionError("no one stopped it")

    def rows(self) -> pd.DataFrame:
        end = {"step": self.step, "x": None}
        rows = [
            {"seed": s, "split": "train", "metric": "mse", "value": v, "reason": None, **end}
            for s, v in self.values.items()
        ]
        for seed in self.seeds:
            bad = self.setting.wrong == "diverge" and seed % 2 == 1
            reason = f"diverged at step {seed}" if bad else None
            rows.append(
                {"seed": seed, "split": "train", "metric": "completed", "value": float(not bad)}
                | {"reason": reason, **end}
            )
        return pd.DataFrame(rows)

    def files(self) -> dict[str, bytes]:
        return {f"{seed}.txt": str(value).encode() for seed, value in self.values.items()}

    def close(self) -> None:
        self.mark("closed")

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "values": dict(self.values)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.values = state["step"], dict(state["values"])
        self.mark("resumed")


class FakeTask(Task[FakeSetting]):
    """Not an experiment."""

    name = "fake"
    title = "A fake task"
    section = "0"
    setting_type = FakeSetting
    axes = ("layer",)

    def start(self, setting: FakeSetting, seeds: Sequence[int], device: Any) -> FakeRun:
        return FakeRun(setting, seeds)

    def steps(self, setting: FakeSetting) -> int:
        return setting.steps

    def memory(self, setting: FakeSetting, seeds: int) -> int:
        return setting.hidden * seeds * 2**20


TASK = FakeTask()
