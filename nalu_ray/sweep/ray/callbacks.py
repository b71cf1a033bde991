"""Others' callbacks (TensorBoard, wandb, MLflow): what goes wrong in one never ends a sweep."""

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
    """Passes everything on to another callback until that fails; then the board warns, once.

    Args:
        name: the flag that asked for it, without dashes.
        inner: the callback.
        board: what is told that it failed.
    """

    def __init__(self, name: str, inner: tune.Callback, board: Board) -> None:
        self.name, self.inner, self.board = name, inner, board
        self.failed = False

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its callbacks to its folder; this one belongs to the command

    def setup(self, *arguments: Any, **info: Any) -> None:
        """Lets the callback begin.

        Raises:
            ConfigError: it cannot, for lack of a key, say; nothing has run yet.
        """
        try:
            self.inner.setup(*arguments, **info)
        except Exception as error:
            raise ConfigError([f"--{self.name}: {describe(error)}"]) from error

    def attempt(self, hook: str, *arguments: Any, **info: Any) -> None:
        """Calls a method of the callback, unless one has failed."""
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
