"""Trained networks as files: each seed's parameters where they were best, and how it scored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nalu_ray.config import Setting
from nalu_ray.results.specs import Selection
from nalu_ray.results.store import networks
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
        return [
            Model(
                str(saved["task"]),
                dict(saved["setting"]),
                dict(about),
                {key: value[place] for key, value in saved["weights"].items()},
            )
            for place, about in enumerate(saved["about"])
        ]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ModelError(plain.unreadable(name, "model", error)) from error


def best(out: str, task: str, wanted: Mapping[str, str]) -> tuple[str, Model]:
    """Reads the stored model of a task with the lowest selecting metric, and its path.

    Args:
        out: folder or URI of the results.
        task: whose.
        wanted: values that its setting or ``about`` must have, as text.

    Raises:
        ConfigError: there is no such model, or a key of ``wanted`` that none knows.
        StoreError: the place cannot be reached.
    """
    found = networks.best(out, task, _MODELS, wanted)
    return found.path, _of(found)


def load(path: str, task: str, wanted: Mapping[str, str]) -> Model:
    """Reads the best model in one file, as :func:`best` does.

    Raises:
        ConfigError: none is as wanted.
        ModelError: it cannot be read, or holds no models of the task.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error
    if others := {model.task for model in from_bytes(data, path)} - {task}:
        raise ModelError(f"{path}: models of {', '.join(sorted(others))}, not of {task}")
    found = [networks.Found(path, data, about) for about in _known(data, path)]
    return _of(networks.choose(found, _MODELS, wanted, path))


def _known(data: bytes, name: str) -> list[dict[str, Any]]:
    return [model.setting | model.about for model in from_bytes(data, name)]


def _of(found: networks.Found) -> Model:
    models = from_bytes(found.data, found.path)
    return next(model for model in models if model.about["seed"] == found.about["seed"])


def _score(about: networks.About) -> float:
    value = about.get("value")
    return -float(value) if isinstance(value, int | float) else math.nan


_MODELS = networks.Kind(noun="model", ending=ENDING, read=_known, error=ModelError, score=_score)
