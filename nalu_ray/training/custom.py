"""Trains a network of one's own on a task's data by a task's recipe, in the loop of all runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import nn

from nalu_ray.results.analysis.cells import TableCell, measured
from nalu_ray.results.analysis.selection import observe, runs_of
from nalu_ray.results.specs import Measure, Selection
from nalu_ray.training import footprint
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask

Model = nn.Module | Callable[[], nn.Module]
"""A network, or a function that builds one; torch's generators are seeded before each call."""


@dataclass(frozen=True)
class TrainedModel:
    """A trained network: that of the seed and step with the lowest interpolation error.

    Attributes:
        model: the network with its weights.
        setting: the data and the recipe.
        seed, step: of the weights; the task's selection chose them, never by extrapolation.
        errors: the error per evaluation set.
        solved, of: how many seeds solved the task; ``solved`` is None if the task has no threshold.
        rows: everything that was logged, as in a store.
    """

    model: nn.Module
    setting: SupervisedSetting
    seed: int
    step: int
    errors: Mapping[str, float]
    solved: int | None
    of: int
    rows: pd.DataFrame

    @property
    def interpolation(self) -> float:
        """The error on the interpolation set."""
        return self.errors["interpolation"]

    @property
    def extrapolation(self) -> float:
        """The error on the extrapolation set."""
        return self.errors["extrapolation"]

    def __repr__(self) -> str:
        errors = ", ".join(f"{split} {value:.3g}" for split, value in self.errors.items())
        solved = (
            "" if self.solved is None else f"; {self.solved} of {self.of} seeds solved the task"
        )
        return f"<TrainedModel {errors}; seed {self.seed}, step {self.step:,}{solved}>"


def like(
    task: SupervisedTask[Any], settings: Sequence[SupervisedSetting], model: Model
) -> list[SupervisedSetting]:
    """Returns the settings whose own networks have parameters of the model's names and shapes."""
    mine = _shapes(_built(model))
    return [
        setting
        for setting in settings
        if _shapes(footprint.without_memory(partial(task.build, setting))) == mine
    ]


def train(
    task: SupervisedTask[Any],
    setting: SupervisedSetting,
    seeds: Sequence[int],
    model: Model,
    device: torch.device,
) -> TrainedModel:
    """Trains a network of one's own with some seeds at once, and keeps the best.

    Each seed starts afresh. A network with the parameters of the setting's own network, by name and
    shape, starts as that does; in any other, each module with ``reset_parameters`` is drawn anew,
    and every parameter must be. A function's networks stay as they are built.

    Raises:
        TypeError, ValueError: the network cannot be trained so; the message says why.
        RuntimeError: every seed diverged.
    """
    rule = task.tables[0].selection if task.tables else Selection()
    with_model = _with_network(task, lambda: _start(task, setting, model), rule)
    with_model.check(setting)
    run = SupervisedRun(with_model, setting, seeds, device)
    while (progress := run.advance()).step < progress.steps:
        pass
    rows = run.rows().assign(task=task.name, setting_id=setting.id)
    limit = task.tables[0].solved_below if task.tables else None
    cells = {split: _cell(rows, rule, split, limit) for split in task.splits}
    best = cells[rule.split] if rule.split in cells else next(iter(cells.values()))
    if best.seed is None or best.step is None:
        raise RuntimeError(f"every seed diverged: {', '.join(map(str, seeds))}")
    index = list(seeds).index(best.seed)
    weights = run.replicas.state(run.keeper.flat, run.keeper.buffers)
    network = _built(model)
    network.load_state_dict({name: value[index].cpu().clone() for name, value in weights.items()})
    rate = next((cell.rate for cell in reversed(cells.values()) if cell.rate), None)
    return TrainedModel(
        model=network,
        setting=setting,
        seed=best.seed,
        step=best.step,
        errors={split: cell.value for split, cell in cells.items() if cell.value is not None},
        solved=rate.successes if rate else None,
        of=len(seeds),
        rows=rows,
    )


def _cell(rows: pd.DataFrame, rule: Selection, split: str, limit: str | None) -> TableCell:
    """Reads the selected runs on one evaluation set, as tables do."""
    measure = Measure(metric=rule.metric, split=split, label=split)
    return measured(measure, observe(rows, runs_of(rows, rule), measure, limit), {})


def _with_network(
    task: SupervisedTask[Any], build: Callable[[], nn.Module], keep: Selection
) -> SupervisedTask[Any]:
    """Returns the task with another network, which is kept at the step that ``keep`` selects."""
    members = {"build": lambda self, setting: build(), "keep": keep}
    changed = copy.copy(task)
    changed.__class__ = type(type(task).__name__, (type(task),), members)
    return changed


def _built(model: Model) -> nn.Module:
    return model if isinstance(model, nn.Module) else model()


def _start(task: SupervisedTask[Any], setting: SupervisedSetting, model: Model) -> nn.Module:
    """Returns a fresh network; see :func:`train`."""
    if not isinstance(model, nn.Module):
        return model()
    network = copy.deepcopy(model)
    by_recipe = task.build(setting)
    if _shapes(by_recipe) == _shapes(network):
        network.load_state_dict(by_recipe.state_dict())
        return network
    # parents last: a start of their own replaces that of their parts
    for part in reversed(list(network.modules())):
        if callable(reset := getattr(part, "reset_parameters", None)):
            reset()
    before = dict(model.named_parameters())
    for name, value in network.named_parameters():
        unchanged = value.requires_grad and torch.equal(value, before[name])
        if unchanged and bool((value != value.flatten()[:1]).any()):
            raise TypeError(
                f"parameter {name} would start alike in every seed: its module has no "
                "reset_parameters; pass a function that builds the network"
            )
    return network


def _shapes(network: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in network.state_dict().items()}
