"""Checks of a unit or network by itself: each takes a :data:`Build` and raises AssertionError.

A network of :data:`INPUTS` inputs and :data:`OUTPUTS` outputs is built for each check. Except where
training is meant, it is compared in evaluation mode, in which no unit may change.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from nalu_ray import layers
from nalu_ray.training.members import units_with

INPUTS, OUTPUTS = 5, 2
_HIDDEN = 3
_SEEDS = 3
# a quotient of sums may be so large, or its divisor so near 0, that rounding shows
_RTOL, _ATOL = 2e-5, 1e-5

Build = Callable[..., nn.Module]
"""Makes a network of INPUTS inputs and OUTPUTS outputs; takes ``device`` and ``dtype``."""


def of_unit(unit: Callable[..., nn.Module], **options: Any) -> Build:
    """Returns what builds a module class with the arguments ``(in_features, out_features)``."""
    return lambda **more: unit(INPUTS, OUTPUTS, **options, **more)


def of_layer(name: str, **options: Any) -> Build:
    """Returns what builds a registered layer as a network with one hidden layer."""
    layers.get(name)
    return lambda **more: layers.build(name, INPUTS, _HIDDEN, OUTPUTS, **options, **more)


def require(condition: bool, message: str) -> None:
    """Raises AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def made(build: Build, seed: int = 0, **options: Any) -> nn.Module:
    """Builds a network whose parameters come from a generator of that seed."""
    network = build(**options)
    layers.reset_parameters(network, torch.Generator().manual_seed(seed))
    return network


def inputs(*shape: int, seed: int = 0) -> Tensor:
    """Returns numbers in [1, 2)."""
    return 1 + torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def check_shapes(build: Build) -> None:
    """Checks any leading shape, also an empty one, with each dtype and on each device."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            torch.manual_seed(0)
            network = build(device=device, dtype=dtype).eval()
            x = inputs(2, 4, INPUTS).to(device, dtype)
            y = network(x)
            seen, wanted = (y.shape, y.dtype, y.device.type), ((2, 4, OUTPUTS), dtype, device)
            require(seen == wanted, f"output {seen}, not {wanted}")
            rtol, atol = (0.02, 0.02) if dtype is torch.bfloat16 else (_RTOL, _ATOL)
            torch.testing.assert_close(network(x[0]), y[0], rtol=rtol, atol=atol)
            torch.testing.assert_close(network(x[0, 0]), y[0, 0], rtol=rtol, atol=atol)
            for empty in (x[:, :0], x[0, :0]):
                shape = network(empty).shape
                require(shape == (*empty.shape[:-1], OUTPUTS), f"{empty.shape} gives {shape}")


def check_meta(build: Build) -> None:
    """Checks that a network on the meta device takes no memory."""
    network = build(device="meta")
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        require(tensor.is_meta, f"{name} is on {tensor.device}: pass device to every tensor")
    shape = network(torch.empty(4, INPUTS, device="meta")).shape
    require(shape == (4, OUTPUTS), f"output {tuple(shape)}")


def check_learns(build: Build) -> None:
    """Checks that every trained parameter gets a gradient from inputs of mixed sign."""
    network = made(build, INPUTS)
    signs = torch.tensor([1.0, -1.0, 2.0, -2.0, 0.5])
    network(inputs(64, INPUTS) * signs).sum().backward()
    for name, parameter in _trained(network).items():
        gradient = parameter.grad
        require(gradient is not None and bool((gradient != 0).any()), f"{name}: no gradient")


def check_copies(build: Build) -> None:
    """Checks that a copy, a pickle and a loaded state compute the same."""
    network, other = made(build, 1).eval(), made(build, 2).eval()
    x = inputs(4, INPUTS)
    other.load_state_dict(network.state_dict())
    for twin in (other, copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        require(torch.equal(twin(x), network(x)), "a copy gives other numbers")
        require(repr(twin) == repr(network), "a copy prints otherwise")


def check_generator(build: Build) -> None:
    """Checks that ``reset_parameters`` draws all that is random from its generator."""
    state = torch.get_rng_state()
    first, again, third = (made(build, seed).state_dict() for seed in (1, 1, 2))
    torch.set_rng_state(state)
    network = made(build, 1)
    layers.reset_parameters(network, torch.Generator().manual_seed(2))
    reset = network.state_dict()
    for name, value in first.items():
        require(torch.equal(value, again[name]), f"{name}: one seed gives two values")
        require(torch.equal(reset[name], third[name]), f"{name}: keeps what it was before")
    differ = any(not torch.equal(first[name], third[name]) for name in first)
    require(differ, "two seeds give the same parameters")


def check_stacked(build: Build) -> None:
    """Checks that networks stacked by vmap give the numbers and gradients of single ones."""
    networks = [made(build, seed) for seed in range(_SEEDS)]
    parameters, buffers = stack_module_state(networks)
    names = list(_trained(networks[0]))

    def call(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
        result: Tensor = functional_call(networks[0], (dict(parameters), dict(buffers)), (x,))
        return result

    for mode in (False, True):
        for network in networks:
            network.train(mode)
        for shared in (True, False):
            x = inputs(4, INPUTS) if shared else inputs(_SEEDS, 4, INPUTS)
            y = vmap(call, in_dims=(0, 0, None if shared else 0))(parameters, buffers, x)
            slopes = torch.autograd.grad(y.square().sum(), [parameters[name] for name in names])
            for seed, network in enumerate(networks):
                single = copy.deepcopy(network)  # a training call may change its buffers
                alone = single(x if shared else x[seed])
                torch.testing.assert_close(y[seed], alone, rtol=_RTOL, atol=_ATOL)
                wanted = torch.autograd.grad(alone.square().sum(), list(_trained(single).values()))
                for slope, expected in zip(slopes, wanted, strict=True):
                    torch.testing.assert_close(slope[seed], expected, rtol=_RTOL, atol=_ATOL)


def check_compiles(build: Build) -> None:
    """Checks that torch.compile makes one graph of it."""
    torch.compiler.reset()
    network = made(build).eval()
    # aot_eager traces forward and backward; only the generation of kernels is left out
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    _compare(network, compiled, inputs(4, INPUTS))


def check_scripts(build: Build) -> None:
    """Checks that torch.jit.script takes it."""
    network = made(build).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        scripted = torch.jit.script(network)
    _compare(network, scripted, inputs(4, INPUTS))


def check_autocast(build: Build) -> None:
    """Checks that half precision gives about the same, with finite gradients."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        for dtype in (torch.float16, torch.bfloat16):
            network, x = made(build).eval().to(device), inputs(64, INPUTS).to(device)
            with torch.autocast(device, dtype):
                rounded = network(x)
            y = network(x)
            # the median: an activation with a step may round to its other side
            miss = float((rounded - y).detach().abs().median())
            require(miss <= 0.02 * float(y.detach().abs().max()), f"{dtype}: off by {miss:.2g}")
            trained = _trained(network)
            pairs = (torch.autograd.grad(z.sum(), list(trained.values())) for z in (rounded, y))
            for name, slope, exact in zip(trained, *pairs, strict=True):
                require(bool(slope.isfinite().all()), f"{dtype}: gradient of {name} not finite")
                # inputs are positive here, and give an imaginary weight none in full precision
                lost = bool(exact.any()) and not bool(slope.any())
                require(not lost, f"{dtype}: no gradient of {name}")


