"""Steps beside the optimiser's own rule: bounds, projections, factors, phases, clipped values."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from nalu_ray.errors import explain
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.supervised import SupervisedRun
from tests.training.toys import Adder, Rounding, Sums, start, two

OPTIMISERS: dict[str, tuple[dict[str, Any], Callable[..., torch.optim.Optimizer]]] = {
    "adam": ({}, torch.optim.Adam),
    "rmsprop": ({}, torch.optim.RMSprop),
    "sgd": ({"momentum": 0.9}, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True)),
}
every_optimiser = pytest.mark.parametrize("name", OPTIMISERS)


class Free(Adder):
    bounds = {}  # noqa: RUF012


def free() -> nn.Module:
    return two(Free, Free)


def train_alone(
    run: SupervisedRun,
    step: Callable[[int, nn.Module], None],
    steps: int,
    clip: float | None = None,
) -> nn.Module:
    """A plain loop over seed 0's network on the batches of a run; ``step`` moves it."""
    module = run.task.make()  # type: ignore[attr-defined]
    module.load_state_dict(run.replicas.replica(0))
    other = SupervisedRun(Sums(free), run.setting, run.seeds, run.device)
    for number in range(steps):
        batch = other.task.sample(run.setting, "train", other.streams)
        module.zero_grad()
        (module(batch.inputs[0][0]) - batch.targets[0]).square().mean().backward()
        if clip is not None:
            nn.utils.clip_grad_value_(module.parameters(), clip)
        step(number, module)
    return module


def assert_same(run: SupervisedRun, module: nn.Module) -> None:
    for name, value in run.replicas.replica(0).items():
        torch.testing.assert_close(value, module.state_dict()[name], rtol=2e-5, atol=1e-6)


# -- bounds and projections ------------------------------------------------------------------------


def test_bounds_hold_after_every_step_and_only_where_they_are() -> None:
    run = start(Sums(lambda: two(Adder, Free)), optimiser="sgd", lr=2.0)
    plain = start(Sums(free), optimiser="sgd", lr=2.0)
    run._train(1)
    plain._train(1)
    assert plain.replicas.parameters()["0.W"].abs().max() > 1
    for name, value in plain.replicas.parameters().items():
        expected = value.clamp(-1, 1) if name == "0.W" else value
        assert torch.equal(run.replicas.parameters()[name], expected)
    assert not run.replicas.flat[:, sum(run.replicas.sizes[:-1]) :].any()  # the padding


def test_bounds_of_a_frozen_seed_are_not_applied() -> None:
    run = start(Sums(two, at=1), lr=0.1)
    run._train(1)
    with torch.no_grad():
        run.replicas.flat[:, 0] = 3.0
    run._train(3)
    assert run.diverged.tolist() == [-1, 1]
    assert run.replicas.flat[1, 0] == 3
    assert run.replicas.flat[0, 0] <= 1


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"V": (0, 1)}, r"bounds of 1 \(Bound\): 'V' is no parameter of its own; there is W"),
        ({"W": (1, 0)}, r"bounds of 1 \(Bound\): W 1:0 is an empty range"),
        ({"W": (1,)}, r"bounds of 1 \(Bound\): W must be a pair of numbers, got \(1,\)"),
        ({"W": (None, 1)}, r"bounds of 1 \(Bound\): W must be a pair of numbers, got \(None, 1"),
    ],
)
def test_bounds_that_cannot_be_are_named(bounds: Any, words: str) -> None:
    class Bound(Adder):
        pass

    Bound.bounds = bounds
    with pytest.raises(TypeError, match=words):
        Sums(lambda: two(Adder, Bound)).check(SupervisedSetting())


def test_constants_have_no_bounds() -> None:
    class Fixed(Adder):
        def __init__(self, in_features: int, out_features: int) -> None:
            super().__init__(in_features, out_features)
            self.W = nn.Parameter(torch.full_like(self.W, 3.0), requires_grad=False)

    run = start(Sums(lambda: two(Adder, Fixed)))
    run.task.check(run.setting)
    run._train(2)
    assert (run.replicas.buffers["1.W"] == 3).all()


