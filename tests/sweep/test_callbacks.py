"""A logger that fails ends nothing."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray import tune
from rich.console import Console

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.ray.callbacks import Guarded
from nalu_ray.sweep.ray.driver import _finished


class Recorder(tune.Callback):
    """Writes down what it is told, and fails when asked to."""

    def __init__(self, fails: str = "") -> None:
        self.fails, self.calls = fails, list[str]()

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.fails:
            raise ConnectionError("no route to the server\nand more")

    def setup(self, *arguments: Any, **info: Any) -> None:
        self._call("setup")

    def on_trial_start(self, *arguments: Any, **info: Any) -> None:
        self._call("on_trial_start")

    def on_trial_result(self, *arguments: Any, **info: Any) -> None:
        self._call("on_trial_result")

    def on_experiment_end(self, *arguments: Any, **info: Any) -> None:
        self._call("on_experiment_end")


def guarded(inner: tune.Callback) -> tuple[Guarded, io.StringIO]:
    shown = io.StringIO()
    board = Board.__new__(Board)
    board.console, board._known = Console(file=shown, width=200), set()
    return Guarded("wandb", inner, board), shown


def test_everything_is_passed_on() -> None:
    hooks = {name for name in dir(tune.Callback) if name.startswith("on_")}
    assert hooks <= set(vars(Guarded))
    inner = Recorder()
    callback, shown = guarded(inner)
    callback.setup()
    callback.on_trial_start(1, [], None)
    callback.on_trial_result(1, [], None, {})
    callback.on_experiment_end([])
    assert inner.calls == ["setup", "on_trial_start", "on_trial_result", "on_experiment_end"]
    assert shown.getvalue() == ""


def test_a_failure_is_told_once_and_the_callback_is_left_alone() -> None:
    inner = Recorder("on_trial_result")
    callback, shown = guarded(inner)
    for _ in range(3):
        callback.on_trial_result(1, [], None, {})
    callback.on_experiment_end([])
    assert inner.calls == ["on_trial_result"]
    assert shown.getvalue() == (
        "warning: --wandb: ConnectionError: no route to the server; "
        "the sweep continues without it\n"
    )


def test_one_that_cannot_begin_is_a_mistake() -> None:
    callback, _ = guarded(Recorder("setup"))
    with pytest.raises(ConfigError, match="--wandb: ConnectionError: no route to the server"):
        callback.setup()


def test_curves_that_cannot_be_drawn_are_told() -> None:
    class Broken:
        place = "nowhere"

        def finish(self) -> None:
            raise OSError(28, "No space left on device")

    callback, shown = guarded(Recorder())
    curves: Any = Broken()
    assert _finished(curves, callback.board) is None
    assert "warning: --tensorboard: OSError: [Errno 28] No space left" in shown.getvalue()


@pytest.mark.slow
def test_offline_runs_stay_with_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nalu_ray.sweep.ray import driver

    monkeypatch.setattr(driver, "LOGGERS", {"wandb": ("builtins", "dict")})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_DIR", raising=False)
    plan = SimpleNamespace(task=SimpleNamespace(name="static"))
    assert driver._logger("wandb", cast("Any", plan)) == {
        "project": "nalu_ray",
        "group": "static",
        "dir": str(tmp_path),
    }
    monkeypatch.setenv("WANDB_DIR", "/elsewhere")
    assert driver._logger("wandb", cast("Any", plan))["dir"] == "/elsewhere"


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("fails", ["on_trial_result", "setup"])
def test_a_sweep_goes_on_without_its_logger(
    fails: str, cluster: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nalu_ray import tune as command
    from nalu_ray.command import request
    from nalu_ray.results.store.store import Store
    from nalu_ray.sweep.ray import driver

    monkeypatch.setattr(request, "LOGGERS", {"wandb": "ray"})  # a package that there is
    monkeypatch.setattr(driver, "_logger", lambda kind, plan: Recorder(fails))
    line = "fake layer=a lr=1 steps=4 seeds=2 --seeds-per-trial 1 --max-concurrent 1 --wandb"
    code = command.main([*line.split(), "--address", cluster])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    if fails == "setup":
        assert code == 2
        assert err == "error: --wandb: ConnectionError: no route to the server\n"
    else:
        assert code == 0
        assert out.count("the sweep continues without it") == 1
    outcomes = Store("results").outcomes("fake").values()
    assert [o.ok for o in outcomes] == ([] if fails == "setup" else [True, True])
