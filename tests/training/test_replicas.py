"""Stacked parameters: each replica is what it would be alone."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.func import functional_call

from nalu_ray import layers
from nalu_ray.training.optimisers import factor, optimiser, schedule
from nalu_ray.training.replicas import ROW_MULTIPLE, Replicas, clip_rows

SEEDS = [11, 22, 33]


def alone(build: object, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return build()  # type: ignore[operator,no-any-return]


@pytest.mark.parametrize("name", layers.names())
def test_a_replica_is_the_network_built_alone(name: str) -> None:
    build = lambda: layers.build(name, 5, 3, 2)  # noqa: E731
    replicas = Replicas(build, SEEDS)
    x = torch.randn(3, 7, 5)
    together = replicas(x)
    assert together.shape == (3, 7, 2)
    for k, seed in enumerate(SEEDS):
        module = alone(build, seed)
        torch.testing.assert_close(together[k], module(x[k]))
        state = replicas.replica(k)
        torch.testing.assert_close(functional_call(module, state, (x[k],)), module(x[k]))


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


@pytest.mark.parametrize("name", ["adam", "rmsprop", "sgd", "momentum"])
@pytest.mark.parametrize("plan", ["constant", "cosine", "linear"])
def test_one_optimiser_on_the_stack_equals_one_for_each_seed(name: str, plan: str) -> None:
    build = lambda: layers.build("tanh", 4, 3, 1)  # noqa: E731
    replicas = Replicas(build, SEEDS)
    momentum = 0.9 if name == "momentum" else 0.0
    own = "sgd" if name == "momentum" else name
    together = optimiser(own, replicas.flat, 0.05, momentum=momentum)  # type: ignore[arg-type]
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


def test_clipping_is_per_row() -> None:
    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    clip_rows(gradient, 1.0)
    torch.testing.assert_close(gradient, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))