def test_projections_are_written_back_after_every_step() -> None:
    run = start(Sums(lambda: two(Rounding, Adder)), lr=0.3)
    plain = start(Sums(), lr=0.3)
    for step in (1, 2, 3):
        plain.replicas.load(run.replicas.flat.detach(), {})
        run._train(step)
        plain._train(step)
        values = run.replicas.parameters()
        rounded = (8 * plain.replicas.parameters()["0.W"]).round() / 8
        assert torch.equal(values["0.W"], rounded)
        assert torch.equal(values["1.W"], plain.replicas.parameters()["1.W"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (lambda unit: {"V": unit.W}, "projected of 0 (Lost): 'V' is no trained parameter"),
        (
            lambda unit: {"W": unit.W[:1]},
            "projected of 0 (Lost): W must be of the parameter's shape [2, 3], got [1, 3]",
        ),
        (lambda unit: None, "projected of 0 (Lost): must be a dict of tensors, got NoneType"),
        (lambda unit: {"W": random.random() * unit.W}, "two calls of a unit's projected() differ"),
        (
            lambda unit: {"W": torch.rand_like(unit.W)},
            "seeds: its projected(), or the task's after_step(), draws random numbers; it must",
        ),
    ],
)
def test_a_projection_that_cannot_be_is_named(values: Any, words: str) -> None:
    class Lost(Adder):
        projected = values

    with pytest.raises(TypeError, match=re.escape(words)):
        Sums(lambda: two(Lost, Adder)).check(SupervisedSetting())


# -- factors, epsilon, values ----------------------------------------------------------------------


@every_optimiser
@pytest.mark.parametrize("factor", [0.1, 0.5, 1.7])
def test_a_factor_is_a_learning_rate_of_its_own(name: str, factor: float) -> None:
    fields, make = OPTIMISERS[name]
    run = start(Sums(free), optimiser=name, lr=0.02, lr_factor=f"0.*:{factor}", **fields)
    first = run.replicas.replica(0)
    optimisers: list[torch.optim.Optimizer] = []

    def step(number: int, module: nn.Module) -> None:
        if not optimisers:
            optimisers.append(make(module[0].parameters(), lr=0.02 * factor))  # type: ignore[index]
            optimisers.append(make(module[1].parameters(), lr=0.02))  # type: ignore[index]
        for optimiser in optimisers:
            optimiser.step()

    module = train_alone(run, step, 8)
    run._train(8)
    assert_same(run, module)
    assert not torch.equal(run.replicas.replica(0)["0.W"], first["0.W"])


@every_optimiser
def test_factors_of_0_and_1_are_exact_and_the_first_match_counts(name: str) -> None:
    fields, _ = OPTIMISERS[name]
    plain = start(Sums(free), optimiser=name, **fields)
    ones = start(Sums(free), optimiser=name, lr_factor="*:1", **fields)
    none = start(Sums(free), optimiser=name, lr_factor="0.W:0;*:1", **fields)
    before = none.replicas.replica(1)
    for run in (plain, ones, none):
        run._train(5)
    assert torch.equal(ones.replicas.flat, plain.replicas.flat)
    assert torch.equal(none.replicas.replica(1)["0.W"], before["0.W"])
    assert not torch.equal(none.replicas.replica(1)["1.W"], before["1.W"])


def test_values_and_adams_epsilon_are_torchs() -> None:
    run = start(Sums(free), clip_value=0.1, adam_eps=0.05)
    optimisers: list[torch.optim.Optimizer] = []

    def step(number: int, module: nn.Module) -> None:
        if not optimisers:
            optimisers.append(torch.optim.Adam(module.parameters(), lr=0.1, eps=0.05))
        optimisers[0].step()

    module = train_alone(run, step, 6, clip=0.1)
    run._train(6)
    assert_same(run, module)


def test_values_are_clipped_before_the_norm() -> None:
    run = start(Sums(free), clip_value=0.5, clip=1.0)
    gradient = torch.tensor([[3.0, 0.1, -9.0], [0.2, 0.0, 0.0], [5.0, 5.0, 5.0]])
    gradient = torch.cat([gradient, gradient], 1)
    run._clip(gradient)
    clipped = torch.tensor([[0.5, 0.1, -0.5], [0.2, 0.0, 0.0], [0.5, 0.5, 0.5]])
    clipped = torch.cat([clipped, clipped], 1)
    norms = clipped.norm(dim=1, keepdim=True).clamp_min(1)
    torch.testing.assert_close(gradient, clipped / norms)


# -- phases ----------------------------------------------------------------------------------------


