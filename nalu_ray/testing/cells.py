"""Checks of a recurrent cell: each takes a :data:`BuildCell` and raises AssertionError.

A unit is checked as the cell that reads [x_t, h_{t-1}]. Cells are compared in evaluation mode, in
which no unit may change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from nalu_ray import layers
from nalu_ray.testing.modules import require

INPUTS, HIDDEN = 3, 4
_BATCH, _STEPS, _SEEDS = 4, 5, 3
_RTOL, _ATOL = 1e-6, 1e-8  # in float64

BuildCell = Callable[[], layers.Cell]
"""Makes a cell of INPUTS inputs and HIDDEN hidden units."""


def of_cell(cell: str | type[nn.Module], **options: Any) -> BuildCell:
    """Returns what builds a registered cell by its name, or the cell of a unit's class."""
    if isinstance(cell, str):
        layers.get_cell(cell)
        return lambda: layers.build_cell(cell, INPUTS, HIDDEN, **options)
    return lambda: layers.UnitCell(INPUTS, HIDDEN, cell, **options)


def check_sequence(build: BuildCell) -> None:
    """Checks shapes of outputs and state, that a cell starts as it says, and series of no steps."""
    cell, x = _made(build), _inputs(_BATCH, _STEPS, INPUTS)
    outputs, state = cell(x)
    wanted = (_BATCH, _STEPS, cell.out_features)
    require(outputs.shape == wanted, f"outputs {tuple(outputs.shape)}, not {wanted}")
    start = cell.initial(_BATCH, x)
    shapes = [[tuple(part.shape) for part in parts] for parts in (state, start)]
    require(shapes[0] == shapes[1], f"state {shapes[0]}, at the start {shapes[1]}")
    require(all(len(part) == _BATCH for part in start), f"the start is of shape {shapes[1]}")
    require(torch.equal(cell(x, start)[0], outputs), "its start, given to it, gives other outputs")
    empty, kept = cell(x[:, :0], state)
    require(empty.shape[1] == 0, "a series without steps has outputs")
    require(all(map(torch.equal, kept, state)), "a series without steps changes the state")


def check_steps(build: BuildCell) -> None:
    """Checks that single steps, and two pieces of a series, give what the series gives at once."""
    cell, x = _made(build), _inputs(_BATCH, _STEPS, INPUTS)
    outputs, last = cell(x)
    state, steps = cell.initial(_BATCH, x), []
    for seen in x.unbind(1):
        output, state = cell.step(seen, state)
        steps.append(output)
    _close((torch.stack(steps, 1), *state), (outputs, *last))
    first, between = cell(x[:, :2])
    second, state = cell(x[:, 2:], between)
    _close((torch.cat([first, second], 1), *state), (outputs, *last))


def check_padding(build: BuildCell) -> None:
    """Checks that what lies behind the end of a shorter series does not matter."""
    cell, x = _made(build), _inputs(_BATCH, _STEPS, INPUTS)
    lengths = torch.tensor([_STEPS, 0, 2, 1])
    padding = torch.arange(_STEPS) >= lengths[:, None]
    outputs, state = cell(x.masked_fill(padding[..., None], torch.nan), lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = slice(row, row + 1)
        short, last = cell(x[alone, :length])
        _close((outputs[alone, :length], *(part[alone] for part in state)), (short, *last))


def check_resets(build: BuildCell) -> None:
    """Checks that a reset within a series is a fresh start."""
    cell, x = _made(build), _inputs(_STEPS, _BATCH, INPUTS)
    keep = torch.ones(_STEPS, _BATCH, dtype=x.dtype)
    keep[2] = 0
    outputs, last = cell.with_resets(x, keep, cell.initial(_BATCH, x))
    fresh, fresh_last = cell(x[2:], batch_first=False)
    _close((outputs[2:], *last), (fresh, *fresh_last))


def check_cell_learns(build: BuildCell) -> None:
    """Checks that a loss of all outputs reaches a parameter, with finite gradients."""
    cell = _made(build)
    signs = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    cell(_inputs(_BATCH, _STEPS, INPUTS) * signs)[0].square().sum().backward()
    slopes = [value.grad for value in cell.parameters() if value.grad is not None]
    require(any(bool(slope.any()) for slope in slopes), "no parameter gets a gradient")
    require(all(bool(slope.isfinite().all()) for slope in slopes), "a gradient is not finite")


def check_cell_stacked(build: BuildCell) -> None:
    """Checks that cells stacked by vmap give the outputs of single ones."""
    cells = [_made(build, seed) for seed in range(_SEEDS)]
    x = _inputs(_SEEDS, _BATCH, _STEPS, INPUTS)

    def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        outputs: Tensor = functional_call(cells[0], (parameters, buffers), (x,))[0]
        return outputs

    stacked = vmap(call)(*stack_module_state(list[nn.Module](cells)), x)
    for seed, cell in enumerate(cells):
        _close((stacked[seed],), (copy.deepcopy(cell)(x[seed])[0],))


CHECKS: dict[str, Callable[[BuildCell], None]] = {
    "sequence": check_sequence,
    "steps": check_steps,
    "padding": check_padding,
    "resets": check_resets,
    "learns": check_cell_learns,
    "stacked": check_cell_stacked,
}


def _made(build: BuildCell, seed: int = 0) -> layers.Cell:
    cell = build().double()
    cell.reset_parameters(torch.Generator().manual_seed(seed))
    return cell.eval()


def _inputs(*shape: int) -> Tensor:
    """Returns numbers in [0.5, 1.5)."""
    generator = torch.Generator().manual_seed(0)
    return 0.5 + torch.rand(shape, generator=generator, dtype=torch.float64)


def _close(given: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(given, wanted, rtol=_RTOL, atol=_ATOL)
