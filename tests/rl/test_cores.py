"""Every memory: a row at once is its steps one by one, and a reset is a fresh start."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nalu_ray import layers
from nalu_ray.layers import LSTM, NAC, Linear
from nalu_ray.rl.agent.cores import (
    BesideLSTMCore,
    CellCore,
    Core,
    FeedbackNACCore,
    InstructionNACCore,
    NACCore,
    Wiring,
    check_name,
)
from nalu_ray.rl.agent.network import NetworkConfig, build_core
from nalu_ray.rl.setting import GridworldSetting
from tests import distinct

STEPS, BATCH, VISION, HIDDEN = 9, 4, 6, 5
SIZES = {"vision": VISION, "hidden": HIDDEN}
# name -> settings, size of the state
CORES: dict[str, tuple[dict[str, Any], int]] = {
    "lstm": ({"variant": "lstm"}, 10),
    "lstm scaled": ({"variant": "lstm", "instruction_scale": 0.1}, 10),
    "instruction": ({"variant": "lstm_nac", "wiring": "instruction", "nac_units": 3}, 10),
    "feedback": ({"variant": "lstm_nac", "wiring": "feedback", "nac_units": 2}, 10),
    "accumulator": ({"variant": "lstm_nac", "wiring": "accumulator", "nac_units": 2}, 12),
    "nac_core": ({"variant": "nac_core", "bank": 7}, 2),
    "cell": ({"variant": "gru"}, 5),
    "unit": ({"variant": "nalu"}, 5),
    "cell with spare state": ({"variant": "mul_mc_lstm"}, 6),
    # its cell starts at 1, and the core's state at 0 all the same
    "product of inputs": ({"variant": "nmu", "instruction_scale": 0.1}, 5),
    "unit, instruction": ({"variant": "lstm_nalu", "wiring": "instruction", "nac_units": 3}, 10),
    "unit, feedback": ({"variant": "lstm_nsr", "wiring": "feedback", "nac_units": 2}, 10),
    "unit, accumulator": ({"variant": "lstm_nalu", "wiring": "accumulator", "nac_units": 2}, 12),
    "two units": ({"variant": "lstm_nac_nalu", "wiring": "feedback", "nac_units": 2}, 10),
    "product of masses": ({"variant": "mul_mcfc"}, 5),
    "product beside the LSTM": ({"variant": "lstm_nmu", "nac_units": 2}, 12),
    "cell beside the LSTM": ({"variant": "lstm_lstm", "nac_units": 2}, 14),
    "control beside the LSTM": ({"variant": "lstm_linear", "nac_units": 2}, 12),
    "control of nac_core": ({"variant": "linear_core", "bank": 3, "nac_units": 2}, 2),
    "nac_core, two": ({"variant": "nac_core", "bank": 3, "nac_units": 2}, 2),
}


@pytest.fixture(params=CORES)
def core(request: pytest.FixtureRequest) -> Core:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_core(NetworkConfig(**CORES[request.param][0], **SIZES)).double()


def row(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns vision and T."""
    drawn = torch.Generator().manual_seed(seed)
    vision = torch.rand(STEPS, BATCH, VISION, generator=drawn, dtype=torch.float64)
    return vision, torch.randint(5, 13, (STEPS, BATCH), generator=drawn).double()


def state(core: Core) -> Tensor:
    drawn = torch.Generator().manual_seed(7)
    return torch.randn(BATCH, core.state_size, generator=drawn, dtype=torch.float64)


def ones() -> Tensor:
    return torch.ones(STEPS, BATCH, dtype=torch.float64)


def gradients(core: Core, out: Tensor, last: Tensor) -> list[Tensor]:
    core.zero_grad()
    (out.square().sum() + last.square().sum()).backward()
    found = []
    for name, value in core.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().max() > 0, name
        found.append(value.grad.clone())
    return found


