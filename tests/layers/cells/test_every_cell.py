"""What every recurrent cell of the registry must do; a new cell is tested by being registered."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from nalu_ray.layers import Cell, State, build_cell, get_cell, last
from tests import distinct

INPUTS, HIDDEN, BATCH, STEPS = 3, 4, 4, 5
LENGTHS = torch.tensor([STEPS, 0, 2, 1])
SMALL: dict[str, dict[str, Any]] = {
    "dnc": {"slots": 4, "width": 3, "reads": 2},
    # as published: without the gate, the sum of the outputs is that of the inputs and has no slope
    "mc_lstm": {"auxiliary": 1, "cumulative": False},
    # the published start lets its state grow beyond float16 in a few steps
    "nalu_separate": {"start": "glorot"},
    "nalu_lstm": {"registers": 3, "view": "sign"},
}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
every_cell = pytest.mark.parametrize("name", distinct.cells())


def make(name: str, seed: int = 0, **options: Any) -> Cell:
    cell = build_cell(name, INPUTS, HIDDEN, **SMALL.get(name, {}) | options).double()
    cell.reset_parameters(torch.Generator().manual_seed(seed))
    # in training some units draw other noise at each call
    return cell.eval()


def inputs(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.5 + torch.rand(shape, generator=generator, dtype=torch.float64)


def some_state(cell: Cell, batch: int = BATCH, seed: int = 7) -> State:
    """A state that no cell starts with, each element in [0.05, 0.15)."""
    zeros = cell.initial(batch, inputs(1))
    return tuple(0.1 * inputs(*part.shape, seed=seed + n) for n, part in enumerate(zeros))


def flat(outputs: Tensor, state: State) -> Tensor:
    """Something that every element of every result has another weight in."""
    parts = torch.cat([part.flatten() for part in (outputs, *state)])
    return (parts * torch.linspace(0.5, 1.5, len(parts), dtype=parts.dtype)).sum()


def gradients(cell: Cell, result: Tensor, *others: Tensor) -> list[Tensor]:
    wanted = [*cell.parameters(), *others]
    found = torch.autograd.grad(result, wanted, allow_unused=True)
    return [
        torch.zeros_like(x) if slope is None else slope
        for x, slope in zip(wanted, found, strict=True)
    ]


def stacked_call(cell: Cell, lengths: Tensor | None) -> Callable[..., Tensor]:
    def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        return flat(*functional_call(cell, (parameters, buffers), (x, None, lengths)))

    return call


@every_cell
def test_shapes_and_start(name: str) -> None:
    cell = make(name)
    outputs, state = cell(inputs(BATCH, STEPS, INPUTS))
    assert outputs.shape == (BATCH, STEPS, cell.out_features)
    start = cell.initial(BATCH, outputs)
    assert [part.shape for part in state] == [part.shape for part in start]
    # as the unit says; only a product starts at 1
    neutral = getattr(getattr(cell, "unit", None), "recurrent_start", 0)
    assert neutral in (0, 1)
    assert all(len(part) == BATCH and (part == neutral).all() for part in start)
    given, _ = cell(inputs(BATCH, STEPS, INPUTS), start)
    assert torch.equal(given, outputs)


@every_cell
@pytest.mark.parametrize("device", DEVICES)
def test_runs_where_its_parameters_are(name: str, device: str) -> None:
    cell = build_cell(name, INPUTS, HIDDEN, **SMALL.get(name, {})).to(device)
    x = inputs(BATCH, STEPS, INPUTS).to(device, torch.float32)
    outputs, state = cell(x, lengths=LENGTHS.to(device))
    for part in (outputs, *state):
        assert (part.device.type, part.dtype) == (device, torch.float32)


@every_cell
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "lengths"), [(torch.float16, None), (torch.bfloat16, LENGTHS)])
def test_autocast_is_close(
    name: str, device: str, dtype: torch.dtype, lengths: Tensor | None
) -> None:
    cell = make(name).to(device, torch.float32)
    x = inputs(BATCH, STEPS, INPUTS).to(device, torch.float32)
    lengths = None if lengths is None else lengths.to(device)
    with torch.autocast(device, dtype):
        outputs, state = cell(x, None, lengths)
    wanted, _ = cell(x, None, lengths)
    torch.testing.assert_close(outputs.float(), wanted, rtol=0.1, atol=0.05)
    exact = gradients(cell, flat(*cell(x, None, lengths)))
    for slope, full in zip(gradients(cell, flat(outputs, state)), exact, strict=True):
        assert slope.isfinite().all()
        # an imaginary weight has none while inputs are positive
        assert slope.any() == full.any()


@every_cell
def test_batch_first_is_a_matter_of_layout(name: str) -> None:
    cell, x = make(name), inputs(BATCH, STEPS, INPUTS)
    outputs, state = cell(x, lengths=LENGTHS)
    turned, same = cell(x.transpose(0, 1), lengths=LENGTHS, batch_first=False)
    assert torch.equal(outputs, turned.transpose(0, 1))
    assert all(torch.equal(*pair) for pair in zip(state, same, strict=True))


@every_cell
def test_steps_and_pieces_equal_the_whole(name: str) -> None:
    cell, x = make(name), inputs(BATCH, STEPS, INPUTS)
    start = some_state(cell)
    outputs, end = cell(x, start)
    state, steps = start, []
    for seen in x.unbind(1):
        output, state = cell.step(seen, state)
        steps.append(output)
    torch.testing.assert_close((torch.stack(steps, 1), *state), (outputs, *end))
    first, between = cell(x[:, :2], start)
    second, state = cell(x[:, 2:], between)
    torch.testing.assert_close((torch.cat([first, second], 1), *state), (outputs, *end))


@every_cell
def test_the_state_matters(name: str) -> None:
    cell, x = make(name), inputs(BATCH, 1, INPUTS)
    start = some_state(cell)
    changed, _ = cell(x, start)
    assert (changed - cell(x)[0]).abs().max() > 1e-4
    result = flat(*cell(x, tuple(part.requires_grad_() for part in start)))
    for slope in torch.autograd.grad(result, start):
        assert slope.abs().max() > 0


@every_cell
def test_no_steps(name: str) -> None:
    cell = make(name)
    start = some_state(cell)
    for lengths in None, torch.zeros(BATCH, dtype=torch.int64):
        outputs, state = cell(inputs(BATCH, 0, INPUTS), start, lengths)
        assert outputs.shape == (BATCH, 0, cell.out_features)
        assert all(torch.equal(*pair) for pair in zip(state, start, strict=True))
    outputs, _ = cell(inputs(BATCH, 0, INPUTS).transpose(0, 1), batch_first=False)
    assert outputs.shape == (0, BATCH, cell.out_features)


@every_cell
def test_padding_leaves_state_and_output(name: str) -> None:
    cell, x = make(name), inputs(BATCH, STEPS, INPUTS)
    start = some_state(cell)
    outputs, state = cell(x, start, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = slice(row, row + 1)
        short, end = cell(x[alone, :length], tuple(part[alone] for part in start))
        torch.testing.assert_close(outputs[alone, :length], short)
        torch.testing.assert_close(tuple(part[alone] for part in state), end)
        last = short[:, -1:] if length else torch.zeros_like(outputs[alone, :1])
        torch.testing.assert_close(outputs[alone, length:], last.expand(-1, STEPS - length, -1))


@every_cell
def test_what_is_on_padding_does_not_matter(name: str) -> None:
    cell, x = make(name), inputs(BATCH, STEPS, INPUTS)
    padding = torch.arange(STEPS) >= LENGTHS[:, None]
    other = torch.where(padding[..., None], 1e6 * inputs(*x.shape, seed=3) - 1e6, x)
    found = []
    for values in x, other:
        values.requires_grad_()
        results = cell(values, None, LENGTHS)
        *slopes, of_x = gradients(cell, flat(*results), values)
        found.append((results[0], *results[1], *slopes))
        assert all(slope.isfinite().all() for slope in (*slopes, of_x))
        assert (of_x[padding] == 0).all()
    torch.testing.assert_close(*found, rtol=0, atol=0)


@every_cell
def test_even_nan_on_padding_does_not_matter(name: str) -> None:
    cell, x = make(name), inputs(BATCH, STEPS, INPUTS)
    padding = torch.arange(STEPS) >= LENGTHS[:, None]
    broken = x.masked_fill(padding[..., None], torch.nan)
    found = [
        (results[0], *results[1], *gradients(cell, flat(*results)))
        for results in (cell(values, None, LENGTHS) for values in (x, broken))
    ]
    torch.testing.assert_close(*found, rtol=0, atol=0)


@every_cell
def test_lengths_are_clamped_and_of_a_type(name: str) -> None:
    cell, x = make(name), inputs(BATCH, STEPS, INPUTS)
    beyond, within = torch.tensor([9, -2, 2, 1]), torch.tensor([STEPS, 0, 2, 1])
    torch.testing.assert_close(cell(x, None, beyond), cell(x, None, within), rtol=0, atol=0)
    with pytest.raises(TypeError, match=r"^lengths must be a tensor, got list$"):
        cell(x, None, [1, 1, 1, 1])  # type: ignore[arg-type]


def test_the_last_output_of_no_steps_is_an_error() -> None:
    outputs = inputs(2, 3, 4)
    assert torch.equal(last(outputs), outputs[:, 2])
    with pytest.raises(ValueError, match=r"^a sequence without steps has no last output$"):
        last(outputs[:, :0])


@every_cell
@pytest.mark.parametrize("lost", [torch.inf, torch.nan])
def test_a_lost_row_harms_no_other(name: str, lost: float) -> None:
    cell, x = make(name), inputs(BATCH, STEPS, INPUTS)
    start = some_state(cell)
    broken = tuple(part.clone() for part in start)
    for part in broken:
        part[2] = lost
    others = torch.tensor([0, 1, 3])
    for lengths in (None, LENGTHS):
        results = []
        for state in (start, broken):
            outputs, after = cell(x, state, lengths)
            results.append([part[others] for part in (outputs, *after)])
        torch.testing.assert_close(*results, rtol=0, atol=0)


@every_cell
def test_nothing_but_padding(name: str) -> None:
    cell = make(name)
    start = some_state(cell)
    outputs, state = cell(inputs(BATCH, STEPS, INPUTS), start, torch.zeros(BATCH))
    assert (outputs == 0).all()
    assert all(torch.equal(*pair) for pair in zip(state, start, strict=True))
    assert all((slope == 0).all() for slope in gradients(cell, flat(outputs, state)))


@every_cell
def test_rows_do_not_mix(name: str) -> None:
    cell, x = make(name), inputs(BATCH, STEPS, INPUTS)
    order = torch.tensor([2, 0, 3, 1])
    outputs, state = cell(x, some_state(cell), LENGTHS)
    start = tuple(part[order] for part in some_state(cell))
    moved, end = cell(x[order], start, LENGTHS[order])
    torch.testing.assert_close((moved, *end), tuple(part[order] for part in (outputs, *state)))


@every_cell
def test_every_parameter_learns(name: str) -> None:
    cell = make(name)
    x = inputs(BATCH, STEPS, INPUTS) * torch.tensor([1.0, -1.0, 1.0])
    for slope in gradients(cell, cell(x)[0].sum()):
        assert slope.abs().max() > 0


@every_cell
def test_gradients_by_finite_differences(name: str) -> None:
    cell = make(name)
    names = [key for key, _ in cell.named_parameters()]
    values = [value.detach().clone() for value in cell.parameters()]
    start = some_state(cell, batch=2)

    def run(*given: Tensor) -> tuple[Tensor, ...]:
        parameters = dict(zip(names, given, strict=False))
        x, *state = given[len(names) :]
        outputs, end = functional_call(cell, parameters, (x, tuple(state), torch.tensor([3, 1])))
        return outputs, *end

    given = [value.requires_grad_() for value in (*values, inputs(2, 3, INPUTS, seed=2), *start)]
    assert torch.autograd.gradcheck(run, given, fast_mode=True)


@every_cell
def test_copies_and_saved_states_compute_the_same(name: str) -> None:
    cell, other = make(name, 1), make(name, 2)
    x = inputs(BATCH, STEPS, INPUTS)
    other.load_state_dict(cell.state_dict())
    for twin in (other, copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        assert torch.equal(twin(x)[0], cell(x)[0])
        assert repr(twin) == repr(cell)


@every_cell
def test_generator_decides_everything(name: str) -> None:
    state = torch.get_rng_state()
    values = [make(name, seed).state_dict() for seed in (1, 1, 2)]
    torch.set_rng_state(state)
    cell = make(name, 1)
    cell.reset_parameters(torch.Generator().manual_seed(2))
    for key, value in values[0].items():
        assert torch.equal(value, values[1][key])
        assert torch.equal(cell.state_dict()[key], values[2][key])
    assert any(not torch.equal(values[0][key], values[2][key]) for key in values[0])


@every_cell
@pytest.mark.parametrize(("shared", "lengths"), [(True, None), (False, LENGTHS)])
def test_stacked_cells_equal_single_ones(name: str, shared: bool, lengths: Tensor | None) -> None:
    """As a block of seeds is trained."""
    cells = [make(name, seed) for seed in range(3)]
    x = inputs(BATCH, STEPS, INPUTS) if shared else inputs(3, BATCH, STEPS, INPUTS)
    parameters, buffers = stack_module_state(cells)
    call = stacked_call(cells[0], lengths)
    results = vmap(call, in_dims=(0, 0, None if shared else 0))(parameters, buffers, x)
    slopes = torch.autograd.grad(results.sum(), list(parameters.values()))
    for replica, cell in enumerate(cells):
        alone = flat(*cell(x if shared else x[replica], None, lengths))
        torch.testing.assert_close(results[replica], alone)
        for found, wanted in zip(slopes, gradients(cell, alone), strict=True):
            torch.testing.assert_close(found[replica], wanted)


@every_cell
def test_gradients_inside_vmap_equal_single_ones(name: str) -> None:
    cells = [make(name, seed) for seed in range(3)]
    x = inputs(3, BATCH, STEPS, INPUTS)
    slopes = vmap(grad(stacked_call(cells[0], LENGTHS)))(*stack_module_state(cells), x)
    for replica, cell in enumerate(cells):
        alone = gradients(cell, flat(*cell(x[replica], None, LENGTHS)))
        for found, wanted in zip(slopes.values(), alone, strict=True):
            torch.testing.assert_close(found[replica], wanted)


@every_cell
@pytest.mark.parametrize(
    ("sizes", "field"), [((0, 3), "in_features"), ((3, 0), "hidden_features"), ((3, 1.5), "hidden")]
)
def test_bad_sizes_are_named(name: str, sizes: tuple[int, int], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field}\w* must be an integer of at least \d, got"):
        build_cell(name, *sizes)


@every_cell
def test_bad_options_are_named(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^cell '{name}' has no option 'colour'; its options: "):
        build_cell(name, INPUTS, HIDDEN, colour=1)


@every_cell
@pytest.mark.parametrize("shape", [(BATCH, INPUTS), (BATCH, STEPS, 2), (1, BATCH, STEPS, INPUTS)])
def test_wrong_shapes_are_named(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"^x must have three axes, the last of size {INPUTS}"):
        make(name)(inputs(*shape))


@every_cell
@pytest.mark.parametrize("batch_first", [True, False])
def test_wrong_lengths_are_named(name: str, batch_first: bool) -> None:
    x = inputs(BATCH, STEPS, INPUTS) if batch_first else inputs(STEPS, BATCH, INPUTS)
    with pytest.raises(ValueError, match=r"^lengths must be \(4,\), got \(5,\)$"):
        make(name)(x, None, torch.ones(STEPS), batch_first=batch_first)


@every_cell
def test_label_is_for_print(name: str) -> None:
    assert get_cell(name).label
    assert get_cell(name).citation
