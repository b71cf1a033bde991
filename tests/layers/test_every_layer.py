"""What every network of the registry must do; a new layer is tested by being registered."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from nalu_ray.layers import build, get, names, reset_parameters

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
every_layer = pytest.mark.parametrize("name", names())


def make(name: str, seed: int = 0, **options: object) -> nn.Module:
    network = build(name, 5, 3, 2, **options)
    reset_parameters(network, torch.Generator().manual_seed(seed))
    return network


def inputs(*shape: int, seed: int = 0) -> Tensor:
    return 1 + torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@every_layer
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_device_dtype_and_any_leading_shape(name: str, device: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)  # a NALU may have outputs so large that rounding shows
    network = build(name, 5, 3, 2, device=device, dtype=dtype)
    x = inputs(2, 4, 5).to(device, dtype)
    y = network(x)
    assert (y.shape, y.dtype, y.device.type) == ((2, 4, 2), dtype, device)
    close = {"rtol": 0.02, "atol": 0.02} if dtype is torch.bfloat16 else {}
    torch.testing.assert_close(network(x[0]), y[0], **close)
    torch.testing.assert_close(network(x[0, 0]), y[0, 0], **close)
    assert network(x[:, :0]).shape == (2, 0, 2)
    assert network(x[0, :0]).shape == (0, 2)


@every_layer
def test_meta_device_allocates_nothing(name: str) -> None:
    network = build(name, 5, 3, 2, device="meta")
    assert all(parameter.is_meta for parameter in network.parameters())
    assert network(torch.empty(4, 5, device="meta")).shape == (4, 2)


@every_layer
def test_every_parameter_learns(name: str) -> None:
    network = make(name, 5)
    network(inputs(64, 5) * torch.tensor([1.0, -1.0, 2.0, -2.0, 0.5])).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


@every_layer
def test_copies_and_saved_states_compute_the_same(name: str) -> None:
    network, other = make(name, 1), make(name, 2)
    x = inputs(4, 5)
    other.load_state_dict(network.state_dict())
    for twin in (other, copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(twin(x), network(x))
        assert repr(twin) == repr(network)


@every_layer
def test_generator_decides_everything(name: str) -> None:
    state = torch.get_rng_state()
    values = [make(name, seed).state_dict() for seed in (1, 1, 2)]
    torch.set_rng_state(state)
    network = make(name, 1)
    reset_parameters(network, torch.Generator().manual_seed(2))
    for key, value in values[0].items():
        assert torch.equal(value, values[1][key])
        assert torch.equal(network.state_dict()[key], values[2][key])
    assert any(not torch.equal(values[0][key], values[2][key]) for key in values[0])


@every_layer
@pytest.mark.parametrize("shared", [True, False])
def test_stacked_models_equal_single_ones(name: str, shared: bool) -> None:
    networks = [make(name, seed) for seed in range(3)]
    x = inputs(4, 5) if shared else inputs(3, 4, 5)
    stacked, _ = stack_module_state(networks)

    def call(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(networks[0], parameters, (x,))

    y = vmap(call, in_dims=(0, None if shared else 0))(stacked, x)
    gradients = torch.autograd.grad(y.square().sum(), list(stacked.values()))
    for replica, network in enumerate(networks):
        alone = network(x if shared else x[replica])
        torch.testing.assert_close(y[replica], alone)
        for stacked_gradient, gradient in zip(
            gradients,
            torch.autograd.grad(alone.square().sum(), list(network.parameters())),
            strict=True,
        ):
            torch.testing.assert_close(stacked_gradient[replica], gradient)


@every_layer
def test_compiles_to_one_graph(name: str) -> None:
    torch.compiler.reset()
    network = make(name)
    # aot_eager traces forward and backward; only the generation of kernels is left out.
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    x = inputs(4, 5)
    torch.testing.assert_close(compiled(x), network(x))
    wanted = list(network.parameters())
    ours = torch.autograd.grad(compiled(x).sum(), wanted)
    for gradient, expected in zip(ours, torch.autograd.grad(network(x).sum(), wanted), strict=True):
        torch.testing.assert_close(gradient, expected)


@every_layer
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_scripts(name: str) -> None:
    network = make(name)
    scripted = torch.jit.script(network)
    x = inputs(4, 5)
    torch.testing.assert_close(scripted(x), network(x))
    ours = torch.autograd.grad(scripted(x).sum(), list(scripted.parameters()))
    wanted = torch.autograd.grad(network(x).sum(), list(network.parameters()))
    for gradient, expected in zip(ours, wanted, strict=True):
        torch.testing.assert_close(gradient, expected)


@every_layer
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_is_close(name: str, device: str, dtype: torch.dtype) -> None:
    network, x = make(name).to(device), inputs(64, 5).to(device)
    with torch.autocast(device, dtype):
        found = network(x)
    y = network(x)
    # the median: an activation with a step may round to its other side
    assert (found - y).abs().median() <= 0.02 * y.abs().max()
    parameters = list(network.parameters())
    exact = torch.autograd.grad(y.sum(), parameters)
    for slope, wanted in zip(torch.autograd.grad(found.sum(), parameters), exact, strict=True):
        assert slope.isfinite().all()
        # an imaginary weight has none while inputs are positive
        assert slope.any() == wanted.any()


@every_layer
def test_exports_with_a_free_batch_size(name: str) -> None:
    network = make(name)
    shapes = ({0: torch.export.Dim("batch")},)
    exported = torch.export.export(network, (inputs(4, 5),), dynamic_shapes=shapes)
    x = inputs(9, 5)
    torch.testing.assert_close(exported.module()(x), network(x))


@every_layer
def test_label_is_for_print(name: str) -> None:
    assert get(name).label
    assert get(name).citation
