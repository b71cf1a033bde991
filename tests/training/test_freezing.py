"""Seeds frozen on their device are those that the host would freeze, at the same step."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nalu_ray.training import freezing, gradients, supervised
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.freezing import DeviceFreezer, Freezer
from tests.runs import finish
from tests.training.test_supervised import Counts, Fragile
from tests.training.toys import CPU, Sums


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """Freezes as on a GPU, though all is on the CPU."""
    lagging = partial(DeviceFreezer, device=CPU, every=every)
    monkeypatch.setattr(supervised, "freezer", lambda a, b, most, _: lagging(a, b, most))


def trained(task: Any, seeds: range, **fields: Any) -> tuple[Any, ...]:
    setting = SupervisedSetting(steps=12, lr=0.1, **fields)
    run = task.start(setting, seeds, CPU)
    rows = finish(run)
    return run.replicas.flat.detach(), run.replicas.buffers, run.diverged, rows


@pytest.mark.parametrize("every", [1, 4, 5, 50])
@pytest.mark.parametrize("evaluations", [1, 3, 12])
@pytest.mark.parametrize(
    ("task", "seeds"), [(Fragile, range(3)), (Counts, range(2)), (Fragile, range(1, 2))]
)
def test_a_seed_freezes_at_the_same_step(
    task: Any, seeds: range, evaluations: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat, buffers, diverged, rows = trained(task(), seeds, evaluations=evaluations)
    assert diverged[seeds.index(1)] == 5
    as_on_a_gpu(monkeypatch, every)
    lagging = trained(task(), seeds, evaluations=evaluations)
    assert torch.equal(lagging[0], flat)
    assert all(torch.equal(lagging[1][name], value) for name, value in buffers.items())
    assert torch.equal(lagging[2], diverged)
    assert lagging[3].equals(rows)


def test_the_first_step_that_is_lost_counts() -> None:
    diverged, done = torch.tensor([-1, -1, -1]), torch.tensor([-1, -1, 2])
    seeds = DeviceFreezer(diverged, done, 1e19, CPU, every=3)
    loss, gradient = torch.zeros(3), torch.zeros(3, 2)
    seeds.look(7, loss, gradient)
    wrong = torch.tensor([0.0, math.inf, math.nan])
    frozen = seeds.look(8, wrong, gradient)
    assert frozen is not None
    assert frozen.tolist() == [False, True, True]
    assert diverged.tolist() == [-1, -1, -1]  # not read yet
    seeds.look(9, torch.full((3,), math.nan), gradient)
    assert diverged.tolist() == [9, 8, -1]
    assert seeds.all_frozen


def test_the_host_reads_nothing_between_its_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reads(TorchDispatchMode):
        """Counts what makes the host wait for a GPU: a number of a tensor as Python's."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.calls: Counter[str] = Counter()

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.calls[str(func)] += 1
            return func(*args, **(kwargs or {}))

    def reads() -> int:
        run = Sums().start(SupervisedSetting(steps=40, evaluations=1), range(2), CPU)
        run._train(1)
        seen = Reads()
        with seen:
            run._train(21)
        return int(seen.calls["aten._local_scalar_dense.default"])

    at_once = reads()
    as_on_a_gpu(monkeypatch, 10)
    assert at_once >= 20
    assert reads() <= 2 + 2 * 3  # once before, twice on the way, once at the end


def test_which_device_freezes_how() -> None:
    steps = torch.tensor([-1]), torch.tensor([-1])
    assert type(freezing.freezer(*steps, 1.0, CPU)) is Freezer
    on_meta = freezing.freezer(*steps, 1.0, torch.device("meta"))
    assert isinstance(on_meta, DeviceFreezer)
    assert on_meta.alive.device.type == "meta"


class OnGpu(Tensor):
    """A tensor of the CPU that says that it is on a GPU."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda")


@pytest.mark.parametrize("large", [False, True])
def test_clipping_without_a_look_gives_the_same(large: bool) -> None:
    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4], [2e20, -1e20 if large else 0.0]])
    expected = gradient.clone()
    gradients.clip_rows(expected, 1.0)
    mine = gradient.clone().as_subclass(OnGpu)
    gradients.clip_rows(mine, 1.0)
    assert torch.equal(mine.as_subclass(Tensor), expected)


def test_batches_go_to_a_gpu_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def pin(tensor: Tensor) -> Tensor:
        calls.append("pinned")
        return tensor

    def to(tensor: Tensor, device: torch.device, **how: bool) -> Tensor:
        calls.append((str(device), how))
        return tensor

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", to)
    supervised._sent(torch.zeros(2), torch.device("cuda"))
    assert calls == ["pinned", ("cuda", {"non_blocking": True})]
    calls.clear()
    supervised._sent(torch.zeros(2), torch.device("meta"))
    assert calls == [("meta", {"non_blocking": True})]
