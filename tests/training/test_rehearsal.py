"""What stacked seeds cannot be trained with is refused before anything is run."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nalu_ray import registry
from nalu_ray.data import mnist
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.training import rehearsal
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.supervised import SupervisedTask

RANDOM = r"draws random numbers .* let the task's sample draw them as another input$"
DECIDES = r"branches on values of a tensor .*: use torch\.where$"


class Unit(nn.Module):
    """W x, and what a test does with it."""

    def __init__(self, change: Callable[[Unit, Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change
        self.linear = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.change(self, self.linear(x))


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 1, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.w.dtype) @ self.w).real


class Scaled(nn.Linear):
    """W x times what is drawn when a network is built, and is no buffer."""

    def __init__(self, draw: Callable[[], Any]) -> None:
        super().__init__(3, 1)
        self.scale = draw()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale[0] if isinstance(self.scale, list) else self.scale
        return super().forward(x) * scale


class Task(SupervisedTask[SupervisedSetting]):
    name, title, section, setting_type = "rehearsed", "", "0", SupervisedSetting

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        self.make, self.built = make, 0

    def build(self, setting: SupervisedSetting) -> nn.Module:
        self.built += 1
        return self.make()

    def sample(self, setting: SupervisedSetting, split: str, streams: Streams) -> Batch:
        x = torch.from_numpy(streams.uniform((8, 3)))
        return Batch((x,), x.sum(2, keepdim=True))


def noisy(_: Unit, y: Tensor) -> Tensor:
    return F.gumbel_softmax(torch.cat([y, -y], -1))[..., :1]


def jittered(unit: Unit, y: Tensor) -> Tensor:
    return y * random.random() if unit.training else y


def halved(unit: Unit, y: Tensor) -> Tensor:
    return F.dropout(y, 0.5, unit.training)


def choosing(_: Unit, y: Tensor) -> Tensor:
    return y if y.sum() > 0 else -y


def choosing_later(unit: Unit, y: Tensor) -> Tensor:
    return y if unit.training else choosing(unit, y)


def masked(_: Unit, y: Tensor) -> Tensor:
    return y[y > 0].sum() + y


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Unit(noisy), RANDOM),
        (lambda: Unit(halved), RANDOM),
        (lambda: Unit(jittered), RANDOM),
        (lambda: Scaled(lambda: torch.rand(())), r"scale differs from seed .*: use register_b"),
        (lambda: nn.Sequential(Scaled(lambda: [random.random()])), r": 0\.scale differs from"),
        (lambda: nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.1)), RANDOM),
        (lambda: Unit(choosing), DECIDES),
        (lambda: Unit(choosing_later), DECIDES),
        (lambda: Unit(masked), DECIDES),
        (Complex, r"parameter w is complex64; .* torch\.complex of them in forward$"),
        (lambda: Unit(lambda _, y: y.detach()), r"RuntimeError: .*does not require grad"),
        (lambda: nn.Linear(3, 1).requires_grad_(False), r"the network has no parameter to train$"),
        (lambda: nn.Linear(4, 1), r"RuntimeError: .*"),
    ],
)
def test_what_stacking_cannot_do_is_named_before_the_run(
    make: Callable[[], nn.Module], message: str
) -> None:
    with pytest.raises(TypeError, match=r"^rehearsed cannot be trained in blocks of seeds: ") as e:
        Task(make).check(SupervisedSetting())
    assert "\n" not in str(e.value)
    e.match(message)


def test_what_can_be_trained_passes_once_a_network() -> None:
    built = []
    task = Task(lambda: Unit(lambda _, y: y * 2))
    for lr in (0.1, 0.2, 0.3):
        task.make = Task(lambda: nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1))).make
        task.check(SupervisedSetting(lr=lr))
        built.append(task.built)
    assert built == [3, 4, 5]  # one to look at, and once two seeds
    task.make = lambda: nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1), nn.Dropout(0.5))
    for _ in range(2):
        with pytest.raises(TypeError, match=RANDOM):
            task.check(SupervisedSetting())
    assert task.built == 5 + 3 + 1


@pytest.mark.parametrize(
    "draw", [lambda: torch.ones(3).sum().item(), lambda: torch.ones(3).numpy().sum()]
)
def test_a_constructor_may_read_numbers(draw: Callable[[], Any]) -> None:
    task = Task(lambda: Scaled(draw))
    before = torch.get_rng_state()
    task.check(SupervisedSetting())
    assert task.trained(SupervisedSetting(), 1) > 0
    assert torch.equal(torch.get_rng_state(), before)


def test_options_that_no_name_shows_are_told_apart() -> None:
    class Hidden(nn.Linear):
        def __init__(self, p: float) -> None:
            super().__init__(3, 1)
            self.p = p

        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return F.dropout(y, self.p) if self.p else y

    Task(lambda: Hidden(0.0)).check(SupervisedSetting())
    with pytest.raises(TypeError, match=RANDOM):
        Task(lambda: Hidden(0.5)).check(SupervisedSetting())


def test_loss_must_be_one_number_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(lambda: nn.Linear(3, 2))

    def mean(setting: Any, prediction: Tensor, target: Tensor) -> Tensor:
        return prediction.mean()

    monkeypatch.setattr(task, "loss", mean)
    with pytest.raises(
        TypeError, match=r"loss must be one number per seed, \(2,\) for two seeds, got \(\)"
    ):
        task.check(SupervisedSetting())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (noisy, RANDOM),
        (halved, RANDOM),
        (jittered, RANDOM),
        (choosing, DECIDES),
        (choosing_later, DECIDES),
        (masked, DECIDES),
        (lambda _, y: y, None),
    ],
)
def test_a_giant_is_checked_as_well(
    change: Callable[[Unit, Tensor], Tensor], message: str | None
) -> None:
    """Its numbers, 32 TiB for two seeds, are never made."""

    class Giant(Unit):
        def __init__(self) -> None:
            super().__init__(change)
            self.large = nn.Linear(2_000_000, 2_000_000)

    task = Task(Giant)
    if message is None:
        return task.check(SupervisedSetting())
    with pytest.raises(TypeError, match=message):
        task.check(SupervisedSetting())


def test_the_width_of_dropout_is_no_matter() -> None:

    def network(width: int) -> nn.Module:
        bound = torch.ones(3).sum().item()  # a constructor may read numbers
        wide = nn.Linear(width, width).requires_grad_(bound > 0)
        return nn.Sequential(nn.Linear(3, width), nn.Dropout(0.5), wide, nn.Linear(width, 1))

    for width in (8, 2100):
        with pytest.raises(TypeError, match=RANDOM):
            Task(partial(network, width)).check(SupervisedSetting())


@pytest.mark.parametrize("name", registry.names())
def test_every_task_is_checked_at_any_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network of ours is refused where numbers are left out."""
    task = registry.task(name)
    if not isinstance(task, SupervisedTask):
        pytest.skip("not supervised")
    found = []
    monkeypatch.setattr(rehearsal, "_outcomes", {})
    monkeypatch.setattr(rehearsal, "MOST_NUMBERS", 1)
    without = rehearsal._fault_without_numbers
    monkeypatch.setattr(
        rehearsal, "_fault_without_numbers", lambda *given: found.append(without(*given))
    )
    task.check(task.setting_type())
    assert found == [None]