def check_exports(build: Build) -> None:
    """Checks that torch.export takes it with a batch of any size."""
    network = made(build).eval()
    shapes = ({0: torch.export.Dim("batch")},)
    exported = torch.export.export(network, (inputs(4, INPUTS),), dynamic_shapes=shapes)
    x = inputs(9, INPUTS)
    torch.testing.assert_close(exported.module()(x), network(x))


def check_bounds(build: Build) -> None:
    """Checks that ``bounds`` names parameters of its module, which start within them."""
    for seed in range(_SEEDS):
        for where, module in made(build, seed).named_modules():
            bounds = getattr(module, "bounds", {})
            own = dict(module.named_parameters(recurse=False))
            for name, (low, high) in bounds.items():
                place = f"{where}.bounds[{name!r}]".lstrip(".")
                require(name in own, f"{place}: no such parameter of the module: {', '.join(own)}")
                require(low < high, f"{place}: ({low}, {high}) is empty")
                values = own[name].detach()
                least, most = float(values.min()), float(values.max())
                inside = low <= least and most <= high
                require(inside, f"{place}: starts in [{least:g}, {most:g}], not [{low}, {high}]")


def check_penalty(build: Build) -> None:
    """Checks that ``penalty`` gives named scalars, changes nothing and has finite gradients."""
    network = made(build)
    for where, module, penalty in _members(network, "penalty"):
        before = copy.deepcopy(module.state_dict())
        state = torch.get_rng_state()
        values, again = penalty(), penalty()
        require(torch.equal(state, torch.get_rng_state()), f"{where}: draws random numbers")
        for name, tensor in module.state_dict().items():
            require(torch.equal(tensor, before[name]), f"{where}: changes {name}")
        trained = _trained(module)
        _require_scalars(where, values)
        for name, value in values.items():
            require(torch.equal(value, again[name]), f"{where}[{name!r}]: two calls, two values")
            require(value.requires_grad, f"{where}[{name!r}]: no gradient")
            slopes = torch.autograd.grad(value, [*trained.values()], allow_unused=True)
            finite = all(bool(slope.isfinite().all()) for slope in slopes if slope is not None)
            require(finite, f"{where}[{name!r}]: gradient not finite")
    _check_stacked_members(build, "penalty")


