"""MLPs and their parts against torch.nn and against formulas."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers import ACTIVATIONS, MLP, CReLU, Linear, linear


@pytest.mark.parametrize("shape", [(4,), (6, 4), (0, 4), (2, 3, 4)])
def test_linear_function_is_a_matrix_product(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    weight = torch.randn(3, 4, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(linear(x, weight), torch.einsum("...i,oi->...o", x, weight))


@pytest.mark.parametrize("bias", [True, False])
def test_linear_draws_and_computes_what_torch_does(bias: bool) -> None:
    torch.manual_seed(3)
    theirs = nn.Linear(5, 4, bias=bias)
    ours = Linear(5, 4, bias=bias)
    ours.reset_parameters(torch.Generator().manual_seed(3))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name
    x = torch.linspace(-2, 2, 15).reshape(3, 5)
    torch.testing.assert_close(ours(x), theirs(x))
    assert repr(ours) == repr(theirs)


FORMULAS: dict[str, Callable[[float], float]] = {
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "hardtanh": lambda x: max(-1.0, min(1.0, x)),
    "leaky_relu": lambda x: max(x, 0.01 * x),
    "none": lambda x: x,
    "prelu": lambda x: max(x, 0.25 * x),
    "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0),
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "softshrink": lambda x: math.copysign(max(abs(x) - 0.5, 0.0), x),
    "softsign": lambda x: x / (1 + abs(x)),
    "tanh": math.tanh,
    "tanhshrink": lambda x: x - math.tanh(x),
    "threshold": lambda x: x if x > 1 else 0.0,
}
POINTS = [-7.0, -1.0, -0.75, -0.25, 0.0, 0.25, 0.75, 1.5, 7.0]


def test_every_activation_has_a_formula_here() -> None:
    assert FORMULAS.keys() | {"crelu"} == ACTIVATIONS.keys()


@pytest.mark.parametrize("name", FORMULAS)
def test_activation_is_its_formula(name: str) -> None:
    activation = ACTIVATIONS[name].make().double()
    y = activation(torch.tensor(POINTS, dtype=torch.float64))
    expected = torch.tensor([FORMULAS[name](x) for x in POINTS], dtype=torch.float64)
    torch.testing.assert_close(y, expected)


def test_crelu_concatenates_both_signs() -> None:
    y = CReLU()(torch.tensor([[1.0, -2.0], [0.0, 3.0]]))
    assert y.tolist() == [[1.0, 0.0, 0.0, 2.0], [0.0, 3.0, 0.0, 0.0]]


@pytest.mark.parametrize("hidden_layers", [0, 1, 3])
def test_mlp_is_affine_activation_affine(hidden_layers: int) -> None:
    net = MLP(4, 8, 2, activation="tanh", hidden_layers=hidden_layers)
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    values = list(net.parameters())
    assert len(values) == 2 * (hidden_layers + 1)
    expected: Tensor = x
    for depth, (weight, bias) in enumerate(zip(values[::2], values[1::2], strict=True)):
        expected = expected @ weight.T + bias
        if depth < hidden_layers:
            expected = expected.tanh()
    torch.testing.assert_close(net(x), expected)


def test_crelu_doubles_the_next_layers_input_only() -> None:
    shapes = [
        tuple(p.shape) for p in MLP(4, 3, 2, activation="crelu", hidden_layers=2).parameters()
    ]
    assert shapes == [(3, 4), (3,), (3, 6), (3,), (2, 6), (2,)]


def test_mlp_without_bias_maps_zero_to_zero() -> None:
    net = MLP(4, 3, 2, activation="relu", bias=False)
    assert len(list(net.parameters())) == 2
    assert (net(torch.zeros(1, 4)) == 0).all()


def test_reset_restores_a_learned_slope() -> None:
    net = MLP(1, 2, 1, activation="prelu")
    with torch.no_grad():
        net[1].weight.fill_(9.0)
    net.reset_parameters(torch.Generator().manual_seed(0))
    assert net[1].weight.item() == 0.25


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((0, 1, 1), {}, "in_features must be an integer of at least 1, got 0"),
        ((1, 0, 1), {}, "hidden_features must be an integer of at least 1, got 0"),
        ((1, 1, 0), {}, "out_features must be an integer of at least 1, got 0"),
        ((1, 1, 1), {"hidden_layers": -1}, "hidden_layers must be an integer of at least 0"),
        (
            (1, 1, 1),
            {"activation": "rel", "hidden_layers": 0},
            "activation must be one of crelu, .*, got 'rel'",
        ),
    ],
)
def test_wrong_arguments(
    sizes: tuple[int, int, int], options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        MLP(*sizes, **{"activation": "relu", **options})
