"""The stochastic units: their noise, their values in training, and stacked seeds."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers import NAU, NMU, SNMU, build, build_cell
from nalu_ray.layers._noise import Noise, mixed
from nalu_ray.training.replicas import Replicas
from tests.layers.oracle import Array, assert_follows


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def noise(seed: int = 0) -> Noise:
    result = Noise()
    result.reset_parameters(torch.Generator().manual_seed(seed))
    return result


def same_parameters(unit: nn.Module, other: nn.Module) -> None:
    unit.load_state_dict(other.state_dict(), strict=False)


def lowbias32(x: int) -> int:
    """With 32-bit unsigned integers, as published."""
    with np.errstate(over="ignore"):
        value = np.uint32(x)
        value ^= value >> np.uint32(16)
        value *= np.uint32(0x7FEB352D)
        value ^= value >> np.uint32(15)
        value *= np.uint32(0x846CA68B)
        value ^= value >> np.uint32(16)
    return int(value)


def test_the_hash_is_the_published_one() -> None:
    values = [0, 1, 2, 12345, 2**31 - 1, 2**31, 2**32 - 1]
    assert mixed(torch.tensor(values)).tolist() == [lowbias32(value) for value in values]


def test_noise_is_uniform_and_independent() -> None:
    source = noise()
    calls = torch.stack([source(torch.empty(1000, 7)) for _ in range(6)]).double()
    assert calls.dtype == torch.float64
    assert 0 <= calls.min() < 1e-3
    assert 1 - 1e-3 < calls.max() < 1
    counts = torch.histc(calls, 20, 0, 1)
    expected = calls.numel() / 20
    # chi-squared of 19 degrees of freedom: above 43.8 once in 1000
    assert ((counts - expected) ** 2 / expected).sum() < 43.8
    # of calls, of columns, of neighbouring rows, of neighbouring elements, of other seeds
    other = torch.stack([noise(1)(torch.empty(1000, 7))]).double()
    pairs = [
        (calls[0], calls[1]),
        (calls[..., 0], calls[..., 1]),
        (calls[:, 1:], calls[:, :-1]),
        (calls.flatten()[1:], calls.flatten()[:-1]),
        (calls[0], other[0]),
    ]
    for first, second in pairs:
        correlation = torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]
        assert abs(correlation) < 4 / first.numel() ** 0.5


def test_noise_depends_on_seed_call_and_position_alone() -> None:
    source, twin = noise(), noise()
    first = source(torch.empty(3, 4))
    assert torch.equal(first, twin(torch.full((3, 4), 7.0, dtype=torch.float32)))
    assert (source.calls, twin.calls) == (1, 1)
    assert not torch.equal(source(torch.empty(3, 4)), first)
    assert torch.equal(twin(torch.empty(12)).double(), _second(noise()).flatten().double())
    # the same numbers in each type
    assert torch.equal(noise()(torch.empty(3, 4, dtype=torch.float64)), first.double())
    assert torch.equal(noise()(torch.empty(3, 4, dtype=torch.bfloat16)), first)
    source.reset_parameters(torch.Generator().manual_seed(0))
    assert torch.equal(source(torch.empty(3, 4)), first)


def _second(source: Noise) -> Tensor:
    source(torch.empty(3, 4))
    return source(torch.empty(3, 4))


def test_evaluation_is_the_nmu_and_leaves_the_counter() -> None:
    unit, plain = SNMU(4, 3, dtype=torch.float64), NMU(4, 3, dtype=torch.float64)
    same_parameters(unit, plain)
    x = 3 * drawn(8, 4) - 1
    assert torch.equal(unit.eval()(x), plain(x))
    assert unit.noise.calls == 0
    unit.train()(x)
    assert unit.noise.calls == 1


# Published code: the penalty `inputs` sees x n, as x is multiplied in place; here it sees x.
def ratio(x: Array, W: Array, n: Array) -> Array:
    """The published formula, NMU(x n) / NMU(n), one example at a time."""

    def nmu(z: Array) -> Array:
        return np.array([math.prod(row * z + 1 - row) for row in W])

    return np.array([nmu(xi * ni) / nmu(ni) for xi, ni in zip(x, n, strict=True)])


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({}, 1, 5),
        ({"noise_low": 0.01, "noise_high": 0.05}, 0.01, 0.05),
        ({"batch_noise": True}, 1, None),
    ],
)
def test_training_divides_the_noise_out(options: dict[str, Any], low: float, high: Any) -> None:
    unit = SNMU(4, 3, dtype=torch.float64, **options)
    x = 3 * drawn(8, 4) - 1
    uniform = noise()
    uniform.load_state_dict(unit.noise.state_dict())
    top = 1 + 1 / np.std(x.numpy(), ddof=1) if high is None else high
    n = low + (top - low) * uniform(x).numpy()
    assert low <= n.min() < n.max() <= top
    # differences are taken at the same noise
    assert_follows(unit, partial(ratio, n=n), x)


def test_where_weights_are_whole_the_noise_changes_nothing() -> None:
    unit = SNMU(3, 1, dtype=torch.float64)
    with torch.no_grad():
        unit.W.copy_(torch.tensor([[1.0, 0.0, 1.0]]))
    x = 6 * drawn(50, 3) - 3
    torch.testing.assert_close(unit(x)[:, 0], x[:, 0] * x[:, 2], rtol=1e-13, atol=0)


def test_many_inputs_do_not_overflow() -> None:
    """NMU(x n) of 100 factors of about 30 would be 1e140, beyond float32."""
    unit = SNMU(100, 2, start=1.0)
    x = torch.full((4, 100), 1.1)
    torch.testing.assert_close(unit(x), torch.full((4, 2), 1.1**100), rtol=1e-4, atol=0)


def test_a_stochastic_nau_is_a_nau_to_rounding() -> None:
    unit, plain = NAU(4, 3, stochastic=True, dtype=torch.float64), NAU(4, 3, dtype=torch.float64)
    same_parameters(unit, plain)
    x = 3 * drawn(8, 4) - 1
    found, expected = unit(x), plain(x)
    assert unit.noise is not None
    assert unit.noise.calls == 1
    assert not torch.equal(found, expected)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert_follows(unit, lambda x, W: x @ W.T, x)
    assert torch.equal(unit.eval()(x), expected)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_options_script_too() -> None:
    x = drawn(8, 5).float()
    for name, options in (("nau", {"stochastic": True}), ("snmu", {"batch_noise": True})):
        torch.manual_seed(0)
        network = build(name, 5, 3, 2, **options)
        scripted = torch.jit.script(network)
        torch.testing.assert_close(network(x), torch.jit.script(network.eval())(x), rtol=1, atol=1)
        assert scripted(x).isfinite().all()


def test_bad_noise_is_named() -> None:
    with pytest.raises(ValueError, match=r"^noise_low must be a finite number above 0, got 0$"):
        SNMU(2, 1, noise_low=0)
    with pytest.raises(ValueError, match=r"^noise_high must be at least noise_low=2, got 1$"):
        SNMU(2, 1, noise_low=2, noise_high=1)


@pytest.mark.parametrize("form", ["layer", "cell"])
def test_each_stacked_seed_trains_with_its_own_noise(form: str) -> None:
    """Replica k gets, call by call, the noise of seed k alone; evaluations change nothing."""

    def make() -> nn.Module:
        return build("snmu", 3, 2, 1) if form == "layer" else build_cell("snmu", 3, 2)

    def value(replicas: Replicas, x: Tensor) -> Tensor:
        result = replicas(x)
        return result if isinstance(result, Tensor) else result[0]

    seeds = [5, 6, 7]
    block, lone = Replicas(make, seeds), Replicas(make, seeds[1:2])
    x = 1 + drawn(1, 8, 4, 3).float()
    results = []
    for _ in range(2):
        with block.evaluating():
            plain = value(block, x.expand(3, -1, -1, -1))
        together, alone = value(block, x.expand(3, -1, -1, -1)), value(lone, x)
        assert torch.equal(together[1], alone[0])
        assert not torch.equal(together[1], plain[1])
        results.append(together)
    assert not torch.equal(*results)
    seeds_of_noise = block.buffers["0.noise.seed" if form == "layer" else "unit.noise.seed"]
    assert len(set(seeds_of_noise.tolist())) == 3


def test_a_saved_state_goes_on_with_the_same_noise() -> None:
    unit = SNMU(3, 2)
    x = 1 + drawn(8, 3).float()
    unit(x)
    twin = SNMU(3, 2)
    twin.load_state_dict(unit.state_dict())
    assert torch.equal(unit(x), twin(x))
