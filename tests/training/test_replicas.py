"""Stacked parameters: each replica is what it would be alone."""

from __future__ import annotations

import io
import math
from functools import partial

import pandas as pd
import pytest
import torch
from torch import nn
from torch.func import functional_call

from nalu_ray import layers
from nalu_ray.training import step as step_module
from nalu_ray.training.learning_rate import factor, schedule
from nalu_ray.training.optimisers import optimiser
from nalu_ray.training.replicas import ROW_MULTIPLE, Replicas
from tests import distinct
from tests.runs import finish
from tests.training.toys import Adder, Sums, start, two

SEEDS = [11, 22, 33]


def alone(build: object, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return build()  # type: ignore[operator,no-any-return]


@pytest.mark.parametrize("name", layers.names())
def test_a_replica_is_the_network_built_alone(name: str) -> None:
    build = lambda: layers.build(name, 5, 3, 2)  # noqa: E731
    replicas = Replicas(build, SEEDS)
    x = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(0))
    # a divisor near 0 makes rounding show
    close: dict[str, float] = {"rtol": 1e-3, "atol": 1e-5}
    together = replicas(x)
    assert together.shape == (3, 7, 2)
    for k, seed in enumerate(SEEDS):
        module = alone(build, seed)
        torch.testing.assert_close(together[k], module(x[k]), **close)
        state = replicas.replica(k)
        torch.testing.assert_close(functional_call(module, state, (x[k],)), module(x[k]), **close)


def test_building_leaves_the_global_generator_where_it_was() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    Replicas(lambda: nn.Linear(2, 2), SEEDS)
    assert torch.equal(torch.rand(3), expected)


def test_shared_inputs_are_every_replicas_inputs() -> None:
    replicas = Replicas(lambda: layers.build("relu", 5, 3, 2), SEEDS)
    x = torch.randn(1, 7, 5)
    torch.testing.assert_close(replicas(x, shared=True), replicas(x.expand(3, -1, -1)))


@pytest.mark.parametrize("shared", [False, True])
def test_a_part_is_every_replicas_submodule(shared: bool) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False).eval())

    replicas, x = Replicas(build, [1, 2]), torch.randn(1 if shared else 2, 5, 3)
    found = replicas.part("0", x, shared=shared)
    for index, seed in enumerate([1, 2]):
        first = alone(build, seed)[0]  # type: ignore[index]
        torch.testing.assert_close(found[index], first(x[0 if shared else index]))
    torch.testing.assert_close(replicas.part("1", found), found, rtol=1e-4, atol=0)
    with pytest.raises(AttributeError):
        replicas.part("2", x)


def test_rows_are_whole_vectors_and_gradients_stay_in_their_row() -> None:
    replicas = Replicas(lambda: layers.build("nalu", 5, 3, 2), SEEDS)
    assert replicas.flat.shape[1] % ROW_MULTIPLE == 0
    (gradient,) = torch.autograd.grad(replicas(torch.randn(3, 7, 5))[1].sum(), replicas.flat)
    assert gradient[1].any()
    assert not gradient[0].any()
    assert not gradient[2].any()


