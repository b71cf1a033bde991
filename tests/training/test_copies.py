"""A batch that a task returns again is copied to a GPU once."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from nalu_ray import registry
from nalu_ray.task import Batch
from nalu_ray.training import freezing, supervised
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.supervised import SupervisedRun
from tests.training.toys import CPU, Sums

META = torch.device("meta")


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The tensors that were copied, in order; copies to CUDA stay on the CPU."""
    tensors: list[Tensor] = []

    def sent(tensor: Tensor, device: torch.device) -> Tensor:
        tensors.append(tensor)
        return tensor.clone() if device.type == "cuda" else tensor.to(device)

    monkeypatch.setattr(supervised, "_sent", sent)
    return tensors


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> SupervisedRun:
    monkeypatch.setattr(SupervisedRun, "_evaluation_set", lambda *_: None)
    return Sums().start(SupervisedSetting(steps=4), range(2), META)


def test_a_batch_is_copied_again_only_if_it_changes(
    run: SupervisedRun, copied: list[Tensor]
) -> None:
    x, y = torch.ones(2, 4, 3), torch.ones(2, 4, 1)
    batch = Batch((x,), y)
    copy = run._to_device(batch)
    assert (copy.inputs[0].shape, copy.targets.shape) == (x.shape, y.shape)
    assert copy.inputs[0].device == copy.targets.device == META
    assert run._to_device(batch) is copy
    assert list(map(id, copied)) == [id(x), id(y)]
    for changed in batch.inputs[0][0], batch.targets:
        changed.zero_()
        earlier, copy = copy, run._to_device(batch)
        assert copy is not earlier
        assert run._to_device(batch) is copy
    assert len(copied) == 6


def test_a_copy_goes_with_its_batch(run: SupervisedRun, copied: list[Tensor]) -> None:
    gc.disable()  # no cycle may hold it
    try:
        for _ in range(3):
            copy = weakref.ref(run._to_device(run.task.sample(run.setting, "train", run.streams)))
            assert copy() is None
    finally:
        gc.enable()
    assert len(copied) == 6


def test_language_copies_its_set_at_the_first_step(
    copied: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = registry.task("language")
    setting = task.setting_type(head="nalu", combine="sum", hidden=4, embedding=4, steps=4)
    plain = task.start(setting, range(2), CPU)
    plain._train(4)
    assert not copied
    run = task.start(setting, range(2), CPU)
    monkeypatch.setattr(run, "device", torch.device("cuda"))
    looks = freezing.freezer
    monkeypatch.setattr(supervised, "freezer", lambda *given: looks(*given[:3], CPU))
    run._train(4)
    assert len(copied) == 3  # words, their counts, and numbers
    assert torch.equal(run.replicas.flat, plain.replicas.flat)