SUPERVISED = [n for n in registry.names() if isinstance(registry.task(n), SupervisedTask)]


@pytest.mark.parametrize("name", SUPERVISED)
def test_every_task_can_be_rehearsed_without_its_data(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> None:
        raise AssertionError("reads data")

    monkeypatch.setattr(mnist, "load", missing)
    monkeypatch.setattr(mnist, "part", missing)
    steps = []
    monkeypatch.setattr(rehearsal, "_outcomes", {})
    step = rehearsal._step
    monkeypatch.setattr(rehearsal, "_step", lambda *given: steps.append(step(*given)))
    task = registry.task(name)
    task.check(task.setting_type())
    assert len(steps) == 1


@pytest.mark.parametrize("shared", [False, True])
def test_shared_inputs_are_rehearsed_as_in_a_run(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = []
    monkeypatch.setattr(rehearsal, "_outcomes", {})

    class Watching(Task):
        def sample(self, setting: SupervisedSetting, split: str, streams: Streams) -> Batch:
            x = torch.from_numpy(streams.uniform((8, 3)))
            return Batch((x,), x.sum(2, keepdim=True), setting.shared_inputs)

        def loss(self, setting: SupervisedSetting, prediction: Tensor, target: Tensor) -> Tensor:
            shapes.append((tuple(prediction.shape), tuple(target.shape)))
            return super().loss(setting, prediction, target)

    Watching(lambda: nn.Linear(3, 1)).check(SupervisedSetting(shared_inputs=shared))
    assert {*shapes} == {((2, 8, 1), (1 if shared else 2, 8, 1))}
    rehearsal._outcomes.clear()
    with pytest.raises((TypeError, ValueError), match=r"answers with shape \(8, 2\)"):
        Watching(lambda: nn.Linear(3, 2)).check(SupervisedSetting(shared_inputs=shared))


def test_a_setting_too_large_to_try_speaks_for_no_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = Task(lambda: nn.Sequential(Unit(halved), nn.Identity()))  # not tried by other tests
    monkeypatch.setattr(rehearsal, "MOST_BYTES", -1)
    task.check(SupervisedSetting())
    monkeypatch.undo()
    with pytest.raises(TypeError, match=RANDOM):
        task.check(SupervisedSetting())
