"""The memory of a network's activations, as measured on small batches, and the plan's blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from nalu_ray import registry
from nalu_ray.sweep.block_size import fitting, size
from nalu_ray.sweep.presets import Point
from nalu_ray.tasks import _threshold
from nalu_ray.training.activations import OVERHEAD, Activations, peak, per_example

KILO = torch.zeros(1000)  # of four bytes each


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


def test_a_constant_part_does_not_count() -> None:
    assert per_example(lambda examples: 1_000_000 + 80 * examples, few=4, seeds=2) == 40
    assert per_example(lambda examples: 10, few=4, seeds=2) == 0


def test_the_larger_of_a_step_and_a_set_counts_beside_the_sets() -> None:
    known = Activations(inputs=10, training=300, evaluation=100)
    assert known.of(2, batch=10, examples=20, sets=2) == 2 * (2 * 20 * 10 + OVERHEAD * 3000)
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


@pytest.mark.parametrize("values", [{"pool": 20}, {"pool": None}])
def test_images_and_what_has_no_batch_are_left_to_the_formula(values: dict[str, Any]) -> None:
    task, setting = _checked("mnist_counting", layer="nac", **values)
    assert (task.activations(setting, 1) == 0) is (values["pool"] is not None)
    task, setting = _checked("language")
    assert task.activations(setting, 1) == 0
    assert size(task, setting, 1) > task.memory(setting, 1)


def test_the_threshold_takes_less_than_the_examples() -> None:
    """Seed by seed: in float64, those of all seeds were four times as large as the examples."""
    x, chosen = torch.rand(20, 500, 100), (torch.arange(10).expand(20, 10),) * 2
    for rule in _threshold.RULES.values():
        of_rule = partial(rule, "mul", x, chosen)
        assert peak(of_rule) < 1.5 * x.nbytes  # x itself, which it views, included
        each = [rule("mul", part, (chosen[0][:1],) * 2) for part in x.split(1)]
        assert torch.equal(rule("mul", x, chosen), torch.cat(each))
