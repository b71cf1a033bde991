"""A trial of the gridworld: what it stores, and which agent it keeps."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch

from nalu_ray.results.store.store import COMPLETED
from nalu_ray.rl import run as runs
from nalu_ray.rl.agent.stored import Agent
from nalu_ray.rl.evaluation import episodes, shares
from nalu_ray.rl.run import GridworldRun
from nalu_ray.rl.setting import GridworldSetting
from nalu_ray.seeding import entropy
from tests.runs import finish

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.xdist_group("gridworld")]
CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    "size": 3,
    "instructions": "3:5",
    "time_limit": 8,
    "steps": 2560,
    "warmup": 0,
    "evaluations": 4,
    "runners": 0,
    "envs": 16,
    "validation_episodes": 10,
    "test_instructions": "3:8",
    "test_time_limit": 16,
    "test_episodes": 20,
    "far_instructions": "10:12",
}


def finished(setting: GridworldSetting, seeds: list[int]) -> GridworldRun:
    run = GridworldRun(setting, seeds, CPU)
    finish(run)
    return run


@pytest.fixture(scope="module")
def run(cluster: str) -> GridworldRun:
    return finished(GridworldSetting(**SMALL), [3])


def test_rows_hold_training_validation_and_test(run: GridworldRun) -> None:
    rows = run.rows()
    assert set(rows[rows.split == "validation"].step) == {640, 1280, 1920, 2560}
    assert set(rows[rows.split == "train"].metric) == {"return", "exact", "dropped", COMPLETED}
    for split, times in {"greedy": range(3, 9), "sampled": range(3, 9), "far": (10, 12)}.items():
        here = rows[(rows.split == split) & (rows.metric == "reward")]
        assert list(here.x) == list(times)
        assert set(here.step) == {2560}
    for split in ("interpolation", "extrapolation_sampled"):
        by_metric = rows[rows.split == split].set_index("metric").value
        assert by_metric["exact"] + by_metric["inexact"] == pytest.approx(1)
    assert rows.iloc[-1].metric == COMPLETED


def test_steps_are_those_where_a_score_was_due(cluster: str) -> None:
    """Seeds overshoot by different numbers of steps; their curves have common points."""
    rows = finished(GridworldSetting(**{**SMALL, "steps": 2700, "evaluations": 3}), [0]).rows()
    assert set(rows.step) == {900, 1800, 2700}


def test_interpolation_is_the_range_that_was_trained(run: GridworldRun) -> None:
    rows = run.rows()
    curve = rows[(rows.split == "greedy") & (rows.metric == "reward")].set_index("x").value
    whole = rows[rows.metric == "reward"].set_index("split").value
    assert whole["interpolation"] == pytest.approx(curve[[3, 4, 5]].mean())
    assert whole["extrapolation"] == pytest.approx(curve[[6, 7, 8]].mean())


def test_reach_is_read_from_all_times_played(run: GridworldRun) -> None:
    rows = run.rows()
    curve = rows[(rows.metric == "reward") & rows.x.notna() & (rows.split != "sampled")]
    good = curve.sort_values("x").value.to_numpy() >= 0.9
    times = sorted(curve.x)
    (told,) = rows[rows.metric == "reward_to"].value
    assert told == (times[int(good.argmin()) - 1] if good[0] else 2)


def test_the_kept_agent_is_the_one_with_the_best_score(run: GridworldRun) -> None:
    (data,) = run.files().values()
    agent = Agent.from_bytes(data)
    rows = run.rows()
    scores = rows[(rows.split == "validation") & (rows.metric == "exact")]
    assert agent.about["exact"] == scores.value.max()
    assert agent.about["step"] in set(scores[scores.value == scores.value.max()].step)
    assert agent.about["seed"] == 3
    seed = entropy("gridworld", 3, "validation") % 2**31
    again = episodes(agent.network, agent.world, range(3, 6), 10, 8, seed=seed)
    assert shares(again, 8)["exact"] == agent.about["exact"]


def test_of_equal_scores_the_later_agent_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([0.2, 0.7, 0.7, 0.4])

    def scored(played: pd.DataFrame, limit: int) -> dict[str, float]:
        exact = next(told, 0.0)
        return {"exact": exact, "inexact": 1 - exact, "reward": 0.5}

    monkeypatch.setattr(runs, "shares", scored)
    (data,) = finished(GridworldSetting(**SMALL), [0]).files().values()
    assert Agent.from_bytes(data).about["step"] == 1920


def test_seeds_are_trained_in_turn_and_differ() -> None:
    setting = GridworldSetting(**{**SMALL, "evaluations": 1})
    run = GridworldRun(setting, [0, 1], CPU)
    steps, ended = [run.advance().step], [run.ended]
    while steps[-1] < setting.steps:
        steps.append(run.advance().step)
        ended.append(run.ended)
    assert steps == sorted(steps)
    assert [*dict.fromkeys(ended)][-2:] == [(0,), (0, 1)]
    assert 1280 in steps
    rows = run.rows().drop(columns="seed")
    half = len(rows) // 2
    assert not rows[:half].reset_index(drop=True).equals(rows[half:].reset_index(drop=True))
    assert set(run.files()) == {"0.agent.pt", "1.agent.pt"}


def test_a_seed_that_diverges_keeps_its_rows_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = runs.Training.advance

    def advance(training: runs.Training) -> None:
        if training.seed == 0 and training.scored == 1:
            raise runs.DivergedError("2 updates in a row")
        plain(training)

    monkeypatch.setattr(runs.Training, "advance", advance)
    run = finished(GridworldSetting(**SMALL), [0, 1])
    rows = run.rows()
    ends = rows[rows.metric == COMPLETED].set_index("seed")
    assert list(ends.value) == [0.0, 1.0]
    assert ends.reason[0] == "diverged at step 640: 2 updates in a row"
    assert "validation" in set(rows[rows.seed == 0].split)
    assert "greedy" not in set(rows[rows.seed == 0].split)
    assert set(run.files()) == {"0.agent.pt", "1.agent.pt"}
