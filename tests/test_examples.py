"""The scripts of examples/ run; tests/test_plugins.py has the package."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")


def run(
    name: str, *words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_every_script_is_listed() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = {*re.findall(r"\]\((\w+\.py)\)", text)}
    assert listed == {path.name for path in EXAMPLES.glob("*.py")}


def test_a_unit_in_a_loop_of_ones_own_learns_the_product() -> None:
    script = runpy.run_path(str(EXAMPLES / "own_loop.py"))
    unit = script["train"]()
    assert torch.equal(unit.W, torch.tensor([[1.0, 0.0, 1.0, 0.0]]))
    assert script["error"](unit) == 0.0


def test_two_nalus_learn_the_product_by_the_recipe_alone() -> None:
    script = runpy.run_path(str(EXAMPLES / "multiply.py"))
    question = torch.tensor([[20.0, 30.0]])
    exact = script["recipe"](1000)(question).item()
    assert exact == pytest.approx(600, abs=0.5)
    assert abs(script["obvious"](300)(question).item() - 600) > 50


def test_training_ones_own_network(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run("train.py", "--steps", "20", monkeypatch=monkeypatch, capsys=capsys)
    assert "of 4 seeds solved it" in out


def test_a_sweep_and_its_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run("sweep.py", "--steps", "20", monkeypatch=monkeypatch, capsys=capsys)
    assert re.search(r"nalu +extrapolation", out)
    assert (tmp_path / "sweep.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_ppo_of_rllib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out = run("gridworld_rllib.py", "--iterations", "1", monkeypatch=monkeypatch, capsys=capsys)
    assert re.search(r"iteration 1: mean return -?\d+\.\d\d", out)


def test_ppo_of_stable_baselines3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sb3_contrib")
    words = ("--steps", "256", "--episodes", "2")
    out = run("gridworld_sb3.py", *words, monkeypatch=monkeypatch, capsys=capsys)
    assert "mean return:" in out