@pytest.mark.parametrize("name", CORES)
def test_shapes(name: str) -> None:
    settings, size = CORES[name]
    core = build_core(NetworkConfig(**settings, **SIZES))
    assert (core.state_size, core.features) == (size, HIDDEN)
    vision, told = (value.float() for value in row())
    out, last = core(vision, told, torch.ones(STEPS, BATCH), torch.zeros(BATCH, size))
    assert out.shape == (STEPS, BATCH, HIDDEN)
    assert last.shape == (BATCH, size)


@pytest.mark.parametrize(
    ("unit", "wiring"),
    [
        (unit, wiring)
        for unit in distinct.cells()
        for wiring in (None, "instruction", "feedback", "accumulator")
        # a cell with a state of its own is an accumulator beside the LSTM
        if unit in layers.names() or wiring in (None, "accumulator")
    ],
)
def test_every_unit_is_a_core(unit: str, wiring: Wiring | None) -> None:
    """Alone (None) and beside the LSTM: a row is its steps, and a loss reaches the unit."""
    own = {} if wiring is None else {"wiring": wiring, "nac_units": 2}
    variant = unit if wiring is None else f"lstm_{unit}"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        # in training some units draw other noise at each call
        core = build_core(NetworkConfig(variant=variant, **own, **SIZES)).double().eval()
    vision, told = row()
    start = 0.5 + 0.1 * state(core).abs()  # far from 0, by which some units divide
    if unit == "dnc":  # whose shares of memory sum to 1 at most
        start = 0.1 * start
    out, last = core(vision[:2], 0.1 * told[:2], ones()[:2], start)
    (out.square().sum() + last.square().sum()).backward()
    reached = [value.grad for value in core.parameters() if value.grad is not None]
    assert all(slope.isfinite().all() for slope in reached)
    # an imaginary weight gets none from positive inputs
    assert 2 * sum(bool(slope.any()) for slope in reached) >= len([*core.parameters()])
    single, now = [], start
    for t in range(2):
        now_out, now = core(vision[t : t + 1], 0.1 * told[t : t + 1], ones()[:1], now)
        single.append(now_out)
    torch.testing.assert_close(torch.cat(single), out)
    torch.testing.assert_close(now, last)


