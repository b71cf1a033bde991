"""Many seeds of one setting as one stacked model.

Starting a trial costs seconds and a small network's step costs mostly Python, so a trial trains a
block of R seeds at once. Each seed's parameters are one row of a single (R, P) tensor; the network
runs once under :func:`torch.func.vmap`, and the optimiser, clipping and the check for divergence
are each one operation over the whole block. Rows never mix: seed *k* of a block gets the same
numbers as seed *k* alone.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

# A fused optimiser works in vectors and rounds differently in the rest that does not fill one; rows
# of whole vectors have no rest, so a replica's numbers do not depend on its place in the block.
ROW_MULTIPLE = 64


class Replicas:
    """R networks of one architecture, called together.

    Args:
        build: builds one network; torch's generators are seeded for each replica before it is
            called and put back afterwards.
        init_seeds: R seeds for the initialisation.
        device: where the stacked parameters live.

    Attributes:
        flat: (R, P) leaf tensor with every replica's parameters as a row, padded with unused zeros.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        init_seeds: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> None:
        keep_freed_memory()
        modules = [_seeded(build, seed) for seed in init_seeds]
        stacked, buffers = stack_module_state(modules)
        self.module = modules[0].to(device)
        self.names = list(stacked)
        self.shapes = [tensor.shape[1:] for tensor in stacked.values()]
        self.sizes = [shape.numel() for shape in self.shapes]
        rows = [tensor.detach().reshape(len(modules), -1) for tensor in stacked.values()]
        used = sum(self.sizes)
        rows.append(torch.zeros(len(modules), -(used + 1) % ROW_MULTIPLE + 1))
        self.sizes.append(rows[-1].shape[1])
        self.flat = torch.cat(rows, dim=1).to(device).requires_grad_()
        self.buffers = {name: buffer.to(device) for name, buffer in buffers.items()}
        # under vmap a convolution loses the layout that makes it fast; other networks keep to vmap,
        # whose sums have the same order whatever the number of seeds
        convolves = any(isinstance(part, nn.Conv2d) for part in self.module.modules())
        self._as_one = convolves and len(modules) == 1

    def __len__(self) -> int:
        return self.flat.shape[0]

    def __call__(self, *inputs: Tensor, shared: bool = False) -> Any:
        """Runs every replica on its own inputs: (R, ...) each -> (R, ...).

        With ``shared``, all replicas run on the same inputs: (1, ...) each -> (R, ...). A network
        that returns several tensors gives them all, each with R in front.
        """
        return self._over_seeds(self._single, self.parameters() | self.buffers, inputs, shared)

    def part(self, name: str, *inputs: Tensor, shared: bool = False) -> Any:
        """Runs one submodule of every replica, as :meth:`__call__` runs them whole.

        Args:
            name: of the submodule, as in ``network.get_submodule(name)``.
            inputs, shared: as in a call.
        """
        prefix, module = f"{name}.", self.module.get_submodule(name)
        state = {
            key.removeprefix(prefix): tensor
            for key, tensor in (self.parameters() | self.buffers).items()
            if key.startswith(prefix)
        }

        def call(own: dict[str, Tensor], given: tuple[Tensor, ...]) -> Any:
            return functional_call(module, own, given)

        return self._over_seeds(call, state, inputs, shared)

    def parameters(self, flat: Tensor | None = None) -> dict[str, Tensor]:
        """Returns the stacked parameters by name, (R, *shape) each, as views of :attr:`flat`.

        Args:
            flat: another (R, P) tensor, laid out alike, that is read in its place.
        """
        parts = (self.flat if flat is None else flat).split(self.sizes, dim=1)
        # the last part is the padding
        triples = zip(self.names, parts[:-1], self.shapes, strict=True)
        return {name: _shaped(part, shape) for name, part, shape in triples}

    def replica(self, index: int) -> dict[str, Tensor]:
        """Returns one replica's state dict, as a copy."""
        return {name: tensor[index].detach().clone() for name, tensor in self.parameters().items()}

    def _single(self, own: dict[str, Tensor], inputs: tuple[Tensor, ...]) -> Any:
        return functional_call(self.module, own, inputs)

    def _over_seeds(
        self,
        call: Callable[..., Any],
        state: dict[str, Tensor],
        inputs: Sequence[Tensor],
        shared: bool,
    ) -> Any:
        """Calls with each seed's own state."""
        if self._as_one:
            own = {name: tensor[0] for name, tensor in state.items()}
            return _stacked(call(own, tuple(tensor[0] for tensor in inputs)))
        if shared:
            inputs = [tensor.squeeze(0) for tensor in inputs]
        return vmap(call, in_dims=(0, None if shared else 0))(state, tuple(inputs))


def clip_rows(gradient: Tensor, norm: float) -> None:
    """Scales each replica's gradient to at most ``norm`` in place, (R, P); others are untouched."""
    lengths = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    gradient.mul_(norm / lengths.clamp_min(norm))


@functools.cache
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


def _stacked(result: Any) -> Any:
    return result[None] if torch.is_tensor(result) else tuple(map(_stacked, result))


def _shaped(part: Tensor, shape: torch.Size) -> Tensor:
    return part.unflatten(1, shape) if len(shape) else part[:, 0]


def _seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    started = torch.cuda.is_initialized()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if started else []):
        torch.manual_seed(seed)
        return build()