def check_projected(build: Build) -> None:
    """Checks that ``projected`` gives new values of parameters of its module."""
    for where, module, projected in _members(made(build), "projected"):
        own = dict(module.named_parameters(recurse=False))
        for name, value in projected().items():
            require(name in own, f"{where}[{name!r}]: no such parameter: {', '.join(own)}")
            shapes = tuple(value.shape), tuple(own[name].shape)
            require(
                shapes[0] == shapes[1], f"{where}[{name!r}]: shape {shapes[0]}, not {shapes[1]}"
            )


def check_measure(build: Build) -> None:
    """Checks that ``measure`` gives named scalars of the parameters."""
    for where, _, measure in _members(made(build), "measure"):
        with torch.no_grad():
            _require_scalars(where, measure())
    _check_stacked_members(build, "measure")


CHECKS: dict[str, Callable[[Build], None]] = {
    "shapes": check_shapes,
    "meta": check_meta,
    "learns": check_learns,
    "copies": check_copies,
    "generator": check_generator,
    "stacked": check_stacked,
    "compiles": check_compiles,
    "scripts": check_scripts,
    "autocast": check_autocast,
    "exports": check_exports,
    "bounds": check_bounds,
    "penalty": check_penalty,
    "projected": check_projected,
    "measure": check_measure,
}


def _trained(module: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in module.named_parameters() if value.requires_grad}


def _compare(network: nn.Module, other: Any, x: Tensor) -> None:
    """Compares the outputs of two forms of a network, and their gradients."""
    torch.testing.assert_close(other(x), network(x))
    wanted = torch.autograd.grad(network(x).sum(), list(_trained(network).values()))
    of_other = [value for value in other.parameters() if value.requires_grad]
    for slope, expected in zip(torch.autograd.grad(other(x).sum(), of_other), wanted, strict=True):
        torch.testing.assert_close(slope, expected, rtol=_RTOL, atol=_ATOL)


def _members(
    network: nn.Module, name: str
) -> Iterator[tuple[str, nn.Module, Callable[[], dict[str, Tensor]]]]:
    """Yields each module that has a method, its printed name, and the method without arguments."""
    for where, module in units_with(network, name).items():
        calling = functools.partial(_Calling(module, name), *_arguments(module, name))
        yield f"{where}.{name}".lstrip("."), module, calling


def _arguments(module: nn.Module, name: str) -> tuple[Tensor, ...]:
    """Returns what a method takes: nothing, or the inputs of its module."""
    if not inspect.signature(getattr(module, name)).parameters:
        return ()
    width = getattr(module, "in_features", None)
    if not isinstance(width, int):
        raise AssertionError(f"{type(module).__name__}.{name}(inputs): needs in_features")
    return (inputs(16, width),)


def _require_scalars(where: str, values: Mapping[str, Tensor]) -> None:
    require(isinstance(values, dict) and bool(values), f"{where}: a dict of tensors is needed")
    for name, value in values.items():
        scalar = isinstance(value, Tensor) and not value.shape and bool(value.isfinite())
        require(scalar, f"{where}[{name!r}]: one finite number is needed, got {value!r}")


def _check_stacked_members(build: Build, name: str) -> None:
    """Checks that a method of stacked modules gives what it gives each module alone."""
    networks = [made(build, seed) for seed in range(_SEEDS)]
    parts = [units_with(network, name) for network in networks]
    for where in parts[0]:
        calls: list[nn.Module] = [_Calling(part[where], name) for part in parts]
        arguments = _arguments(parts[0][where], name)
        state = stack_module_state(calls)

        def call(parameters: Any, buffers: Any, first: nn.Module, given: Any) -> Any:
            return functional_call(first, (parameters, buffers), given)

        stacked = vmap(functools.partial(call, first=calls[0], given=arguments))(*state)
        for seed, single in enumerate(calls):
            for key, value in single(*arguments).items():
                printed = f"{where}.{name}[{key!r}]".lstrip(".")
                require(stacked[key].shape == (_SEEDS,), f"{printed}: not one number per seed")
                torch.testing.assert_close(stacked[key][seed], value)


class _Calling(nn.Module):
    """Calls a method of a module as its forward, so that it can be stacked."""

    def __init__(self, module: nn.Module, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name

    def forward(self, *arguments: Tensor) -> dict[str, Tensor]:
        values: dict[str, Tensor] = getattr(self.module, self.name)(*arguments)
        return values
