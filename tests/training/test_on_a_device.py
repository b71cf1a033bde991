"""A step of every task on a device without numbers, in the place of a GPU.

Tensors of torch's device ``meta`` have a shape and a device, but no numbers. What mixes devices, or
reads a number and so makes the host wait for a GPU, raises an error there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from nalu_ray import registry
from nalu_ray.sweep.presets import expand, load_sweep
from nalu_ray.training import freezing, optimisers, step, supervised
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask

META = torch.device("meta")
# their images must be fetched first
TASKS = [
    name
    for name in registry.names()
    if "mnist" not in name and isinstance(registry.task(name), SupervisedTask)
]


@pytest.fixture(autouse=True)
def _no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    # fused ones know no such device
    monkeypatch.setattr(optimisers, "SGD", partial(_unfused, torch.optim.SGD))
    monkeypatch.setattr(optimisers, "FusedAdam", _adam)
    monkeypatch.setattr(SupervisedRun, "_evaluation_set", lambda *_: None)
    monkeypatch.setattr(freezing.DeviceFreezer, "settle", lambda _: None)


def _unfused(kind: Any, params: Any, *, fused: bool, **options: Any) -> Any:
    assert fused
    return kind(params, **options)


def _adam(flat: Any, lr: float, betas: Any, eps: float) -> Any:
    return torch.optim.Adam([flat], lr=lr, betas=betas, eps=eps)


def settings(name: str) -> dict[str, Any]:
    """The first smoke setting of each layer."""
    smoke = load_sweep(name).presets["smoke"]
    points = expand(smoke, registry.task(name).setting_type, {})
    return {str(getattr(p.setting, "layer", "")): p.setting for p in reversed(points)}


@pytest.mark.parametrize("name", TASKS)
def test_so_does_a_recorded_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "PLAIN_STEPS", 1)
    monkeypatch.setattr(step, "WORTH_STEPS", 0)
    monkeypatch.setattr(step, "TRIED_STEPS", 0)  # no bits to compare
    task: Any = registry.task(name)
    recorded = set()
    for layer, setting in settings(name).items():
        run = task.start(setting, range(2), META)
        run._train(3)
        assert run.step == 3, layer
        recorded |= {layer} if any(run.forward._recorded.values()) else set()
    assert recorded or name == "parity"  # TorchScript cannot trace its convolutions


@pytest.mark.parametrize("name", TASKS)
def test_a_step_waits_for_nothing_and_stays_on_its_device(name: str) -> None:
    task: Any = registry.task(name)
    for layer, setting in settings(name).items():
        run = task.start(setting, range(2), META)
        run._train(2)
        assert run.step == 2, layer
        assert run.replicas.flat.device == META
        assert all(value.device == META for value in run.replicas.buffers.values())


@pytest.mark.parametrize(
    "fields",
    [
        {"clip": 1.0, "clip_value": 0.1, "schedule": "cosine", "warmup": 2},
        {"penalty": "l1@*:0.1:linear:0:5", "lr_factor": "*:0.5"},
        {"optimiser": "muon", "layer": "relu"},
        {"optimiser": "rmsprop", "phases": "1|*;1|*"},
        {"redraw": "8:2:0.1:2"},
    ],
)
def test_nor_do_the_fields_of_a_recipe(fields: dict[str, Any]) -> None:
    task: Any = registry.task("identity")
    setting = task.setting_type(**{"layer": "tanh", "steps": 20, **fields})
    run = task.start(setting, range(2), META)
    run._train(3)
    assert run.step == 3


def test_a_look_at_every_step_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(diverged: Any, done: Any, most: float, _: torch.device) -> freezing.Freezer:
        return freezing.Freezer(diverged, done, most)

    monkeypatch.setattr(supervised, "freezer", at_once)
    run = registry.task("identity").start(settings("identity")["tanh"], range(2), META)
    with pytest.raises(RuntimeError, match="meta"):
        run._train(1)  # type: ignore[attr-defined]