@every_optimiser
def test_phases_are_separate_optimisers_that_take_turns(name: str) -> None:
    """Two steps of the second layer, then one of the first; each as torch's own would."""
    fields, make = OPTIMISERS[name]
    run = start(Sums(free), optimiser=name, lr=0.02, phases="2|1.*;1|0.*", **fields)
    optimisers: list[torch.optim.Optimizer] = []
    moved = []

    def step(number: int, module: nn.Module) -> None:
        if not optimisers:
            optimisers.extend(make(part.parameters(), lr=0.02) for part in module.children())
        moved.append(int(number % 3 < 2))
        optimisers[moved[-1]].step()

    module = train_alone(run, step, 10)
    for number in range(10):
        before = {name: value.clone() for name, value in run.replicas.parameters().items()}
        moments = [value.clone() for value in moments_of(run)]
        run._train(number + 1)
        still = f"{1 - moved[number]}.W"
        assert torch.equal(run.replicas.parameters()[still], before[still])
        columns = slice(0, 6) if still == "0.W" else slice(6, 8)
        for old, new in zip(moments, moments_of(run), strict=False):
            assert torch.equal(old[:, columns], new[:, columns])
    assert_same(run, module)


def moments_of(run: SupervisedRun) -> list[Tensor]:
    flat = run.replicas.flat
    return [
        v for v in run.optimiser.state[flat].values() if v is not None and v.shape == flat.shape
    ]


def test_a_parameter_of_several_phases_has_one_set_of_moments() -> None:
    run = start(Sums(free), lr=0.02, phases="1|*;2|0.*")
    every: list[torch.optim.Optimizer] = []

    def step(number: int, module: nn.Module) -> None:
        if not every:
            every.extend(torch.optim.Adam(part.parameters(), lr=0.02) for part in module.children())
        every[0].step()
        if number % 3 == 0:
            every[1].step()

    module = train_alone(run, step, 7)
    run._train(7)
    assert_same(run, module)


def test_what_no_phase_moves_stays() -> None:
    run = start(Sums(free), phases="1|0.W")
    before = run.replicas.replica(0)
    run._train(3)
    assert torch.equal(run.replicas.replica(0)["1.W"], before["1.W"])
    assert not torch.equal(run.replicas.replica(0)["0.W"], before["0.W"])


# -- what is written -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "given", "written"),
    [
        ("lr_factor", "*.G:0.10; *.W:1.0", "*.G:0.1;*.W:1"),
        ("lr_factor", ["*.G:0.1"], "*.G:0.1"),
        ("lr_factor", "none", None),
        ("phases", "8|*.W_hat, *.M_hat;2|*.g", "8|*.W_hat+*.M_hat;2|*.g"),
        ("phases", ["8|*.W_hat+*.M_hat", "2|*.g"], "8|*.W_hat+*.M_hat;2|*.g"),
        ("redraw", "10000:10000:1:2.0", "10000:10000:1:2"),
    ],
)
def test_equal_fields_are_equal_settings(field: str, given: Any, written: str | None) -> None:
    setting = SupervisedSetting(**{field: given})
    assert getattr(setting, field) == written
    assert setting.id == SupervisedSetting(**{field: written}).id


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        ("lr_factor", "0.1", "write pattern:factor;pattern:factor"),
        ("lr_factor", "*.G:x", "'x' is not a number"),
        ("lr_factor", "*.G:-1", "the factor must be at least 0"),
        ("phases", "8", "write steps|pattern+pattern;steps|pattern"),
        ("phases", "8|*.W+", "write steps|pattern+pattern;steps|pattern"),
        ("phases", "0|*.W", "the steps must be at least 1"),
        ("phases", "1.5|*.W", "'1.5' is not a whole number"),
        ("redraw", "10", "write every:losses:above:range"),
        ("redraw", "3:1:1:1", "every: Input should be a multiple of 2"),
        ("redraw", "2:1:1:0", "range: Input should be greater than 0"),
        ("adam_eps", 0, "Input should be greater than 0"),
        ("clip_value", 0, "Input should be greater than 0"),
        ("stop", 0, "Input should be greater than 0"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(field: str, given: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SupervisedSetting(**{field: given})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("field", "given", "line"),
    [
        ("redraw", "10", "redraw='10': write every:losses:above:range"),
        ("penalty", "l1@*:-1", "penalty='l1@*:-1': the coefficient must be at least 0"),
        ("phases", "1|W;0|G", "phases='1|W;0|G': '0|G': the steps must be at least 1"),
    ],
)
def test_a_value_is_said_once(field: str, given: str, line: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SupervisedSetting(**{field: given})
    assert explain(caught.value) == [line]


@pytest.mark.parametrize("field", ["lr_factor", "phases"])
def test_a_pattern_without_a_parameter_is_named(field: str) -> None:
    value = {"lr_factor": "0.W:2;*.G:2", "phases": "1|0.W;1|*.G"}[field]
    with pytest.raises(
        ValueError, match=rf"^{field}: '\*\.G' matches no parameter; there are 0\.W"
    ):
        Sums().check(SupervisedSetting(**{field: value}))
