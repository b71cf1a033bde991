"""Learning to track time in a gridworld (section 4.5): arrive at the red square at time T.

The instruction T is 5 to 12 in training and 5 to 25 in the test (Figure 5). The environment is in
``envs``, the settings, agent and algorithms are in :mod:`nalu_ray.rl`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.rl import footprint
from nalu_ray.rl.setting import GridworldSetting
from nalu_ray.task import Run, Task

if TYPE_CHECKING:
    import torch

VARIANTS = Axis(
    field="variant",
    labels={"lstm": "LSTM", "lstm_nac": "LSTM + NAC", "nac_core": "NAC counters (ours)"},
    more={
        "lstm_linear": "LSTM + linear counter (control)",
        "linear_core": "linear counters (control)",
    },
    given={
        "nac_core": "a latch that keeps T; the counters' form and start; a bank of tanh units",
        "nac_core@counter_init<4": "the same, but for the start",
        "linear_core": "the same, without the NACs' bounds",
    },
    apart={"counter_init<4": {"nac_core": "NAC counters, start learned (ours)"}},
)
ALGORITHMS = Axis(field="algorithm", labels={"a3c": "A3C", "impala": "IMPALA"})
PROBLEM = (
    "size",
    "instructions",
    "test_instructions",
    "far_instructions",
    "time_limit",
    "test_time_limit",
    "reward",
    "m",
    "c",
    "show",
)
PAPER = {"size": "5", "instructions": "[5, 12]", "test_instructions": "[5, 25]"}
LAST = Selection(metric="inexact", split="interpolation", step="last")
SPLITS = {
    "interpolation": "trained T",
    "extrapolation": "other T",
    "interpolation_sampled": "trained T, sampled actions",
    "extrapolation_sampled": "other T, sampled actions",
}
FIGURES = {
    "exact": ("Exact", ".3f", "higher"),
    "reward": ("Reward", ".2f", "higher"),
    "off": ("Distance of arrival from T", ".2f", "lower"),
    "never": ("No arrival", ".2f", "lower"),
}
REACH = {
    "exact_to": "Largest T with an exact share of 0.9",
    "reward_to": "Largest T with a reward of 0.9 m",
}


def _measures() -> dict[str, Measure]:
    measures = {
        f"{metric}_{split}": Measure(
            metric=metric,
            split=split,
            label=f"{label}, {split_label}",
            statistic="mean",
            format=style,
            better=better,
        )
        for split, split_label in SPLITS.items()
        for metric, (label, style, better) in FIGURES.items()
        if metric == "exact" or not split.endswith("sampled")
    }
    return measures | {
        metric: Measure(
            metric=metric,
            split="extrapolation",
            label=label,
            statistic="mean",
            better="higher",
        )
        for metric, label in REACH.items()
    }


def _figure(name: str, metric: str, split: str, caption: str, y_label: str) -> FigureSpec:
    return FigureSpec(
        name=name,
        number="5" if name == "gridworld" else None,
        caption=caption,
        metric=metric,
        split=split,
        lines=VARIANTS,
        panels=ALGORITHMS,
        selection=LAST,
        shade="instructions",
        paper=PAPER,
        x_label="T",
        y_label=y_label,
        select_step=True,
        problem=PROBLEM,
    )


class GridworldTask(Task[GridworldSetting]):
    """Section 4.5: tracking time in a gridworld, by reinforcement learning."""

    name = "gridworld"
    title = "Learning to track time in a gridworld"
    section = "4.5"
    setting_type = GridworldSetting
    uses_ray = True
    unit_labels: ClassVar[Mapping[str, str]] = {"variant": "{}"}
    axes = ("algorithm", "variant")
    unit = "environment steps"
    tables = (
        TableSpec(
            name="gridworld",
            caption="Share of exact arrivals among episodes where they are possible, reward, "
            "distance of arrival from T, and share of episodes without arrival. Actions are greedy "
            "unless sampled. Trained T: {instructions}; other T: the rest of {test_instructions}; "
            "episodes of up to {test_time_limit} steps. Each seed's agent is the best on trained "
            "T during training.",
            paper=PAPER,
            rows=VARIANTS,
            columns=ALGORITHMS,
            measures=_measures(),
            layout="blocks",
            models="rows",
            selection=LAST,
            problem=PROBLEM,
        ),
    )
    figures = (
        _figure(
            "gridworld",
            "reward",
            "greedy",
            "Reward of greedy actions by T; arriving at T gives {m}.",
            "reward",
        ),
        _figure(
            "gridworld_exact",
            "exact",
            "greedy",
            "Share of exact arrivals with greedy actions.",
            "exact share",
        ),
        _figure(
            "gridworld_arrival",
            "time",
            "greedy",
            "Time of arrival; an episode without arrival counts as {test_time_limit}.",
            "time of arrival",
        ),
        _figure(
            "gridworld_far", "exact", "far", "Exact arrivals far beyond training.", "exact share"
        ),
        _figure(
            "gridworld_learning",
            "exact",
            "validation",
            "Share of exact arrivals on trained T, {instructions}, during training, with greedy "
            "actions.",
            "exact share",
        ).model_copy(
            update={
                "x": "step",
                "x_label": "environment steps",
                "shade": None,
                "select_step": False,
            }
        ),
    )

    def start(self, setting: GridworldSetting, seeds: Sequence[int], device: torch.device) -> Run:
        from nalu_ray.rl.run import GridworldRun  # noqa: PLC0415 (only training needs RLlib)

        return GridworldRun(setting, seeds, device)

    def steps(self, setting: GridworldSetting) -> int:
        return setting.steps

    def processes(self, setting: GridworldSetting) -> int:
        return setting.runners

    def check(self, setting: GridworldSetting) -> None:
        footprint.check(setting)

    def memory(self, setting: GridworldSetting, seeds: int) -> int:
        """Counts processes with their rollouts, and an evaluation; seeds train one by one."""
        return footprint.memory(setting)

    def trained(self, setting: GridworldSetting, seeds: int) -> int:
        return footprint.trained(setting)

    def parameters(self, setting: GridworldSetting) -> int:
        return footprint.parameters(setting)


TASK = GridworldTask()