def test_scalar_parameters_are_stacked() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.randn(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.factor * x

    replicas = Replicas(Scale, SEEDS)
    x = torch.ones(3, 4)
    assert torch.equal(replicas(x), replicas.parameters()["factor"][:, None] * x)


@pytest.mark.parametrize("name", ["adam", "rmsprop", "decay", "sgd", "momentum"])
@pytest.mark.parametrize("plan", ["constant", "cosine", "linear"])
def test_one_optimiser_on_the_stack_equals_one_for_each_seed(name: str, plan: str) -> None:
    build = lambda: layers.build("tanh", 4, 3, 1)  # noqa: E731
    replicas = Replicas(build, SEEDS)
    momentum = 0.9 if name == "momentum" else 0.0
    decay = 0.9 if name == "decay" else 0.99
    own = {"momentum": "sgd", "decay": "rmsprop"}.get(name, name)
    together = optimiser(own, replicas.flat, 0.05, momentum=momentum, decay=decay)  # type: ignore[arg-type]
    rates = schedule(plan, together, 10, 0.1, 3)  # type: ignore[arg-type]
    x = torch.randn(10, 3, 6, 4)
    for step in range(10):
        loss = replicas(x[step]).square().flatten(1).mean(1)
        (replicas.flat.grad,) = torch.autograd.grad(loss.sum(), replicas.flat)
        together.step()
        rates.step()
    for k, seed in enumerate(SEEDS):
        module = alone(build, seed)
        kind = {
            "adam": torch.optim.Adam,
            "rmsprop": torch.optim.RMSprop,
            "decay": partial(torch.optim.RMSprop, alpha=0.9),
            "sgd": torch.optim.SGD,
            "momentum": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
        }
        single = kind[name](module.parameters(), lr=0.05)
        single_rates = schedule(plan, single, 10, 0.1, 3)  # type: ignore[arg-type]
        for step in range(10):
            single.zero_grad()
            module(x[step, k]).square().mean().backward()
            single.step()
            single_rates.step()
        for parameter_name, value in module.state_dict().items():
            torch.testing.assert_close(replicas.replica(k)[parameter_name], value)


def test_schedules_rise_then_fall_to_the_share_of_the_full_rate() -> None:
    rates = {
        plan: [factor(step, plan, steps=12, end=0.1, warmup=2) for step in range(14)]  # type: ignore[arg-type]
        for plan in ("constant", "cosine", "linear")
    }
    for plan, shares in rates.items():
        assert shares[:3] == [0.5, 1.0, 1.0]
        assert shares[7] == pytest.approx(1.0 if plan == "constant" else 0.55)
        assert shares[12] == shares[13] == pytest.approx(1.0 if plan == "constant" else 0.1)
    assert rates["cosine"][4] == pytest.approx(0.1 + 0.9 * (1 + math.cos(0.2 * math.pi)) / 2)
    assert rates["linear"][4] == pytest.approx(0.1 + 0.9 * 0.8)


class Counting(nn.Module):
    """Counts its calls in a buffer, in place or not; scales by a constant; keeps a mean."""

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place
        self.inner = layers.build("relu", 5, 3, 2)
        self.scale = nn.Parameter(torch.rand(2), requires_grad=False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("fixed", torch.rand(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x) * self.scale + self.fixed
        if self.in_place:
            self.calls.add_(1)
            self.mean.mul_(0.9).add_(0.1 * y.mean(0).detach())
        else:
            self.calls = self.calls + 1
            self.mean = 0.9 * self.mean + 0.1 * y.mean(0)
        return y


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("seeds", [SEEDS, SEEDS[:1]])
def test_buffers_move_in_training_alone_as_they_would_in_each(
    seeds: list[int], in_place: bool
) -> None:
    replicas = Replicas(lambda: Counting(in_place=in_place), seeds)
    singles = [alone(partial(Counting, in_place=in_place), seed) for seed in seeds]
    x = torch.randn(4, len(seeds), 7, 5)
    for inputs in x[:3]:
        before = replicas.buffers
        kept = {name: value.clone() for name, value in before.items()}
        replicas(inputs)
        assert all(torch.equal(before[name], kept[name]) for name in kept)
        with torch.no_grad():
            for single, own in zip(singles, inputs, strict=True):
                single(own)
        with replicas.evaluating(), torch.no_grad():
            assert not replicas.module.inner.training
            replicas(x[3])
        assert replicas.module.training
        assert replicas.module.inner.training
    for k, single in enumerate(singles):
        state = replicas.replica(k)
        assert state.keys() == single.state_dict().keys()
        for name, value in single.state_dict().items():
            torch.testing.assert_close(state[name], value)
        assert state["calls"] == 3
    assert not any(value.requires_grad for value in replicas.buffers.values())


def test_evaluation_puts_back_what_was_in_evaluation_before() -> None:
    replicas = Replicas(lambda: nn.Sequential(nn.Linear(2, 2), nn.Dropout().eval()), SEEDS)
    with replicas.evaluating():
        assert not any(part.training for part in replicas.module.modules())
    assert [part.training for part in replicas.module.modules()] == [True, True, False]


def test_what_requires_no_gradient_is_no_row_of_the_parameters() -> None:
    replicas = Replicas(lambda: Counting(in_place=True), SEEDS)
    assert "scale" not in replicas.names
    assert replicas.buffers["scale"].shape == (3, 2)
    assert replicas.flat.shape == (3, 64)


def test_batch_norm_learns_its_mean_as_alone() -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))

    replicas, x = Replicas(build, SEEDS), torch.randn(3, 7, 5)
    replicas(x)
    with replicas.evaluating():
        found = replicas(x)
    for k, seed in enumerate(SEEDS):
        single = alone(build, seed)
        single(x[k])
        torch.testing.assert_close(found[k], single.eval()(x[k]))
        assert replicas.replica(k)["1.num_batches_tracked"] == 1


def test_a_part_moves_its_buffers() -> None:
    build = lambda: nn.Sequential(nn.Linear(5, 5), Counting(in_place=True))  # noqa: E731
    replicas = Replicas(build, SEEDS)
    replicas.part("1", torch.randn(3, 7, 5))
    assert replicas.buffers["1.calls"].tolist() == [1, 1, 1]


def test_tied_parameters_are_saved_under_both_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x))

    replicas, single, x = Replicas(Tied, SEEDS), Tied(), torch.randn(3, 4, 3)
    single.load_state_dict(replicas.replica(1))
    torch.testing.assert_close(single(x[1]), replicas(x)[1])


