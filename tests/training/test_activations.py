"""The memory of a network's activations, as measured on small batches, and the plan's blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from nalu_ray import registry
from nalu_ray.seeding import Streams
from nalu_ray.sweep.block_size import fitting, size
from nalu_ray.sweep.presets import Point
from nalu_ray.tasks import _threshold
from nalu_ray.training import activations as module
from nalu_ray.training.activations import OVERHEAD, Activations, live_bytes, per_example
from nalu_ray.training.replicas import Replicas

KILO = torch.zeros(1000)  # of four bytes each


def peak(work: Callable[[], object]) -> int:
    return max(live_bytes(work))


def test_what_is_alive_at_a_time_counts() -> None:
    assert peak(lambda: [KILO + number for number in range(5)]) == 20_000
    assert peak(lambda: sum((KILO * 2).sum() for _ in range(5))) < 4_100  # one at a time
    assert peak(lambda: (KILO + 1).view(10, 100)[2:].T) == 4_000  # views take none
    assert peak(lambda: torch.ones(1000).add_(1)) == 4_000


def test_what_a_backward_pass_keeps_counts() -> None:
    weight = torch.ones(1000, requires_grad=True)

    def kept() -> Tensor:
        return weight.exp().exp().exp().sum()

    assert 3 * 4_000 <= peak(lambda: kept().backward()) < 5.1 * 4_000
    with torch.no_grad():
        assert peak(kept) < 2.1 * 4_000


def test_what_does_not_depend_on_examples_does_not_count() -> None:
    assert per_example(lambda n: [1_000_000 + 80 * n, 7], few=4, seeds=2) == 40
    assert per_example(lambda n: [10], few=4, seeds=2) == 0
    # the peak is that of the weights, and hides what grows elsewhere
    assert per_example(lambda n: [1_000_000, 100 * n, 3], few=4, seeds=2) == 50
    # steps of other operations: by their peaks
    assert per_example(lambda n: [16 * n] * n, few=4, seeds=2) == 8


def test_a_measurement_that_is_large_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    with pytest.raises(MemoryError):
        live_bytes(lambda: torch.zeros(5000) + 1)
    monkeypatch.setattr(module, "MOST_OPERATIONS", 3)
    with pytest.raises(MemoryError):
        live_bytes(lambda: [KILO.sum() for _ in range(5)])


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("static", {"layer": "kan", "hidden": 20}),
        ("static", {"layer": "nau_nmu", "hidden": 50}),
        ("recurrent", {"layer": "lstm", "hidden": 64}),
    ],
)
def test_small_batches_tell_the_memory_of_large_ones(task: str, values: dict[str, Any]) -> None:
    """Measured here in another way: the growth of the peak, with as many examples as in a run."""
    found, setting = _checked(task, batch=64, test_size=1, **values)
    replicas = Replicas(lambda: found.build(setting), (0, 1))
    streams = Streams(task, (0, 1), "train")

    def step(examples: int) -> None:
        small = setting.model_copy(update={"batch": examples})
        batch = found.sample(small, "train", streams)
        prediction = found.predict(replicas, small, "train", batch, streams)
        torch.autograd.grad(found.loss(small, prediction, batch.targets).sum(), replicas.flat)

    growth = (peak(partial(step, 256)) - peak(partial(step, 128))) / (128 * 2)
    measured = found.activations(setting, 2) / (2 * 64 * OVERHEAD)
    assert 0.8 * growth <= measured <= 1.6 * growth


def test_the_larger_of_a_step_and_a_set_counts_beside_the_sets() -> None:
    known = Activations(inputs=10, training=300, evaluation=100)
    assert known.of(2, batch=10, examples=20, sets=2) == 2 * (2 * 20 * 10 + OVERHEAD * 3000)
    assert known.of(1, batch=1, examples=20, sets=2) == known.of(2, batch=1, examples=20, sets=2)
    assert known.of(2, batch=1, examples=20, sets=2) == 2 * (2 * 20 * 10 + OVERHEAD * 2000)


def _checked(task: str, **values: Any) -> tuple[Any, Any]:
    found = registry.task(task)
    setting = found.setting_type.model_validate(values)
    found.check(setting)
    return found, setting


def test_a_large_unit_gets_smaller_blocks() -> None:
    """A KAN makes eleven numbers of each input, of which the task's formula knows nothing."""
    blocks = {}
    for layer in ("none", "kan"):
        task, setting = _checked("static", layer=layer, test_size=10_000)
        point = Point(setting=setting, seeds=tuple(range(100)))
        blocks[layer] = fitting(task, point, 100, share=4 * 2**30)
        assert size(task, setting, 100) >= task.memory(setting, 100)
    assert blocks == {"none": 100, "kan": 7}


@pytest.mark.parametrize(("task", "batch"), [("static", 128), ("recurrent", 64), ("program", 64)])
def test_it_grows_with_seeds_and_batch(task: str, batch: int) -> None:
    found, setting = _checked(task, layer="nru", batch=batch, test_size=1)
    found, double = _checked(task, layer="nru", batch=2 * batch, test_size=1)
    once = found.activations(setting, 10)
    assert once > 0
    assert found.activations(setting, 20) == pytest.approx(2 * once, rel=1e-3)
    assert found.activations(double, 10) == pytest.approx(2 * once, rel=0.05)


def test_longer_examples_are_measured_again() -> None:
    task, short = _checked("recurrent", layer="nru", length=5, test_size=1)
    _, long = _checked("recurrent", layer="nru", length=10, test_size=1)
    assert task.activations(long, 1) > 1.5 * task.activations(short, 1)


@pytest.mark.parametrize("task", ["mnist_counting", "parity", "language"])
def test_images_and_what_has_no_batch_are_left_to_the_formula(task: str) -> None:
    found, setting = _checked(task)
    assert found.activations(setting, 1) == 0
    assert size(found, setting, 1) > found.memory(setting, 1)


def test_the_threshold_takes_less_than_the_examples() -> None:
    """Seed by seed: in float64, those of all seeds were four times as large as the examples."""
    x, chosen = torch.rand(20, 500, 100), (torch.arange(10).expand(20, 10),) * 2
    for rule in _threshold.RULES.values():
        of_rule = partial(rule, "mul", x, chosen)
        assert peak(of_rule) < 1.5 * x.nbytes  # x itself, which it views, included
        together: Any = rule.__wrapped__  # type: ignore[attr-defined]
        assert torch.equal(rule("mul", x, chosen), together("mul", x, chosen))
