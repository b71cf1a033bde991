"""Many seeds of one setting as one stacked model.

Starting a trial costs seconds and a small network's step costs mostly Python, so a trial trains a
block of R seeds at once. Each seed's parameters are one row of a single (R, P) tensor; the network
runs once under :func:`torch.func.vmap`, and the optimiser, clipping and the check for divergence
are each one operation over the whole block. Rows never mix: seed *k* of a block gets the same
numbers as seed *k* alone; :class:`Replicas` says where to the last bit.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.utils._pytree import tree_map

from nalu_ray.training.recording import recorded

# A fused optimiser works in vectors and rounds differently in the rest that does not fill one; rows
# of whole vectors have no rest, so a replica's numbers do not depend on its place in the block.
ROW_MULTIPLE = 64

Tensors = dict[str, Tensor]
_STACKED = {"_parameters", "_buffers", "_modules"}


class Replicas:
    """R networks of one architecture, called together.

    On one thread of a CPU a replica's numbers are bit for bit those of a block of its own, as
    long as inputs are not shared and the network does not convolve; elsewhere they are equal to
    rounding. On some processors, with and without AVX-512, rows that do not fill whole vectors were
    seen to differ by rounding, too.

    Args:
        build: builds one network; torch's generators are seeded for each replica before it is
            called and put back afterwards.
        init_seeds: R seeds for the initialisation.
        device: where the stacked parameters live.

    Attributes:
        flat: (R, P) leaf tensor with the parameters of a replica per row, padded with unused zeros.
        buffers: the tensors that are not trained, (R, *shape) each, by name: buffers, and
            parameters without gradient. A training call may change them, see :meth:`evaluating`.

    Raises:
        TypeError: if parameters are complex or of different types, or if networks have numbers
            that differ from seed to seed and are neither parameters nor buffers.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        init_seeds: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> None:
        keep_freed_memory()
        with _generators_kept():
            modules = [_seeded(build, seed) for seed in init_seeds]
        _check_alike(modules)
        parameters, buffers = stack_module_state(modules)
        trained = {name: value for name, value in parameters.items() if value.requires_grad}
        _check_types(trained)
        untrained = {name: value for name, value in parameters.items() if name not in trained}
        self.module = modules[0].to(device)
        self.names = list(trained)
        self.shapes = [tensor.shape[1:] for tensor in trained.values()]
        self.sizes = [shape.numel() for shape in self.shapes]
        rows = [tensor.detach().reshape(len(modules), -1) for tensor in trained.values()]
        used = sum(self.sizes)
        rows.append(torch.zeros(len(modules), -(used + 1) % ROW_MULTIPLE + 1))
        self.sizes.append(rows[-1].shape[1])
        self.flat = torch.cat(rows, dim=1).to(device).requires_grad_()
        self.buffers: Tensors = {
            name: tensor.detach().to(device) for name, tensor in (untrained | buffers).items()
        }
        self._saved = _saved_names(self.module)
        self._evaluating = False
        self._watched: dict[str, list[Tensor]] = {}
        self._seen: dict[str, list[Tensor]] = {}
        self._hooked: set[str] = set()
        # under vmap a convolution loses the layout that makes it fast: computing a lone seed twice
        # would give the bits of a block, but a step of DigitConvnet takes 3.6 times as long (batch
        # of 32, one thread); other networks keep to vmap, whose sums have the same order whatever
        # the number of seeds
        of_images = convolves(self.module)
        self._as_one = of_images and len(modules) == 1
        # a product of one matrix is another routine's than one of several, and rounds otherwise:
        # a lone seed is computed twice
        self._twice = len(modules) == 1 and not of_images and self.flat.device.type == "cpu"

    def __len__(self) -> int:
        return self.flat.shape[0]

    def __call__(self, *inputs: Tensor, shared: bool = False) -> Any:
        """Runs every replica on its own inputs: (R, ...) each -> (R, ...).

        With ``shared``, all replicas run on the same inputs: (1, ...) each -> (R, ...). If the
        network returns several tensors, each gets the leading axis R.
        """
        return self._run(self.module, "", inputs, shared)

    def part(self, name: str, *inputs: Tensor, shared: bool = False) -> Any:
        """Runs one submodule of every replica, like :meth:`__call__`.

        Args:
            name: name of the submodule, as in ``network.get_submodule(name)``.
            inputs, shared: as in :meth:`__call__`.
        """
        return self._run(self.module.get_submodule(name), f"{name}.", inputs, shared)

    def apply(
        self,
        function: Callable[..., Any],
        *inputs: Tensor,
        flat: Tensor | None = None,
        buffers: Tensors | None = None,
    ) -> Any:
        """Calls a function of a network for every replica; its results get the leading axis R.

        Args:
            function: of the network, with a replica's parameters and buffers in it, and of its
                inputs. It returns tensors, or a tuple or dict of them, and changes nothing.
            inputs: (R, ...) each.
            flat, buffers: taken instead of :attr:`flat` and :attr:`buffers`, in the same layout.
        """
        module = _Called(self.module, function)

        def call(weights: Tensors, buffers: Tensors, given: tuple[Tensor, ...]) -> Any:
            state = {f"network.{name}": value for name, value in (weights | buffers).items()}
            return functional_call(module, state, given)

        state = self.parameters(flat), self.buffers if buffers is None else buffers
        return self._over_seeds(call, state, inputs, False)

    def record(self, function: Callable[..., Any], *inputs: Tensor) -> Callable[..., Any]:
        """Records a function's operations, see :func:`nalu_ray.training.recording.recorded`.

        Args:
            function: called as ``function(flat, buffers, *inputs)``, with tensors like :attr:`flat`
                and :attr:`buffers`. It returns tensors without a gradient.
            inputs: examples of its inputs.

        Returns:
            A function of inputs of the same shapes, which reads the present parameters and buffers.
        """
        names = list(self.buffers)

        def plain(flat: Tensor, *given: Tensor) -> Any:
            buffers = dict(zip(names, given, strict=False))
            return function(flat, buffers, *given[len(names) :])

        repeat = recorded(plain, self.flat.detach(), *self.buffers.values(), *inputs)
        return lambda *given: repeat(self.flat, *(self.buffers[name] for name in names), *given)

    @contextlib.contextmanager
    def holding(self, flat: Tensor, buffers: Tensors) -> Iterator[None]:
        """Puts other parameters and buffers, in the same layout, in the place of the networks'."""
        previous = self.flat, self.buffers
        self.flat, self.buffers = flat, buffers
        try:
            yield
        finally:
            self.flat, self.buffers = previous

    def watch(self, paths: Iterable[str]) -> None:
        """Keeps the inputs of some submodules in the training calls from now on.

        Args:
            paths: names of the submodules, as in ``network.get_submodule(path)``.
        """
        self._watched = {path: [] for path in paths}
        for path in self._watched.keys() - self._hooked:
            hook = functools.partial(self._see, path)
            self.module.get_submodule(path).register_forward_pre_hook(hook, with_kwargs=True)
            self._hooked.add(path)

    def watched(self, paths: Iterable[str]) -> Tensors:
        """Returns the inputs of each submodule since :meth:`watch`, (R, N, features) by its name.

        Raises:
            TypeError: if one was not called.
        """
        inputs = {}
        for path in paths:
            if not self._watched[path]:
                raise TypeError(f"{path}: its penalty takes its inputs, but its forward is not run")
            inputs[path] = torch.cat(self._watched[path], dim=1)
        return inputs

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Puts every network into evaluation mode and discards changes to its buffers."""
        modes = [(part, part.training) for part in self.module.modules()]
        self.module.eval()
        self._evaluating = True
        try:
            yield
        finally:
            self._evaluating = False
            for part, mode in modes:
                part.training = mode

    def parameters(self, flat: Tensor | None = None) -> Tensors:
        """Returns the trained parameters by name, (R, *shape) each, as views of :attr:`flat`.

        Args:
            flat: another (R, P) tensor of the same layout to read instead.
        """
        parts = (self.flat if flat is None else flat).split(self.sizes, dim=1)
        # the last part is the padding
        triples = zip(self.names, parts[:-1], self.shapes, strict=True)
        return {name: _shaped(part, shape) for name, part, shape in triples}

    def state(self, flat: Tensor | None = None, buffers: Tensors | None = None) -> Tensors:
        """Returns the entries of a network's ``state_dict()``, (R, *shape) each.

        Args:
            flat, buffers: read instead of :attr:`flat` and :attr:`buffers`, in the same layout.
        """
        tensors = self.parameters(flat) | (self.buffers if buffers is None else buffers)
        return {saved: tensors[name].detach() for saved, name in self._saved.items()}

    def replica(self, index: int) -> Tensors:
        """Returns one replica's state dict, as a copy."""
        return {name: tensor[index].clone() for name, tensor in self.state().items()}

    def put_back(self, rows: Tensor, flat: Tensor, buffers: Tensors) -> None:
        """Gives some replicas other parameters and buffers, such as their earlier ones.

        Args:
            rows: the replicas, (R,) of bool.
            flat, buffers: the values by replica, in the same layout; one replica's are for all.
        """
        with torch.no_grad():
            self.flat.copy_(chosen(rows, flat, self.flat))
        self.buffers = {
            name: chosen(rows, buffers[name], value) for name, value in self.buffers.items()
        }

    def load(self, flat: Tensor, buffers: Tensors) -> None:
        """Resumes from saved parameters and buffers.

        Raises:
            ValueError: if they belong to another network.
        """
        if flat.shape != self.flat.shape or buffers.keys() != self.buffers.keys():
            raise ValueError(
                f"the state of another network: parameters {tuple(flat.shape)} and buffers "
                f"{sorted(buffers)}, expected {tuple(self.flat.shape)} and "
                f"{sorted(self.buffers)}"
            )
        device = self.flat.device
        with torch.no_grad():
            self.flat.copy_(flat)
        self.buffers = {name: value.to(device).clone() for name, value in buffers.items()}

    def _run(self, module: nn.Module, prefix: str, inputs: Sequence[Tensor], shared: bool) -> Any:
        """Calls a module with the state of each seed, and keeps the changed buffers."""
        state_of_module = (_below(prefix, self.parameters()), _below(prefix, self.buffers))

        def call(weights: Tensors, buffers: Tensors, given: tuple[Tensor, ...]) -> tuple[Any, ...]:
            state = weights | buffers
            self._seen = {} if self._evaluating else {path: [] for path in self._watched}
            result = functional_call(module, state, given)
            watched_inputs = {path: torch.cat(parts) for path, parts in self._seen.items() if parts}
            self._seen = {}
            # functional_call puts there what the module has assigned to its buffers
            return result, {name: state[name] for name in buffers}, watched_inputs

        result, buffers, watched_inputs = self._over_seeds(call, state_of_module, inputs, shared)
        for path, part in watched_inputs.items():
            self._watched[path].append(part)
        if not self._evaluating:
            # a new dictionary: who holds the present one has what was before this call
            moved = {f"{prefix}{name}": value.detach() for name, value in buffers.items()}
            self.buffers = self.buffers | moved
        return result

    def _see(self, path: str, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if path in self._seen:
            x: Tensor = given[0] if given else next(iter(named.values()))
            self._seen[path].append(x.reshape(-1, x.shape[-1]))

    def _over_seeds(
        self,
        call: Callable[..., Any],
        state: tuple[Tensors, Tensors],
        inputs: Sequence[Tensor],
        shared: bool,
    ) -> Any:
        weights, buffers = state
        if self._as_one:
            lone = ({name: value[0] for name, value in part.items()} for part in (weights, buffers))
            lone_weights, lone_buffers = lone
            lone_buffers = {name: value.clone() for name, value in lone_buffers.items()}
            return _mapped(
                lambda x: x[None], call(lone_weights, lone_buffers, tuple(x[0] for x in inputs))
            )
        if shared:
            inputs = [tensor.squeeze(0) for tensor in inputs]
        if self._twice:
            weights = {name: value.expand(2, *value.shape[1:]) for name, value in weights.items()}
            buffers = {name: _doubled(value) for name, value in buffers.items()}
            inputs = inputs if shared else [_doubled(tensor) for tensor in inputs]
        else:  # a module may change its buffers in place
            buffers = {name: value.clone() for name, value in buffers.items()}
        axes = (0, 0, None if shared else 0)
        results = vmap(call, in_dims=axes)(weights, buffers, tuple(inputs))
        return _mapped(lambda x: x[:1], results) if self._twice else results


class _Called(nn.Module):
    """A function of a network as a module, so that its parameters can be replaced for a call."""

    def __init__(self, network: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.network, self.function = network, function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self.network, *inputs)


def chosen(rows: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Returns ``yes`` in the ``rows``, (R,) of bool, and ``no`` elsewhere, (R, ...) each."""
    return torch.where(rows.to(no.device).view(-1, *[1] * (no.dim() - 1)), yes, no)


@functools.cache
def convolves(network: nn.Module) -> bool:
    """Returns whether a network has a convolution."""
    return any(isinstance(part, nn.Conv2d) for part in network.modules())


def keep_freed_memory() -> None:
    """Tells glibc to keep freed blocks instead of giving them back to the system.

    A step's few-megabyte temporaries are otherwise mapped and unmapped every time, which cost a
    third of the static task's step (docs/performance.md).
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL(None)
        mmap_threshold, trim_threshold = -3, -1
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)
    except (OSError, AttributeError):  # another C library: slower, not wrong
        return


def _check_types(trained: Tensors) -> None:
    for name, tensor in trained.items():
        if tensor.is_complex():
            raise TypeError(
                f"parameter {name} is {_type(tensor)}; seeds are stacked as real numbers: make its "
                "real and imaginary parts parameters, and torch.complex of them in forward"
            )
    if len({tensor.dtype for tensor in trained.values()}) > 1:
        types = ", ".join(f"{name} {_type(tensor)}" for name, tensor in trained.items())
        raise TypeError(
            f"parameters must be of one type, got {types}: create all of them in one type, and "
            "convert inputs and results in forward"
        )


def _check_alike(modules: Sequence[nn.Module]) -> None:
    """Refuses numbers that differ from seed to seed and that stacking would take from the first."""
    for name, first in modules[0].named_modules():
        for attribute in vars(first).keys() - _STACKED:
            of_seeds = [vars(module.get_submodule(name)).get(attribute) for module in modules]
            if not all(_alike(of_seeds[0], other) for other in of_seeds[1:]):
                raise TypeError(
                    f"{name}.{attribute} differs from seed to seed and is neither a parameter nor "
                    "a buffer: use register_buffer".lstrip(".")
                )


def _alike(first: object, other: object) -> bool:
    if isinstance(first, nn.Parameter):  # stacked under its name
        return True
    if isinstance(first, Tensor) and isinstance(other, Tensor):
        return torch.equal(first, other)
    if isinstance(first, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(first, other)
    if isinstance(first, list | tuple) and isinstance(other, list | tuple):
        return len(first) == len(other) and all(map(_alike, first, other))
    if isinstance(first, float) and isinstance(other, float):
        return first == other or (math.isnan(first) and math.isnan(other))
    return True


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _saved_names(module: nn.Module) -> dict[str, str]:
    """By each name in the state dict, the first name of the same tensor."""
    named = [*module.named_parameters(), *module.named_buffers()]
    first = {id(tensor): name for name, tensor in named}
    saved = module.state_dict(keep_vars=True).items()
    return {name: first[id(tensor)] for name, tensor in saved if id(tensor) in first}


def _below(prefix: str, tensors: Tensors) -> Tensors:
    if not prefix:
        return tensors
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _doubled(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor])


def _mapped(change: Callable[[Tensor], Tensor], result: Any) -> Any:
    return tree_map(lambda value: change(value) if torch.is_tensor(value) else value, result)


def _shaped(part: Tensor, shape: torch.Size) -> Tensor:
    return part.unflatten(1, shape) if len(shape) else part[:, 0]


def _generators_kept() -> contextlib.AbstractContextManager[None]:
    """Puts torch's generators back: the CPU's, and the present GPU's where one is in use.

    Done once per block: saving a GPU's generator waits for the GPU.
    """
    in_use = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    fork: contextlib.AbstractContextManager[None] = torch.random.fork_rng(devices=in_use)
    return fork


def _seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return build()
