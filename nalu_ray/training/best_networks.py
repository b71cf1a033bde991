"""Trained networks as files: each seed's best parameters, with the metric that selected them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from nalu_ray.errors import explain
from nalu_ray.results.specs import Selection
from nalu_ray.results.store import networks
from nalu_ray.task import Setting
from nalu_ray.training import tensor_files
from nalu_ray.training.replicas import Replicas, chosen

FORMAT = "nalu_ray model 1"
ENDING = ".model.pt"


class ModelError(ValueError):
    """A file that holds no models of this version."""


class Keeper:
    """Keeps a copy of each seed's network at the step that a rule selects.

    Attributes:
        rule: the metric and split that select, by the lowest or the last value; None keeps nothing.
        flat, buffers: the kept parameters and buffers, as in :class:`Replicas`.
        values: the metric at the selected step, (R,); infinite before the first.
        steps: the selected step, (R,).
    """

    def __init__(
        self, rule: Selection | None, flat: Tensor, buffers: Mapping[str, Tensor] | None = None
    ) -> None:
        self.rule = rule
        self.flat = flat.detach().clone() if rule else flat.new_empty(0, flat.shape[1])
        self.buffers = dict(buffers or {}) if rule else {}
        self.values = torch.full((len(self.flat),), math.inf, dtype=torch.float64)
        self.steps = torch.zeros(len(self.flat), dtype=torch.int64)

    def see(
        self,
        step: int,
        split: str,
        figures: Mapping[str, Tensor],
        flat: Tensor,
        alive: Tensor,
        *,
        buffers: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Takes each seed's metrics on a split, {metric: (R,)}, after ``step`` training steps.

        Seeds that are not ``alive``, (R,), train no more and keep their copy.

        Raises:
            ValueError: the metric that selects is not among them.
        """
        if self.rule is None or split != self.rule.split:
            return
        if self.rule.metric not in figures:
            metrics = ", ".join(figures) or "no metric"
            raise ValueError(
                f"networks are kept by {split} {self.rule.metric}, but {split} has {metrics}"
            )
        values = figures[self.rule.metric].detach().double().cpu()
        taken = values < self.values if self.rule.step == "best" else values.isfinite()
        taken &= alive
        self.values = torch.where(taken, values, self.values)
        self.steps[taken] = step
        self.flat = chosen(taken, flat.detach(), self.flat)
        self.buffers = {
            name: chosen(taken, value, self.buffers[name])
            for name, value in (buffers or {}).items()
        }

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for :meth:`load_state_dict`."""
        return {
            "flat": self.flat.clone(),
            "buffers": {name: value.clone() for name, value in self.buffers.items()},
            "values": self.values,
            "steps": self.steps.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes from a saved state."""
        self.flat = state["flat"].to(self.flat.device)
        saved = state.get("buffers", {})
        self.buffers = {name: saved[name].to(self.flat.device) for name in self.buffers}
        self.values, self.steps = state["values"].clone(), state["steps"].clone()

    def files(
        self, task: str, setting: Setting, seeds: Sequence[int], replicas: Replicas
    ) -> dict[str, bytes]:
        """Returns one file with the kept parameters of all seeds, keyed by the end of its name."""
        if self.rule is None:
            return {}
        rule = {"split": self.rule.split, "metric": self.rule.metric}
        selected = zip(seeds, self.steps.tolist(), self.values.tolist(), strict=True)
        weights = replicas.state(self.flat, self.buffers)
        saved = {
            "format": FORMAT,
            "task": task,
            "setting": setting.model_dump(mode="json"),
            "about": [
                {"seed": s, "step": step, **rule, "value": value} for s, step, value in selected
            ],
            "weights": {name: value.cpu().clone() for name, value in weights.items()},
        }
        return {f"best{ENDING}": tensor_files.to_bytes(saved, ModelError)}


@dataclass(frozen=True)
class Model:
    """The parameters of one seed.

    Attributes:
        task: name of the task.
        setting: values of the task's setting.
        about: ``seed``, and the selection: ``step``, ``split``, ``metric`` and ``value``.
        weights: a state dict.
    """

    task: str
    setting: dict[str, Any]
    about: dict[str, Any]
    weights: dict[str, Tensor]