def test_a_row_is_its_steps(core: Core) -> None:
    vision, told = row()
    keep = ones()
    keep[0, 1] = keep[4, 0] = keep[5, 0] = keep[8, 2] = 0
    out, last = core(vision, told, keep, state(core))
    at_once = gradients(core, out, last)
    single, now = [], state(core)
    for t in range(STEPS):
        now_out, now = core(vision[t : t + 1], told[t : t + 1], keep[t : t + 1], now)
        single.append(now_out)
    torch.testing.assert_close(torch.cat(single), out)
    torch.testing.assert_close(now, last)
    for found, wanted in zip(gradients(core, torch.cat(single), now), at_once, strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_reset_is_a_fresh_start(core: Core) -> None:
    vision, told = row()
    keep = ones()
    keep[3] = 0
    out, last = core(vision, told, keep, state(core))
    fresh, fresh_last = core(vision[3:], told[3:], ones()[3:], torch.zeros_like(state(core)))
    torch.testing.assert_close(out[3:], fresh)
    torch.testing.assert_close(last, fresh_last)
    unbroken, _ = core(vision, told, ones(), state(core))
    assert (unbroken[3:] - out[3:]).abs().max() > 1e-6


def test_a_reset_product_starts_at_one() -> None:
    core = build_core(NetworkConfig(variant="nmu", **SIZES)).double()
    assert isinstance(core, CellCore)
    with torch.no_grad():
        core.cell.unit.W.copy_(torch.eye(HIDDEN, VISION + 1 + HIDDEN).roll(VISION + 1, 1))
        core.cell.unit.W[0, 0] = 1  # the first unit multiplies the first number of the vision
    vision, told = row()
    keep = ones()
    keep[4] = 0
    out, last = core(vision, told, keep, torch.zeros(BATCH, HIDDEN).double())
    wanted = torch.cat([vision[:4, :, 0].cumprod(0), vision[4:, :, 0].cumprod(0)])
    torch.testing.assert_close(out[..., 0], wanted)
    assert (out[..., 1:] == 1).all()
    torch.testing.assert_close(last, out[-1] - 1)


def test_environments_do_not_mix(core: Core) -> None:
    vision, told = row()
    other, keep = vision.clone(), ones()
    other[:, 1] += 1
    out, last = core(vision, told, keep, state(core))
    changed, changed_last = core(other, told, keep, state(core))
    rest = [0, 2, 3]
    assert torch.equal(out[:, rest], changed[:, rest])
    assert torch.equal(last[rest], changed_last[rest])
    assert (out[:, 1] != changed[:, 1]).any()


def test_instruction_is_an_lstm_fed_with_t_and_its_nac() -> None:
    core = InstructionNACCore(VISION, HIDDEN, 0.5, units=3, init="uniform").double()
    vision, told = row()
    start = state(core)
    t = 0.5 * told[..., None]
    nac = NAC(1, 3).double()
    nac.load_state_dict(core.nac.state_dict())
    fed = torch.cat([vision, t @ nac.weight.mT, t], -1)
    lstm = LSTM(VISION + 4, HIDDEN).double()
    lstm.load_state_dict(core.lstm.state_dict())
    wanted, (h, c) = lstm.with_resets(fed, ones(), start.split(HIDDEN, -1))
    out, last = core(vision, told, ones(), start)
    torch.testing.assert_close(out, wanted)
    torch.testing.assert_close(last, torch.cat([h, c], -1))


@pytest.mark.parametrize("accumulate", [False, True])
def test_feedback_reads_t_the_output_before_and_its_own_total(accumulate: bool) -> None:
    core = FeedbackNACCore(
        VISION, HIDDEN, 0.5, units=2, init="uniform", accumulate=accumulate
    ).double()
    vision, told = row()
    h, total, c = state(core).split([HIDDEN, 2 * accumulate, HIDDEN], -1)
    weight = core.nac.weight
    assert weight.shape == (2, 1 + HIDDEN + 2 * accumulate)
    wanted = []
    for seen, t in zip(vision, 0.5 * told[..., None], strict=True):
        counted = t * weight[:, 0] + h @ weight[:, 1 : 1 + HIDDEN].mT
        if accumulate:
            counted = total = counted + total @ weight[:, 1 + HIDDEN :].mT
        _, (h, c) = core.lstm.step(torch.cat([seen, counted, t], -1), (h, c))
        wanted.append(h)
    naive = torch.stack(wanted), torch.cat([h, total, c], -1)
    fused = core(vision, told, ones(), state(core))
    for found, expected in zip(fused, naive, strict=True):
        torch.testing.assert_close(found, expected)
    expected_gradients = gradients(core, *naive)
    for found, expected in zip(gradients(core, *fused), expected_gradients, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("wiring", ["instruction", "feedback", "accumulator"])
def test_a_nac_by_name_beside_the_lstm_is_the_papers_nac(wiring: Wiring) -> None:
    by_name = BesideLSTMCore(
        VISION, HIDDEN, 0.5, "nac", units=2, wiring=wiring, init="uniform"
    ).double()
    folded: Core = (
        InstructionNACCore(VISION, HIDDEN, 0.5, units=2, init="uniform")
        if wiring == "instruction"
        else FeedbackNACCore(
            VISION, HIDDEN, 0.5, units=2, init="uniform", accumulate=wiring == "accumulator"
        )
    ).double()
    values = list(by_name.state_dict().values())
    folded.load_state_dict(dict(zip(folded.state_dict(), values, strict=True)))
    vision, told = row()
    keep = ones()
    keep[4, 0] = 0
    h, c, total = state(by_name).tensor_split([HIDDEN, 2 * HIDDEN], -1)
    out, last = by_name(vision, told, keep, torch.cat([h, c, total], -1))
    # the folded core keeps the total beside h
    wanted, wanted_last = folded(vision, told, keep, torch.cat([h, total, c], -1))
    torch.testing.assert_close(out, wanted)
    h, total, c = wanted_last.split([HIDDEN, total.shape[-1], HIDDEN], -1)
    torch.testing.assert_close(last, torch.cat([h, c, total], -1))


def test_the_control_is_the_nacs_recursion_with_free_weights() -> None:
    nac, free = (
        BesideLSTMCore(VISION, HIDDEN, 0.5, unit, units=2, wiring="accumulator").double()
        for unit in ("nac", "linear")
    )
    (unit,), (control,) = nac.arithmetic_units, free.arithmetic_units
    assert isinstance(unit, NAC)
    assert isinstance(control, Linear)
    assert control.bias is None
    free.lstm.load_state_dict(nac.lstm.state_dict())
    with torch.no_grad():
        control.weight.copy_(unit.weight)
    vision, told = row()
    keep, start = ones(), state(nac)
    keep[4, 0] = 0
    for ours, wanted in zip(
        free(vision, told, keep, start), nac(vision, told, keep, start), strict=True
    ):
        torch.testing.assert_close(ours, wanted)


def test_the_control_has_a_rate_of_its_own_and_no_start_of_a_nac() -> None:
    setting = GridworldSetting(variant="lstm_linear", nac_lr_factor=3, nac_init=1.0, sparsity=2.0)
    assert (setting.nac_lr_factor, setting.nac_init, setting.sparsity) == (3, "uniform", 0)
    assert setting.units() == ()
    with pytest.raises(ValueError, match="use wiring=accumulator"):
        NetworkConfig(variant="lstm_linear", wiring="feedback")


def test_units_are_those_with_a_learning_rate_of_their_own() -> None:
    def units(**settings: Any) -> list[str]:
        core = build_core(NetworkConfig(**settings, **SIZES))
        return [type(part).__name__ for part in core.arithmetic_units]

    assert units(variant="lstm") == units(variant="gru") == units(variant="lstm_gru") == []
    assert units(variant="lstm_nac") == units(variant="nac") == ["NAC"]
    assert units(variant="nac_core") == ["NAC", "NAC"]
    assert units(variant="linear_core") == ["FreeNAC", "FreeNAC"]
    assert units(variant="lstm_nsr") == units(variant="nsr") == ["NSR"]
    assert units(variant="lstm_nalu", wiring="feedback") == ["Stack"]


def test_the_initialisation_reaches_a_unit_that_has_one() -> None:
    for variant in ("nalu", "lstm_nalu"):
        core = build_core(NetworkConfig(variant=variant, nac_init=0.25, **SIZES))
        assert any((value == 0.25).all() for value in core.parameters())
    build_core(NetworkConfig(variant="lstm_nsr", nac_init=0.25, **SIZES))


def test_an_unknown_core_is_named_with_what_there_is() -> None:
    with pytest.raises(
        ValueError, match=r"^unknown core. Did you mean 'lstm_nalu'\? Allowed: nac"
    ) as e:
        check_name("lstm_nalo")
    assert ", gru, " in str(e.value)
    with pytest.raises(ValueError, match=r"lstm_gru: gru has a state .* use wiring=accumulator"):
        NetworkConfig(variant="lstm_gru", wiring="feedback")


def saturated() -> NACCore:
    core = NACCore(VISION, HIDDEN, units=1, bank=3, init="uniform", counter_init=20.0)
    with torch.no_grad():
        core.remaining.W_hat.copy_(torch.tensor([[20.0, -20.0]]))
        core.remaining.M_hat.fill_(20.0)
    return core


def test_saturated_counters_count_exactly() -> None:
    """T = 100 in float32, with a second episode that starts inside the row."""
    core, left = saturated(), []
    core.remaining.register_forward_hook(lambda module, inputs, out: left.append(out[..., 0]))
    keep = torch.ones(100, 2)
    keep[60, 1] = 0
    told = torch.full((100, 2), 100.0)
    _, last = core(torch.zeros(100, 2, VISION), told, keep, torch.zeros(2, 2))
    elapsed = torch.arange(1.0, 101.0)
    assert torch.equal(left[0][:, 0], 100 - elapsed)
    assert torch.equal(left[0][:60, 1], 100 - elapsed[:60])
    assert torch.equal(left[0][60:, 1], 100 - elapsed[:40])
    assert torch.equal(last, torch.tensor([[100.0, 100.0], [40.0, 100.0]]))


def test_only_the_remaining_time_reaches_the_policy() -> None:
    """T and the time elapsed, both 1000 more, change nothing."""
    core = saturated()
    vision = torch.rand(5, 1, VISION, generator=torch.Generator().manual_seed(0))
    told, keep = torch.full((5, 1), 12.0), torch.ones(5, 1)
    near, _ = core(vision, told, keep, torch.tensor([[2.0, 12.0]]))
    far, _ = core(vision, told + 1000, keep, torch.tensor([[1002.0, 1012.0]]))
    assert torch.equal(near, far)
    assert (core(vision, told, keep, torch.zeros(1, 2))[0] != near).any()


def test_an_instruction_shown_once_is_held_until_the_episode_ends() -> None:
    """T = 12, then 5 in an episode that starts at the sixth step."""
    core = saturated()
    vision = torch.rand(9, 1, VISION, generator=torch.Generator().manual_seed(0))
    always = torch.tensor([12.0] * 5 + [5.0] * 4)[:, None]
    once, keep = torch.zeros(9, 1), torch.ones(9, 1)
    once[0], once[5] = 12, 5
    keep[[0, 5]] = 0
    held, last = core(vision, once, keep, torch.zeros(1, 2))
    shown, last_shown = core(vision, always, keep, torch.zeros(1, 2))
    assert torch.equal(held, shown)
    assert torch.equal(last, last_shown)
    assert torch.equal(last, torch.tensor([[4.0, 5.0]]))


def test_the_counter_starts_near_an_exact_count() -> None:
    core = build_core(NetworkConfig(variant="nac_core"))
    assert isinstance(core, NACCore)
    assert (core.elapsed.weight > 0.97).all()
    biases = core.bias[0]
    assert (biases.min(), biases.max()) == (-10, 10)


def test_the_control_of_the_counters_is_them_without_bounds() -> None:
    """At the start both compute the same; the control's weights may leave (-1, 1)."""
    made = []
    for variant in ("nac_core", "linear_core"):
        torch.manual_seed(0)
        made.append(build_core(NetworkConfig(variant=variant, nac_units=2, bank=3, **SIZES)))
    nac, control = made
    assert isinstance(nac, NACCore)
    assert isinstance(control, NACCore)
    control.bias.data, control.scale.data = nac.bias.data, nac.scale.data
    control.join.load_state_dict(nac.join.state_dict())
    assert torch.equal(control.remaining.weight, nac.remaining.weight)
    inputs = row()
    vision, told = (value.float() for value in inputs)
    keep, start = ones().float(), torch.zeros(vision.shape[1], 2)
    for ours, theirs in zip(
        nac(vision, told, keep, start), control(vision, told, keep, start), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert {name for name, _ in control.named_parameters()} == {
        "elapsed.weight", "remaining.weight", "scale", "bias", "join.weight", "join.bias"
    }  # fmt: skip


@pytest.mark.parametrize("lost", [torch.inf, -torch.inf, torch.nan])
def test_a_reset_forgets_even_what_is_not_finite(core: Core, lost: float) -> None:
    keep = ones()
    keep[0, 1] = 0
    results = []
    for value in (0.0, lost):
        start = state(core)
        start[1] = value
        out, last = core(*row(), keep, start)
        results.append((out, last, *gradients(core, out, last)))
    torch.testing.assert_close(*results, rtol=0, atol=0)