def test_another_networks_state_is_refused() -> None:
    replicas = Replicas(lambda: Counting(in_place=True), SEEDS)
    with pytest.raises(
        ValueError, match=r"^the state of another network: parameters \(3, 64\) and"
    ):
        replicas.load(replicas.flat.detach(), {})


class Typed(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.scale.real


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (torch.complex64, r"^parameter scale is complex64; .* torch\.complex of them in forward$"),
        (
            torch.float64,
            r"^parameters must be of one type, got scale float64, .*: create all of them in one ",
        ),
    ],
)
def test_parameters_are_real_and_of_one_type(dtype: torch.dtype, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Replicas(lambda: Typed(dtype), SEEDS)


class Wide(Adder):
    """W x, computed as float32 could not, with a count and a constant of other types."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("large", torch.full((), 1e9, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        y = nn.functional.linear(x.double(), self.W.double())
        # in float32 this is a multiple of 64
        return ((y + self.large) - self.large).to(x.dtype)


@pytest.mark.parametrize("early", [False, True])
def test_a_unit_of_other_types_trains_and_resumes(
    early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if early:
        monkeypatch.setattr(step_module, "PLAIN_STEPS", 3)
        monkeypatch.setattr(step_module, "WORTH_STEPS", 0)
    task = Sums(lambda: two(Wide, Adder))
    first, plain, whole = (
        start(each, [3, 5, 4], steps=40, lr=0.02, evaluations=8) for each in (task, Sums(two), task)
    )
    task.check(first.setting)
    rows = finish(whole)
    assert any(repeat for repeat in whole.forward._recorded.values()) == early
    finish(plain)
    # the same as without the detour, but for its rounding
    torch.testing.assert_close(whole.replicas.flat, plain.replicas.flat, rtol=0, atol=1e-4)
    assert whole.replicas.flat.dtype is torch.float32
    for _ in range(3):
        first.advance()
    assert 0 < first.step < 40
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second = start(task, [3, 5, 4], steps=40, lr=0.02, evaluations=8)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    pd.testing.assert_frame_equal(finish(second), rows, check_exact=True)
    for run in (whole, second):
        calls, large = run.replicas.buffers["0.calls"], run.replicas.buffers["0.large"]
        assert calls.tolist() == [40, 40, 40]
        assert (calls.dtype, large.dtype) == (torch.int64, torch.float64)
        assert (large == 1e9).all()


# -- a lone seed -------------------------------------------------------------------------------


def slope(replicas: Replicas, *inputs: torch.Tensor) -> torch.Tensor:
    result = replicas(*inputs)
    result = result if torch.is_tensor(result) else result[0]
    loss = result.square().flatten(1).mean(1)
    return torch.autograd.grad(loss.sum(), replicas.flat)[0]


def products_are_steady() -> bool:
    """Whether a product is the same to the last bit wherever in a stack it is."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.rand(3, rows, 5, generator=generator) for rows in (64, 3))
    y = torch.bmm(x, w.mT)
    twice = torch.bmm(x[1:2].repeat(2, 1, 1), w[1:2].repeat(2, 1, 1).mT)
    forward = torch.equal(y[1], twice[0])
    backward = torch.bmm(y.mT, x)[1], torch.bmm(twice.mT, x[1:2].repeat(2, 1, 1))[0]
    return forward and torch.equal(*backward)


# on some processors, products treat the unaligned rows of a stack differently
STEADY = products_are_steady()


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two results are equal, bit for bit where the processor's products are."""
    if STEADY:
        return torch.equal(one, other)
    return torch.allclose(one, other, rtol=1e-4, atol=1e-6 * float(other.detach().abs().max()))


# one output or one input: a product of one vector
@pytest.mark.parametrize("shape", [(1, 8, 1), (32, 1, 1), (5, 3, 2)])
@pytest.mark.parametrize("name", layers.names())
def test_a_lone_seed_is_the_seed_in_a_block_bit_for_bit(
    name: str, shape: tuple[int, int, int]
) -> None:
    build = lambda: layers.build(name, *shape)  # noqa: E731
    block, lone = Replicas(build, SEEDS), Replicas(build, SEEDS[1:2])
    # away from 0, where units that divide leave the range of float32
    x = torch.rand(3, 64, shape[0], generator=torch.Generator().manual_seed(0)) + 0.5
    assert same(block(x)[1], lone(x[1:2])[0])
    assert same(slope(block, x)[1], slope(lone, x[1:2])[0])


@pytest.mark.parametrize("hidden", [1, 4])
@pytest.mark.parametrize("name", distinct.cells())
def test_a_lone_cell_is_the_cell_in_a_block_bit_for_bit(name: str, hidden: int) -> None:
    options = {"slots": 4, "width": 3, "reads": 2} if name == "dnc" else {}
    build = lambda: layers.build_cell(name, 8, hidden, **options)  # noqa: E731
    block, lone = Replicas(build, SEEDS), Replicas(build, SEEDS[1:2])
    # away from 0, where cells that divide leave the range of float32
    x = torch.rand(3, 64, 3, 8, generator=torch.Generator().manual_seed(0)) + 0.5
    assert same(block(x)[0][1], lone(x[1:2])[0][0])
    assert same(slope(block, x)[1], slope(lone, x[1:2])[0])


def test_a_lone_convolution_is_the_one_in_a_block_to_rounding() -> None:
    build = lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))  # noqa: E731
    block, lone = Replicas(build, SEEDS), Replicas(build, SEEDS[1:2])
    x = torch.rand(3, 8, 1, 6, 6)
    torch.testing.assert_close(block(x)[1], lone(x[1:2])[0])
    torch.testing.assert_close(slope(block, x)[1], slope(lone, x[1:2])[0])
    # computed twice it would be the same to the bit, but slower: see Replicas
    lone._as_one, lone._twice = False, True
    assert same(slope(block, x)[1], slope(lone, x[1:2])[0])


def test_a_lone_seed_on_shared_inputs_is_the_seed_in_a_block_to_rounding() -> None:
    build = lambda: layers.build("nalu", 5, 3, 2)  # noqa: E731
    x = torch.rand(1, 64, 5)
    block, lone = Replicas(build, SEEDS), Replicas(build, SEEDS[1:2])
    torch.testing.assert_close(block(x, shared=True)[1], lone(x, shared=True)[0])


def test_a_lone_network_may_change_its_inputs_and_return_several_results() -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            y = self.inner(x.mul_(2))
            return y, {"sum": y.sum()}

    replicas, x = Replicas(Several, [1]), torch.rand(1, 4, 3)
    y, more = replicas(x.clone())
    assert (y.shape, more["sum"].shape) == ((1, 4, 2), (1,))
    torch.testing.assert_close(y[0], alone(Several, 1)(x[0])[0])
