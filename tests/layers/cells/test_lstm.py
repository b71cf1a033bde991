"""The LSTM against torch's, step by step against at once, and across resets."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers import LSTM, build_cell, lstm_steps

STEPS, BATCH, INPUTS, HIDDEN = 7, 3, 4, 5


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def layer(seed: int = 0) -> LSTM:
    made = LSTM(INPUTS, HIDDEN).double()
    made.reset_parameters(torch.Generator().manual_seed(seed))
    with torch.no_grad():
        made.bias.copy_(drawn(4 * HIDDEN, seed=seed))
    return made


def state(seed: int = 5) -> tuple[Tensor, Tensor]:
    return drawn(BATCH, HIDDEN, seed=seed), drawn(BATCH, HIDDEN, seed=seed + 1)


def broken() -> Tensor:
    """Keep, (STEPS, BATCH): resets at the start, inside, twice in a row, and none."""
    keep = torch.ones(STEPS, BATCH, dtype=torch.float64)
    keep[0, 0] = keep[3, 0] = keep[4, 1] = keep[5, 1] = 0
    return keep


def in_torchs_order(rows: Tensor) -> Tensor:
    """Ours are i, f, o, u; torch's i, f, g, o."""
    i, f, o, u = rows.chunk(4)
    return torch.cat([i, f, u, o])


def twin(own: LSTM) -> nn.LSTM:
    other = nn.LSTM(INPUTS, HIDDEN).double()
    with torch.no_grad():
        other.weight_ih_l0.copy_(in_torchs_order(own.weight_x))
        other.weight_hh_l0.copy_(in_torchs_order(own.weight_h))
        other.bias_ih_l0.copy_(in_torchs_order(own.bias))
        other.bias_hh_l0.zero_()
    return other


def stepwise(own: LSTM, x: Tensor, keep: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    out = []
    for seen, kept in zip(x, keep[..., None], strict=True):
        put_out, (h, c) = own.step(seen, (h * kept, c * kept))
        out.append(put_out)
    return torch.stack(out), h, c


def all_at_once(own: LSTM, x: Tensor, keep: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    out, (last, cell) = own.with_resets(x, keep, (h, c))
    return out, last, cell


def scalar(results: tuple[Tensor, ...]) -> Tensor:
    """Something that every result has another weight in."""
    return sum(((drawn(*r.shape, seed=90 + n) * r).sum() for n, r in enumerate(results)), drawn(1))


@pytest.mark.parametrize("run", [stepwise, all_at_once])
def test_equal_to_torchs(run: type) -> None:
    own, (h, c) = layer(), state()
    other = twin(own)
    x, keep = drawn(STEPS, BATCH, INPUTS, seed=3), torch.ones(STEPS, BATCH, dtype=torch.float64)
    inputs = [value.clone().requires_grad_() for value in (x, h, c)]
    others = [value.clone().requires_grad_() for value in (x, h, c)]
    results = run(own, inputs[0], keep, *inputs[1:])
    out, (last, cell) = other(others[0], (others[1][None], others[2][None]))
    expected = (out, last[0], cell[0])
    for found, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(found, wanted)
    scalar(results).backward()
    scalar(expected).backward()
    for found, wanted in zip(inputs, others, strict=True):
        torch.testing.assert_close(found.grad, wanted.grad)
    assert own.weight_x.grad is not None
    assert own.weight_h.grad is not None
    assert own.bias.grad is not None
    torch.testing.assert_close(in_torchs_order(own.weight_x.grad), other.weight_ih_l0.grad)
    torch.testing.assert_close(in_torchs_order(own.weight_h.grad), other.weight_hh_l0.grad)
    torch.testing.assert_close(in_torchs_order(own.bias.grad), other.bias_ih_l0.grad)


def test_at_once_equals_step_by_step_with_resets() -> None:
    x = drawn(STEPS, BATCH, INPUTS, seed=3)
    gradients = []
    results = []
    for run in (stepwise, all_at_once):
        own = layer()
        inputs = [value.requires_grad_() for value in (x.clone(), *state())]
        results.append(run(own, inputs[0], broken(), *inputs[1:]))
        scalar(results[-1]).backward()
        gradients.append([value.grad for value in (*inputs, *own.parameters())])
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted)
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted)


