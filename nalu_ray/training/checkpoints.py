"""Trained networks as files: each seed's parameters where they were best, and how it scored."""

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
from nalu_ray.training import plain
from nalu_ray.training.replicas import Replicas, chosen

FORMAT = "nalu_ray model 1"
ENDING = ".model.pt"


class ModelError(ValueError):
    """A file holds no models of this version."""


class Keeper:
    """Keeps each seed's network as it was where a rule selects; without a rule, nothing.

    Attributes:
        rule: which metric of which split decides, and whether its lowest or its last value does.
        flat, buffers: the kept parameters and buffers, as in :class:`Replicas`.
        values: the metric there, (R,); infinite until there is one.
        steps: of training done there, (R,).
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
        """Looks at each seed's figures on a split, {metric: (R,)}, after so many steps.

        Those that are not ``alive``, (R,), train no more: they keep what they have.
        """
        if self.rule is None or split != self.rule.split:
            return
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
        """Returns what :meth:`load_state_dict` goes on from."""
        return {
            "flat": self.flat.clone(),
            "buffers": {name: value.clone() for name, value in self.buffers.items()},
            "values": self.values,
            "steps": self.steps.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state."""
        self.flat = state["flat"].to(self.flat.device)
        saved = state.get("buffers", {})
        self.buffers = {name: saved[name].to(self.flat.device) for name in self.buffers}
        self.values, self.steps = state["values"].clone(), state["steps"].clone()

    def files(
        self, task: str, setting: Setting, seeds: Sequence[int], replicas: Replicas
    ) -> dict[str, bytes]:
        """Returns one file with the kept parameters of all seeds, by the ending of its name."""
        if self.rule is None:
            return {}
        rule = {"split": self.rule.split, "metric": self.rule.metric}
        found = zip(seeds, self.steps.tolist(), self.values.tolist(), strict=True)
        weights = replicas.state(self.flat, self.buffers)
        saved = {
            "format": FORMAT,
            "task": task,
            "setting": setting.model_dump(mode="json"),
            "about": [
                {"seed": s, "step": step, **rule, "value": value} for s, step, value in found
            ],
            "weights": {name: value.cpu().clone() for name, value in weights.items()},
        }
        return {f"best{ENDING}": plain.to_bytes(saved, ModelError)}


@dataclass(frozen=True)
class Model:
    """The parameters of one seed.

    Attributes:
        task: its name.
        setting: the values of the task's setting.
        about: ``seed``, and where it was selected: ``step``, ``split``, ``metric`` and ``value``.
        weights: a state dict.
    """

    task: str
    setting: dict[str, Any]
    about: dict[str, Any]
    weights: dict[str, Tensor]


def from_bytes(data: bytes, name: str = "model") -> list[Model]:
    """Reads every seed's model from a file, on the CPU; runs no code from it.

    Raises:
        ModelError: it is none; the message starts with ``name``.
    """
    saved = plain.from_bytes(data, name, noun="model", form=FORMAT, error=ModelError)
    try:
        plain.check_values(saved["about"], "about")
        plain.check_values(saved["setting"], "setting")
        weights = _checked(saved["weights"], len(saved["about"]))
        return [
            Model(
                str(saved["task"]),
                dict(saved["setting"]),
                _About.model_validate(about).model_dump(),
                {key: value[place] for key, value in weights.items()},
            )
            for place, about in enumerate(saved["about"])
        ]
    except ValidationError as error:
        raise ModelError(f"{name}: {'; '.join(explain(error))}") from error
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(plain.unreadable(name, "model", error)) from error


class _About(BaseModel):
    """What is known of a seed's model."""

    model_config = ConfigDict(extra="allow", strict=True)

    seed: int = Field(ge=0)
    step: int = Field(ge=0)
    split: str
    metric: str
    value: float


def _checked(weights: Mapping[Any, Any], seeds: int) -> dict[str, Tensor]:
    """Returns weights if they are such, the seeds as the leading axis of each."""
    for name, value in weights.items():
        if not isinstance(value, Tensor) or value.layout != torch.strided:
            raise TypeError(f"weights {name}: no tensor")
        if value.ndim < 1 or len(value) != seeds:
            raise ValueError(f"weights {name}: {list(value.shape)} for {seeds} seeds")
    return {str(name): value for name, value in weights.items()}


Fit = Callable[[Model], None]
"""Makes sure that a model can be asked; raises :class:`ModelError`, saying why, if not."""


def _anything(model: Model) -> None:
    pass


def best(out: str, task: str, wanted: Mapping[str, str], fit: Fit = _anything) -> tuple[str, Model]:
    """Reads the stored model of a task with the lowest selecting metric, and its path.

    A file that is none, or a model that does not fit, is named, and the next best is taken.

    Args:
        out: folder or URI of the results.
        task: whose.
        wanted: values that its setting or ``about`` must have, as text.
        fit: what it must pass.

    Raises:
        ConfigError: there is no such model, or a key of ``wanted`` that none knows.
        StoreError: the place cannot be reached.
    """
    return networks.best(out, task, _MODELS, wanted, lambda found: _used(found, task, fit))


def load(path: str, task: str, wanted: Mapping[str, str], fit: Fit = _anything) -> Model:
    """Reads the best model in one file, as :func:`best` does.

    Raises:
        ConfigError: none is as wanted.
        ModelError: it cannot be read, or holds no models of the task, or the best does not fit.
    """
    data = plain.read(path, ModelError)
    found = [networks.Found(path, data, about) for about in _known(data, path)]
    return _used(networks.rank(found, _MODELS, wanted, path)[0], task, fit)[1]


def _known(data: bytes, name: str) -> list[dict[str, Any]]:
    return [model.setting | model.about for model in from_bytes(data, name)]


def _used(found: networks.Found, task: str, fit: Fit) -> tuple[str, Model]:
    models = from_bytes(found.data, found.path)
    model = next(model for model in models if model.about["seed"] == found.about["seed"])
    if model.task != task:
        raise ModelError(f"{found.path}: models of {model.task}, not of {task}")
    try:
        fit(model)
    except ModelError as error:
        raise ModelError(f"{found.path}: {error}") from error
    return found.path, model


def _score(about: networks.About) -> float:
    return -float(about["value"])


_MODELS = networks.Kind(noun="model", ending=ENDING, read=_known, error=ModelError, score=_score)
