"""NAC and NALU against the paper's equations, hand-set solutions, and their guarantees."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from nalu_ray.layers import NAC, NALU, Stack, build_cell, max_exponent
from tests.layers.oracle import Array, Oracle, assert_follows, numbers

LARGE = 40.0  # its tanh and its sigmoid are 1 in float64, to the last bit


def normal_(module: nn.Module, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        nn.init.normal_(parameter, generator=generator)


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


# Published code: no bound on the exponent of a product.
def paper_nalu(x: Array, W_hat: Array, M_hat: Array, G: Array, epsilon: float = 1e-7) -> Array:
    """Section 2 of the paper in NumPy, one sample at a time."""
    w = np.tanh(W_hat) * sigmoid(M_hat)
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        gate = sigmoid(G @ row)
        multiplied = np.exp(w @ np.log(np.abs(row) + epsilon))
        rows.append(gate * (w @ row) + (1 - gate) * multiplied)
    return np.array(rows).reshape(*x.shape[:-1], len(w))


def paper_nac(x: Array, W_hat: Array, M_hat: Array) -> Array:
    """The same of its sums alone."""
    return np.asarray(x @ (np.tanh(W_hat) * sigmoid(M_hat)).T)


@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 5)])
def test_nac_is_the_papers_equation(shape: tuple[int, ...]) -> None:
    layer = NAC(5, 4, dtype=torch.float64)
    normal_(layer)
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    wanted = paper_nac(x.numpy(), **numbers(layer))
    np.testing.assert_allclose(layer(x).detach().numpy(), wanted, rtol=1e-13)


@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 5)])
@pytest.mark.parametrize("epsilon", [1e-7, 0.3])
def test_nalu_is_the_papers_equation(shape: tuple[int, ...], epsilon: float) -> None:
    layer = NALU(5, 4, epsilon=epsilon, dtype=torch.float64)
    normal_(layer)
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    wanted = paper_nalu(x.numpy(), **numbers(layer), epsilon=epsilon)
    np.testing.assert_allclose(layer(x).detach().numpy(), wanted, rtol=1e-12)


def test_float32_follows_float64() -> None:
    layer = NALU(100, 8)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    x = 1 + torch.rand(64, 100, generator=torch.Generator().manual_seed(2))
    wanted = paper_nalu(x.double().numpy(), **numbers(layer))
    np.testing.assert_allclose(layer(x).detach().numpy(), wanted, rtol=1e-4)


@pytest.mark.parametrize(("layer_class", "oracle"), [(NAC, paper_nac), (NALU, paper_nalu)])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 2, 3)])
def test_gradients(layer_class: type[NAC | NALU], oracle: Oracle, shape: tuple[int, ...]) -> None:
    layer = layer_class(3, 2, dtype=torch.float64)
    normal_(layer)
    # Away from x = 0, where log(|x| + epsilon) has a kink.
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_follows(layer, oracle, x + 0.2 * x.sign())


def set_weights(layer: NAC | NALU, rows: list[list[float]], gate: float = 0.0) -> None:
    """Make W these numbers and, in a NALU, every element of G ``gate``."""
    with torch.no_grad():
        w = torch.tensor(rows, dtype=torch.float64)
        layer.W_hat.copy_(torch.where(w.abs() == 1, LARGE * w, torch.atanh(w)))
        layer.M_hat.fill_(LARGE)
        if isinstance(layer, NALU):
            layer.G.fill_(gate)


A = [1.0 if 10 <= i < 35 else 0.0 for i in range(100)]
B = [1.0 if 25 <= i < 50 else 0.0 for i in range(100)]


def sections(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """100-vectors in [1, 2), as in appendix B, and the sums a and b of two sections."""
    generator = torch.Generator().manual_seed(seed)
    x = 1 + torch.rand(64, 100, generator=generator, dtype=torch.float64)
    return x, x[:, 10:35].sum(-1), x[:, 25:50].sum(-1)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_hand_set_nacs_add_and_subtract(sign: float) -> None:
    net = Stack(*(NAC(i, o, dtype=torch.float64) for i, o in [(100, 2), (2, 1)]))
    set_weights(net[0], [A, B])
    set_weights(net[1], [[1.0, sign]])
    x, a, b = sections()
    # 51 float64 additions of numbers up to 100: off by 1e-12 at most.
    torch.testing.assert_close(net(x)[:, 0], a + sign * b, rtol=0, atol=1e-12)


ADDITIVE, MULTIPLICATIVE = 1.0, -1.0
HAND_SET = {
    "add": (lambda a, b: a + b, [A, B], [1.0, 1.0], ADDITIVE),
    "sub": (lambda a, b: a - b, [A, B], [1.0, -1.0], ADDITIVE),
    "mul": (lambda a, b: a * b, [A, B], [1.0, 1.0], MULTIPLICATIVE),
    "div": (lambda a, b: a / b, [A, B], [1.0, -1.0], MULTIPLICATIVE),
    # An element of W is at most 1, so a square takes two hidden copies of a.
    "square": (lambda a, b: a * a, [A, A], [1.0, 1.0], MULTIPLICATIVE),
    "sqrt": (lambda a, b: a.sqrt(), [A, B], [0.5, 0.0], MULTIPLICATIVE),
}


@pytest.mark.parametrize("operation", HAND_SET)
def test_hand_set_nalus_solve_every_operation(operation: str) -> None:
    target, hidden, output, gate = HAND_SET[operation]
    net = Stack(*(NALU(i, o, dtype=torch.float64) for i, o in [(100, 2), (2, 1)]))
    set_weights(net[0], hidden, ADDITIVE)
    set_weights(net[1], [output], gate)
    x, a, b = sections()
    # The layers multiply a + epsilon and b + epsilon in place of a and b, which are at least 25.
    # The gates are off by sigmoid(-50) = 2e-22 and, with rounding, the rest is below 1e-12.
    epsilon = 0.0 if gate == ADDITIVE else net[1].epsilon
    torch.testing.assert_close(
        net(x)[:, 0], target(a + epsilon, b + epsilon), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(net(x)[:, 0], target(a, b), rtol=2 * 1e-7 / 25, atol=1e-12)


def test_additive_result_survives_beside_a_large_product() -> None:
    layer = NALU(2, 1)
    set_weights(layer, [[1.0, -1.0]], gate=1.0)
    with torch.no_grad():
        layer.W_hat.copy_(torch.tensor([[LARGE, -LARGE]]))
    # m = 3e6 / 1e-7 = 3e13 before the bound, and the gate is 1: y is a, not 0.
    assert layer(torch.tensor([[3e6, 0.0]])).item() == 3e6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equation_is_exact_up_to_the_bound_and_flat_above(dtype: torch.dtype) -> None:
    layer = NALU(1, 1, dtype=dtype)
    set_weights(layer, [[1.0]], gate=-1.0)
    bound = max_exponent(dtype)
    # 1e12 stands for any product that the bound must leave alone.
    for exponent, exact in [(bound - 0.01, True), (math.log(1e12), True), (bound + 1, False)]:
        layer.zero_grad()
        x = torch.tensor([math.exp(exponent)], dtype=dtype)
        y = layer(x)
        y.backward()
        expected = x if exact else torch.tensor([math.exp(bound)], dtype=dtype)
        torch.testing.assert_close(y, expected, rtol=1e-5, atol=0)
        # W_hat is saturated; the gradient to W itself goes through a halved W instead.
        halved = layer.W_hat.new_tensor([[math.atanh(0.5)]]).requires_grad_()
        m = torch.func.functional_call(layer, {"W_hat": halved}, (x * x,))
        assert (torch.autograd.grad(m.sum(), halved)[0].item() != 0) is exact


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_bound_is_a_third_of_what_the_type_can_hold(dtype: torch.dtype) -> None:
    assert max_exponent(dtype) == math.log(torch.finfo(dtype).max) / 3 - 1.5
    half = math.exp(max_exponent(torch.float16))
    assert 2e4 < half < torch.finfo(torch.float16).max


HALVES = pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])


def product(layer: nn.Module, x: Tensor, half: torch.dtype | None = None) -> tuple[float, Tensor]:
    """What a NALU that multiplies makes of two factors, under autocast or not, and its gradient."""
    x = x.clone().requires_grad_()
    with torch.autocast(x.device.type, half, enabled=half is not None):
        y = layer(x)
    return float(y.detach()), torch.autograd.grad(y.sum(), x)[0].float()


@HALVES
@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
@pytest.mark.parametrize("numbers", [(4.0, 4.0), (30.0, 300.0), (0.5, 0.25)])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_products_under_autocast_are_those_of_float32(
    half: torch.dtype, device: str, numbers: tuple[float, float]
) -> None:
    layer = NALU(2, 1).to(device)
    set_weights(layer, [[1.0, 1.0]], gate=-200.0)
    x = torch.tensor([numbers], device=device)
    value, slope = product(layer, x)
    found, found_slope = product(layer, x, half)
    assert found == pytest.approx(value, rel=1e-5)
    torch.testing.assert_close(found_slope, slope, rtol=1e-4, atol=0)
    # a script's gradient is TorchScript's own, which autocast confuses
    with torch.no_grad(), torch.autocast(device, half):
        assert float(torch.jit.script(layer)(x)) == pytest.approx(value, rel=1e-5)
    assert value == pytest.approx(numbers[0] * numbers[1], rel=1e-3)


@HALVES
def test_four_times_four_in_half_precision(half: torch.dtype) -> None:
    layer = NALU(2, 1, dtype=half)
    set_weights(layer, [[1.0, 1.0]], gate=-100.0)
    value, slope = product(layer, torch.tensor([[4.0, 4.0]], dtype=half))
    assert value == 16
    assert slope.tolist() == [[4, 4]]


@HALVES
def test_a_recurrent_and_a_configured_nalu_multiply_under_autocast(half: torch.dtype) -> None:
    cell = build_cell("nalu", 1, 1)
    set_weights(cell.unit, [[1.0, 1.0]], gate=-200.0)  # type: ignore[arg-type]
    x, start = torch.tensor([[[7.0], [9.0]]]), (torch.tensor([[3.0]]),)
    configured = build_cell("nalu_lstm", 2, 3, registers=1, gate="state")
    with torch.no_grad():
        configured.weight.zero_()  # type: ignore[operator]
        configured.bias.copy_(torch.tensor([[LARGE, LARGE, LARGE, LARGE, -LARGE]]))  # type: ignore[operator]
    last = tuple(part + 63 for part in configured.initial(1, x))
    with torch.autocast("cpu", half):
        assert float(cell(x, start)[0][0, -1].detach()) == pytest.approx(189, rel=1e-5)
        found, _ = configured(torch.tensor([[[1.0, 3.0]]]), last)
    assert float(found[0, -1, 0].detach()) == pytest.approx(189, rel=1e-5)


EXTREMES = st.sampled_from([0.0, 1e6, -1e6, 1e-6, -1e-6, 1.0, -1.0, 25.0])
INITS = st.sampled_from(["glorot", "kaiming", "normal", 0.0, 1.0, 20.0, -20.0])


@settings(max_examples=150)
@given(
    data=st.data(),
    in_features=st.sampled_from([1, 2, 10, 100, 1000]),
    hidden=st.sampled_from([1, 2, 16]),
    init=INITS,
    m_hat_init=INITS,
    gate_init=INITS | st.sampled_from([1e-8, -1e-12]),
)
def test_extreme_inputs_stay_finite(
    *,
    data: st.DataObject,
    in_features: int,
    hidden: int,
    init: str | float,
    m_hat_init: str | float,
    gate_init: str | float,
) -> None:
    inits = {"init": init, "m_hat_init": m_hat_init, "gate_init": gate_init}
    net = Stack(NALU(in_features, hidden, **inits), NALU(hidden, 1, **inits))
    net.reset_parameters(torch.Generator().manual_seed(data.draw(st.integers(0, 9))))
    row = data.draw(st.lists(EXTREMES, min_size=1, max_size=8))
    x = torch.tensor((row * in_features)[:in_features]).repeat(3, 1).requires_grad_()
    for module in (net[0], net):
        y = module(x)
        assert y.isfinite().all()
        wanted = [*module.parameters(), x]
        for loss in (y.sum(), (y - 1).square().mean()):
            assert loss.isfinite()
            for gradient in torch.autograd.grad(loss, wanted, retain_graph=True):
                assert gradient.isfinite().all()
    assert net[0](x).abs().max() <= 1.0001 * math.exp(max_exponent(torch.float32))


def test_nan_is_not_hidden() -> None:
    assert NALU(2, 1)(torch.tensor([[math.nan, 1.0]])).isnan().all()


def test_zero_input_has_zero_gradient() -> None:
    x = torch.zeros(1, 2, requires_grad=True)
    NALU(2, 1, init=-1.0, gate_init=0.0)(x).sum().backward()
    assert x.grad is not None
    # Only the additive path answers: half of W, for a gate of one half.
    weight = math.tanh(-1) * 1 / (1 + math.exp(1))
    torch.testing.assert_close(x.grad, torch.full((1, 2), weight / 2))