def test_gradients_by_finite_differences() -> None:
    own = layer()

    def run(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        own.weight_x, own.weight_h, own.bias = weights
        return all_at_once(own, x, broken(), h, c)

    weights = [value.detach().clone().requires_grad_() for value in own.parameters()]
    for name in ("weight_x", "weight_h", "bias"):
        delattr(own, name)
    inputs = [value.requires_grad_() for value in (drawn(STEPS, BATCH, INPUTS), *state())]
    assert torch.autograd.gradcheck(run, (*inputs, *weights), fast_mode=True)


def test_linear_units_beside_the_lstm() -> None:
    """Two accumulators: their rows have no gate, and h ends in them; against a plain loop."""
    wide = HIDDEN + 2
    inputs = [drawn(STEPS, BATCH, 4 * HIDDEN + 2), drawn(BATCH, wide, seed=1),
              drawn(BATCH, HIDDEN, seed=2), 0.5 * drawn(4 * HIDDEN + 2, wide, seed=3)]  # fmt: skip
    inputs = [value.requires_grad_() for value in inputs]

    def at_once(projected: Tensor, h: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        return lstm_steps(projected, (h, c), weight, keep=broken())

    projected, h, c, weight = inputs
    wanted = []
    for added, kept in zip(projected, broken()[..., None], strict=True):
        rows = added + (h * kept) @ weight.mT
        i, f, o, u, linear = rows.split([HIDDEN] * 4 + [2], -1)
        c = torch.sigmoid(f) * c * kept + torch.sigmoid(i) * torch.tanh(u)
        h = torch.cat([torch.sigmoid(o) * torch.tanh(c), linear], -1)
        wanted.append(h)
    out, last = at_once(*inputs)
    torch.testing.assert_close(out, torch.stack(wanted))
    torch.testing.assert_close(last, c)
    assert torch.autograd.gradcheck(at_once, inputs, fast_mode=True)


def test_second_derivatives_by_finite_differences() -> None:
    own, (h, c) = layer(), state()
    projected = drawn(3, BATCH, 4 * HIDDEN).requires_grad_()

    def run(projected: Tensor, h: Tensor) -> Tensor:
        return lstm_steps(projected, (h, c), own.weight_h.detach(), keep=broken()[:3])[0]

    assert torch.autograd.gradgradcheck(run, (projected, h.requires_grad_()), fast_mode=True)


@pytest.mark.parametrize("run", [stepwise, all_at_once])
def test_a_reset_is_a_fresh_start(run: type) -> None:
    own, x = layer(), drawn(STEPS, BATCH, INPUTS, seed=3)
    keep = torch.ones(STEPS, BATCH, dtype=torch.float64)
    keep[3] = 0
    zeros = torch.zeros(BATCH, HIDDEN, dtype=torch.float64)
    whole, *ends = run(own, x, keep, *state())
    fresh, *fresh_ends = run(own, x[3:], keep[:1].expand(STEPS - 3, -1), zeros, zeros)
    torch.testing.assert_close(whole[3:], fresh, rtol=0, atol=1e-15)
    for found, wanted in zip(ends, fresh_ends, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-15)
    unbroken, *_ = run(own, x, torch.ones_like(keep), *state())
    assert (whole[3:] - unbroken[3:]).abs().max() > 1e-3


@pytest.mark.parametrize("lost", [torch.inf, -torch.inf, torch.nan])
def test_a_reset_forgets_even_what_is_not_finite(lost: float) -> None:
    own, x = layer(), drawn(STEPS, BATCH, INPUTS, seed=3)
    keep = torch.ones(STEPS, BATCH, dtype=torch.float64)
    keep[0, 1] = 0
    good, bad = (tuple(part.clone().requires_grad_() for part in state()) for _ in range(2))
    with torch.no_grad():
        for part in bad:
            part[1] = lost
    results = [all_at_once(own, x, keep, *start) for start in (good, bad)]
    torch.testing.assert_close(*results, rtol=0, atol=0)
    slopes = [torch.autograd.grad(scalar(r), [*own.parameters(), x_h]) for r, (x_h, _) in
              zip(results, (good, bad), strict=True)]  # fmt: skip
    torch.testing.assert_close(*slopes, rtol=0, atol=0)


def test_a_step_that_is_reset_and_padding_passes_no_gradient() -> None:
    weight, (h, c) = layer().weight_h.detach(), state()
    projected = drawn(STEPS, BATCH, 4 * HIDDEN)
    keep, active = torch.ones(2, STEPS, BATCH, dtype=torch.float64)
    active = active.clone()
    keep[2, 1] = active[2, 1] = active[4, 0] = keep[5, 2] = 0

    def run(projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        return lstm_steps(projected, (h, c), weight, keep=keep, active=active > 0)

    given = [value.requires_grad_() for value in (projected, h, c)]
    out, _ = run(*given)
    assert (out[2, 1] == 0).all()
    assert torch.equal(out[4, 0], out[3, 0])
    of_h, of_c = torch.autograd.grad(out[2:, 1].sum(), (h, c))
    assert not of_h.any()
    assert not of_c.any()
    assert torch.autograd.gradcheck(run, given, fast_mode=True)


def test_no_gradient_passes_a_reset() -> None:
    own, (h, c) = layer(), state()
    h.requires_grad_()
    x = drawn(STEPS, BATCH, INPUTS).requires_grad_()
    keep = torch.ones(STEPS, BATCH, dtype=torch.float64)
    keep[3, 1] = 0
    out, *_ = all_at_once(own, x, keep, h, c)
    out[3:].sum().backward()
    assert x.grad is not None
    assert h.grad is not None
    assert (x.grad[:3, 1] == 0).all()
    assert (h.grad[1] == 0).all()
    assert (x.grad[:3, 0] != 0).all()


@pytest.mark.parametrize("lengths", [None, torch.tensor([7, 0, 3])])
def test_stacked_weights(lengths: Tensor | None) -> None:
    """Sequences under vmap, as replicas are trained: each slice is one layer, backward too."""
    layers = [layer(seed) for seed in range(3)]
    weights, _ = torch.func.stack_module_state(layers)
    x, start = drawn(3, BATCH, STEPS, INPUTS), state()

    def one(weight: dict[str, Tensor], seen: Tensor) -> tuple[Tensor, ...]:
        out, (h, c) = torch.func.functional_call(layers[0], weight, (seen, start, lengths))
        return out, h, c

    stacked = torch.vmap(one)(weights, x)
    sum(found.square().sum() for found in stacked).backward()
    for n, own in enumerate(layers):
        out, (h, c) = own(x[n], start, lengths)
        for found, wanted in zip(stacked, (out, h, c), strict=True):
            torch.testing.assert_close(found[n], wanted)
        (out.square().sum() + h.square().sum() + c.square().sum()).backward()
        for name, parameter in own.named_parameters():
            torch.testing.assert_close(weights[name].grad[n], parameter.grad)


def test_padding_keeps_the_state_and_passes_its_gradient() -> None:
    own, x, (h, c) = layer(), drawn(STEPS, BATCH, INPUTS), state()
    lengths = torch.tensor([STEPS, 0, 3])
    out, (last_h, last_c) = own(x, (h, c), lengths, batch_first=False)
    for row, length in enumerate(lengths.tolist()):
        alone = slice(row, row + 1)
        start = h[alone], c[alone]
        short, (end_h, end_c) = own(x[:length, alone], start, batch_first=False)
        torch.testing.assert_close(out[:length, alone], short)
        torch.testing.assert_close((last_h[alone], last_c[alone]), (end_h, end_c))
        held = short[-1:] if length else torch.zeros(1, 1, HIDDEN, dtype=torch.float64)
        torch.testing.assert_close(out[length:, alone], held.expand(STEPS - length, -1, -1))

    def padded(*given: Tensor) -> tuple[Tensor, ...]:
        projected, start_h, start_c, weight = given
        active = torch.arange(STEPS)[:, None] < lengths
        return lstm_steps(projected, (start_h, start_c), weight, active=active)

    given = drawn(STEPS, BATCH, 4 * HIDDEN), h, c, own.weight_h.detach()
    assert torch.autograd.gradcheck(
        padded, [tensor.requires_grad_() for tensor in given], fast_mode=True
    )


def test_weights_are_drawn_within_the_bound() -> None:
    own = LSTM(100, 25)
    own.reset_parameters(torch.Generator().manual_seed(1))
    for weight in (own.weight_x, own.weight_h):
        assert weight.abs().max() <= 0.2
        assert abs(float(weight.detach().std()) - 0.2 / 3**0.5) < 0.01
    assert (own.bias == 0).all()
    again = LSTM(100, 25)
    again.reset_parameters(torch.Generator().manual_seed(1))
    assert torch.equal(own.weight_h, again.weight_h)


@pytest.mark.parametrize(("sizes", "name"), [((0, 3), "in_features"), ((3, 0), "hidden_features")])
def test_sizes_below_one(sizes: tuple[int, int], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        LSTM(*sizes)


def test_it_starts_as_asked() -> None:
    cell = build_cell("lstm", 3, 2, forget_init=1.5)
    cell.reset_parameters(torch.Generator().manual_seed(0))
    assert cell.bias.tolist() == [0.0, 0.0, 1.5, 1.5, 0.0, 0.0, 0.0, 0.0]
    cell = build_cell("lstm", 3, 2, recurrent_init=0.25)
    assert (cell.weight_h == 0.25).all()
    assert cell.weight_x.std() > 0
    with pytest.raises(ValueError, match=r"^recurrent_init must be one of"):
        build_cell("lstm", 3, 2, recurrent_init="no")
    with pytest.raises(ValueError, match=r"^forget_init must be a finite number, got nan$"):
        build_cell("lstm", 3, 2, forget_init=float("nan"))