def from_bytes(data: bytes, name: str = "model") -> list[Model]:
    """Reads the models of all seeds in a file onto the CPU; runs no code from it.

    Raises:
        ModelError: if it is not such a file; the message starts with ``name``.
    """
    saved = tensor_files.from_bytes(data, name, noun="model", form=FORMAT, error=ModelError)
    try:
        tensor_files.check_values(saved["about"], "about")
        tensor_files.check_values(saved["setting"], "setting")
        weights = _checked(saved["weights"], len(saved["about"]))
        return [
            Model(
                str(saved["task"]),
                dict(saved["setting"]),
                _About.model_validate(about).model_dump(),
                {key: value[index] for key, value in weights.items()},
            )
            for index, about in enumerate(saved["about"])
        ]
    except ValidationError as error:
        raise ModelError(f"{name}: {'; '.join(explain(error))}") from error
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(tensor_files.unreadable(name, "model", error)) from error


class _About(BaseModel):
    """The description of a seed's model."""

    model_config = ConfigDict(extra="allow", strict=True)

    seed: int = Field(ge=0)
    step: int = Field(ge=0)
    split: str
    metric: str
    value: float


def _checked(weights: Mapping[Any, Any], seeds: int) -> dict[str, Tensor]:
    """Returns the weights if each is a tensor with the seeds as its leading axis."""
    for name, value in weights.items():
        if not isinstance(value, Tensor) or value.layout != torch.strided:
            raise TypeError(f"weights {name}: not a tensor")
        if value.ndim < 1 or len(value) != seeds:
            raise ValueError(f"weights {name}: {list(value.shape)} for {seeds} seeds")
    return {str(name): value for name, value in weights.items()}


Fit = Callable[[Model], None]
"""Checks that a model can be used; raises :class:`ModelError` with the reason if not."""


def _anything(model: Model) -> None:
    pass


def best(
    out: str,
    task: str,
    wanted: Mapping[str, str],
    fit: Fit = _anything,
    runs: networks.Runs | None = None,
) -> tuple[str, Model]:
    """Returns the path and the stored model of a task with the lowest selecting metric.

    Files without models and models that do not fit are reported and skipped.

    Args:
        out: folder or URI of the results.
        task: name of the task.
        wanted: values that its setting or ``about`` must have, as text.
        fit: a check that the model must pass.
        runs: the runs that may have trained it; None for all.

    Raises:
        ConfigError: if no model matches, or no model has a key of ``wanted``.
        StoreError: if the storage cannot be reached.
    """
    return networks.best(out, task, _MODELS, wanted, lambda item: _used(item, task, fit), runs=runs)


def load(path: str, task: str, wanted: Mapping[str, str], fit: Fit = _anything) -> Model:
    """Returns the best model in one file, chosen as in :func:`best`.

    Raises:
        ConfigError: if no model matches ``wanted``.
        ModelError: if the file cannot be read or is of another task, or the best does not fit.
    """
    data = tensor_files.read(path, ModelError)
    models = [networks.Found(path, data, about) for about in _known(data, path)]
    return _used(networks.rank(models, _MODELS, wanted, path)[0], task, fit)[1]


def _known(data: bytes, name: str) -> list[dict[str, Any]]:
    return [model.setting | model.about for model in from_bytes(data, name)]


def _used(item: networks.Found, task: str, fit: Fit) -> tuple[str, Model]:
    models = from_bytes(item.data, item.path)
    model = next(model for model in models if model.about["seed"] == item.about["seed"])
    if model.task != task:
        raise ModelError(f"{item.path}: models of the task {model.task}, not of {task}")
    try:
        fit(model)
    except ModelError as error:
        raise ModelError(f"{item.path}: {error}") from error
    return item.path, model


def _score(about: networks.About) -> float:
    return -float(about["value"])


_MODELS = networks.Kind(noun="model", ending=ENDING, read=_known, error=ModelError, score=_score)
