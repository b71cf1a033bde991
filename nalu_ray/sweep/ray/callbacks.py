"""Loggers' callbacks (TensorBoard, wandb, MLflow): an error in one never ends a sweep."""

from __future__ import annotations

from typing import Any

from ray import tune

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.ray.failures import describe

_HOOKS = (
    "on_step_begin",
    "on_step_end",
    "on_trial_start",
    "on_trial_restore",
    "on_trial_save",
    "on_trial_result",
    "on_trial_complete",
    "on_trial_recover",
    "on_trial_error",
    "on_checkpoint",
    "on_experiment_end",
)


class Guarded(tune.Callback):
    """Passes calls on to another callback until it fails; then the board shows one warning.

    Args:
        name: the logger's flag, without dashes.
        inner: the callback.
        board: shows the warning.
    """

    def __init__(self, name: str, inner: tune.Callback, board: Board) -> None:
        self.name, self.inner, self.board = name, inner, board
        self.failed = False

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its callbacks to its folder; this one belongs to the command

    def setup(self, *arguments: Any, **info: Any) -> None:
        """Starts the callback.

        Raises:
            ConfigError: it cannot start, for example without a key; nothing has run yet.
        """
        try:
            self.inner.setup(*arguments, **info)
        except Exception as error:
            raise ConfigError([f"--{self.name}: {describe(error)}"]) from error

    def attempt(self, hook: str, *arguments: Any, **info: Any) -> None:
        """Calls a method of the callback, unless a call has failed before."""
        if self.failed:
            return
        try:
            getattr(self.inner, hook)(*arguments, **info)
        except Exception as error:
            self.failed = True
            text = f"warning: --{self.name}: {describe(error)}; the sweep continues without it"
            self.board.note(text)


def _passed_on(hook: str) -> Any:
    def passed_on(self: Guarded, *arguments: Any, **info: Any) -> None:
        self.attempt(hook, *arguments, **info)

    passed_on.__name__ = hook
    return passed_on


for _hook in _HOOKS:
    setattr(Guarded, _hook, _passed_on(_hook))
