"""The NALU configured by an LSTM against its equations, written out in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from nalu_ray.layers import ConfiguredNALU, build_cell
from nalu_ray.tasks import program
from nalu_ray.tasks.program.network import ProgramSetting
from nalu_ray.training import members
from nalu_ray.training.supervised import SupervisedRun

BATCH, STEPS, SYMBOLS, VALUES, REGISTERS, HIDDEN = 3, 5, 4, 2, 3, 6
WIDTH = VALUES + REGISTERS
LARGE = 20.0
VIEWS = ["none", "raw", "log", "sign"]
Array = NDArray[np.float64]


def make(view: str = "none", seed: int = 0, **options: Any) -> ConfiguredNALU:
    cell = ConfiguredNALU(
        SYMBOLS + VALUES, HIDDEN, values=VALUES, registers=REGISTERS, view=view, **options
    ).double()
    cell.reset_parameters(torch.Generator().manual_seed(seed))
    return cell


def inputs(seed: int = 0) -> Tensor:
    """Symbols one-hot, then numbers of both signs."""
    rng = np.random.default_rng(seed)
    symbols = np.eye(SYMBOLS)[rng.integers(SYMBOLS, size=(BATCH, STEPS))]
    return torch.from_numpy(np.concatenate([symbols, rng.normal(size=(BATCH, STEPS, VALUES))], -1))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def seen(view: str, z: Array, sharpness: float) -> list[float]:
    if view == "none":
        return []
    if view == "raw":
        return list(z)
    if view == "log":
        return [np.sign(each) * np.log1p(abs(each)) for each in z]
    differences = [z[i] - z[j] for i in range(len(z)) for j in range(i + 1, len(z))]
    return [np.tanh(sharpness * each) for each in (*z, *differences)]


def nalu(z: Array, w_hat: Array, m_hat: Array, gate: Array, epsilon: float) -> Array:
    w = np.tanh(w_hat) * sigmoid(m_hat)
    g = sigmoid(gate @ z if gate.shape[1] > 1 else gate[:, 0])
    return g * (w @ z) + (1 - g) * np.exp(w @ np.log(np.abs(z) + epsilon))


def written_out(cell: ConfiguredNALU, x: Array, sharpness: float) -> tuple[Array, Array]:
    """Outputs of one sequence, and the LSTM's."""
    values = {name: parameter.detach().numpy() for name, parameter in cell.named_parameters()}
    h, c, y = np.zeros(HIDDEN), np.zeros(HIDDEN), np.zeros(REGISTERS)
    outputs, states = [], []
    for x_t in x:
        z = np.concatenate([x_t[SYMBOLS:], y])
        read = np.array([*x_t[:SYMBOLS], *seen(cell.view, z, sharpness)])
        gates = values["lstm.weight_x"] @ read + values["lstm.weight_h"] @ h + values["lstm.bias"]
        i, f, o, u = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(u)
        h = sigmoid(o) * np.tanh(c)
        maps = (values["weight"] @ h).reshape(REGISTERS, -1) + values["bias"]
        y = nalu(z, *np.split(maps, [WIDTH, 2 * WIDTH], axis=1), epsilon=1e-7)
        outputs.append(y)
        states.append(h)
    return np.stack(outputs), np.stack(states)


@pytest.mark.parametrize(
    ("view", "gate"), [*((view, "input") for view in VIEWS), ("sign", "state")]
)
def test_equal_to_the_equations(view: str, gate: str) -> None:
    cell, x = make(view, sharpness=2.0, gate=gate), inputs()
    outputs, (h, _, y) = cell(x)
    for row in range(BATCH):
        wanted, states = written_out(cell, x[row].numpy(), sharpness=2.0)
        torch.testing.assert_close(outputs[row], torch.from_numpy(wanted), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(h[row], torch.from_numpy(states[-1]), rtol=1e-10, atol=1e-12)
    assert torch.equal(y, outputs[:, -1])


def test_the_penalty_is_of_the_weights_that_were_made() -> None:
    cell, x = make(), inputs()
    assert members.offered(cell) == {"nac": {"sparsity": True}}
    seen: list[Tensor] = []
    cell.nac.register_forward_pre_hook(lambda module, given: seen.append(given[0].detach()))
    cell(x)
    made = torch.cat([each.flatten(0, -2) for each in seen])
    distances = []
    for row in range(BATCH):
        for h in written_out(cell, x[row].numpy(), sharpness=1.0)[1]:
            maps = cell.weight.detach().numpy() @ h
            maps = maps.reshape(REGISTERS, -1) + cell.bias.detach().numpy()
            w_hat, m_hat, _ = np.split(maps, [WIDTH, 2 * WIDTH], axis=1)
            weight = np.abs(np.tanh(w_hat) * sigmoid(m_hat))
            distances.append(np.minimum(weight, 1 - weight).mean())
    found = cell.nac.penalty(made)["sparsity"].item()
    assert found == pytest.approx(np.mean(distances), rel=1e-10)


def test_a_seed_of_a_block_trains_with_the_penalty_as_it_does_alone() -> None:
    def trained(penalty: str | None, seeds: list[int]) -> Tensor:
        setting = ProgramSetting(
            layer="nalu_lstm", steps=3, evaluations=1, batch=4, hidden=5, penalty=penalty,
            test_size=4, nesting=1,
        )  # fmt: skip
        run = SupervisedRun(program.TASK, setting, seeds, torch.device("cpu"))
        while (progress := run.advance()).step < progress.steps:
            pass
        return run.replicas.flat.detach()

    alone, block = trained("sparsity:1", [1]), trained("sparsity:1", [0, 1])
    assert torch.equal(alone[0], block[1])
    assert not torch.equal(alone, trained(None, [1]))


def test_noise_is_in_training_alone_and_drawn_anew_at_each_step() -> None:
    cell, plain, x = make(noise=0.3), make(), inputs()
    plain.load_state_dict({k: v for k, v in cell.state_dict().items() if "noise" not in k})
    assert torch.equal(cell.eval()(x)[0], plain(x)[0])
    cell.train()
    with torch.no_grad():  # what is made is then the noise itself
        cell.weight.zero_()
        cell.bias.zero_()
    made: list[Tensor] = []
    cell.nac.register_forward_pre_hook(lambda module, given: made.append(given[0].detach()))
    for _ in range(200):
        cell(x)
    noise = torch.stack(made)  # (200 x STEPS, BATCH, REGISTERS, 2 WIDTH), uniform
    assert noise.abs().max() <= 0.3 * math.sqrt(3)
    assert float(noise.std()) == pytest.approx(0.3, rel=0.01)
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.003)
    assert len(noise.unique()) > 0.99 * noise.numel()


@pytest.mark.parametrize("gate", ["input", "state"])
def test_the_gate_has_noise_too(gate: str) -> None:
    cell = accumulator([[1.0, 1.0]], gate=0.0, noise=0.3, gate_of=gate)
    x = torch.cat([inputs()[..., :SYMBOLS], torch.ones(BATCH, STEPS, 1).double()], -1)
    first, second = cell(x)[0], cell(x)[0]
    # W is saturated, so what differs is the gate's
    assert (first - second).abs().min() > 0


def test_a_seed_of_a_block_has_the_noise_that_it_has_alone() -> None:
    def trained(noise: float, seeds: list[int]) -> Tensor:
        setting = ProgramSetting(
            layer="nalu_lstm", steps=3, evaluations=1, batch=4, hidden=5, test_size=4, nesting=1,
            options={"noise": noise},
        )  # fmt: skip
        run = SupervisedRun(program.TASK, setting, seeds, torch.device("cpu"))
        while (progress := run.advance()).step < progress.steps:
            pass
        return run.replicas.flat.detach()

    alone, block = trained(0.3, [1]), trained(0.3, [0, 1])
    assert torch.equal(alone[0], block[1])
    assert not torch.equal(alone, trained(0.0, [1]))


def slope_of_h(view: str) -> tuple[Tensor, Tensor]:
    """Gradient of the LSTM's last h by the numbers, and by the registers before the first step."""
    cell, x = make(view), inputs().requires_grad_()
    *control, _ = cell.initial(BATCH, x)
    y = torch.linspace(-1, 1, BATCH * REGISTERS).double().reshape(BATCH, -1).requires_grad_()
    _, (h, _, _) = cell(x, (*control, y))
    of_x, of_y = torch.autograd.grad(h.sum(), (x, y), allow_unused=True)
    return of_x[..., SYMBOLS:], torch.zeros_like(y) if of_y is None else of_y


@pytest.mark.parametrize("view", VIEWS)
def test_what_the_lstm_sees(view: str) -> None:
    of_numbers, of_registers = slope_of_h(view)
    assert bool((of_numbers != 0).all()) == (view != "none")
    assert bool((of_registers != 0).all()) == (view != "none")


def accumulator(
    rows: list[list[float]], gate: float, *, noise: float = 0.0, gate_of: str = "input"
) -> ConfiguredNALU:
    """One whose weights are W = rows at every step, whatever the LSTM says."""
    cell = ConfiguredNALU(
        SYMBOLS + 1, HIDDEN, registers=len(rows), noise=noise, gate=gate_of
    ).double()
    with torch.no_grad():
        cell.weight.zero_()
        w_hat, m_hat, gates = cell.bias.split(cell.widths, 1)
        w_hat.copy_(LARGE * torch.tensor(rows))
        m_hat.fill_(2 * LARGE)
        gates.fill_(gate)
    return cell


def test_registers_accumulate_exactly() -> None:
    cell = accumulator([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]], gate=1e4)
    x = torch.cat([inputs()[..., :SYMBOLS], torch.ones(BATCH, STEPS, 1).double()], -1)
    x[..., SYMBOLS] = torch.tensor([3.0, 8.0, 1.0, 5.0, 9000.0])
    outputs, _ = cell(x)
    totals = torch.tensor([3.0, 11.0, 12.0, 17.0, 9017.0]).double()
    assert torch.equal(outputs[0, :, 0], totals)
    # the other register is what the first was
    assert torch.equal(outputs[0, 1:, 1], totals[:-1])


def test_symbols_choose_the_operation() -> None:
    """After the symbol 0 the LSTM's first unit is high, after 1 low; W turns with it: + or -."""
    cell = accumulator([[0.0, 1.0]], gate=1e4)
    with torch.no_grad():
        for parameter in cell.lstm.parameters():
            parameter.zero_()
        for gates in cell.lstm.bias.view(4, HIDDEN)[[0, 2]]:  # input and output are open
            gates.fill_(50)
        cell.lstm.bias.view(4, HIDDEN)[1] = -50  # nothing is kept
        update = cell.lstm.weight_x.view(4, HIDDEN, SYMBOLS)[3]
        update[0, 0], update[0, 1] = 50, -50
        cell.weight[0, 0] = 2 * LARGE
    x = torch.zeros(1, 3, SYMBOLS + 1).double()
    x[0, :, SYMBOLS] = torch.tensor([1000.0, 300.0, 50.0])
    for step, symbol in enumerate([0, 1, 0]):
        x[0, step, symbol] = 1
    outputs, _ = cell(x)
    torch.testing.assert_close(outputs[0, :, 0], torch.tensor([1000.0, 700.0, 750.0]).double())


def test_starts_near_its_biases_and_as_asked() -> None:
    cell = make(init=0.5, gate_init=0.25, forget_init=1.5)
    assert (cell.bias[:, : 2 * WIDTH] == 0.5).all()
    assert (cell.bias[:, 2 * WIDTH :] == 0.25).all()
    assert cell.lstm.bias.view(4, HIDDEN)[1].tolist() == [1.5] * HIDDEN
    cell = make(init=0.5, m_init=2.0)
    assert (cell.bias[:, :WIDTH] == 0.5).all()
    assert (cell.bias[:, WIDTH : 2 * WIDTH] == 2.0).all()
    spread = ConfiguredNALU(SYMBOLS + 1, 64, registers=20)
    spread.reset_parameters(torch.Generator().manual_seed(0))
    for bias in spread.bias.chunk(3, 1):
        assert bias.abs().max() <= 0.5
        assert abs(float(bias.detach().std()) - 12**-0.5) < 0.02
    x = torch.zeros(1, 1, SYMBOLS + 1)
    _, (h, _, _) = spread(x)
    assert (spread.weight @ h[0]).abs().max() < 0.2


def test_sharpness_is_of_signs() -> None:
    dull, sharp = make("sign", sharpness=1e-9), make("sign", sharpness=1e3)
    plain, x = make("none"), inputs()
    with torch.no_grad():
        for cell in dull, sharp:
            cell.lstm.weight_x[:, :SYMBOLS] = plain.lstm.weight_x
            cell.lstm.weight_h.copy_(plain.lstm.weight_h)
    _, (unaware, _, _) = plain(x)
    torch.testing.assert_close(dull(x)[1][0], unaware)
    assert (sharp(x)[1][0] - unaware).abs().max() > 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "all"}, r"^view must be one of none, raw, log, sign, got 'all'$"),
        ({"gate": "no"}, r"^gate must be one of input, state, got 'no'$"),
        ({"values": 0}, r"^values must be an integer of at least 1, got 0$"),
        ({"values": 6}, r"^in_features must be an integer of at least 7, got 6$"),
        ({"registers": 0}, r"^registers must be an integer of at least 1, got 0$"),
        ({"sharpness": 0.0}, r"^sharpness must be a finite number above 0, got 0\.0$"),
        ({"noise": -0.1}, r"^noise must be a finite number of at least 0, got -0\.1$"),
        ({"epsilon": 0.0}, r"^epsilon must be a finite number above 0, got 0\.0$"),
        ({"init": "no"}, r"^init must be one of"),
        ({"m_init": "no"}, r"^m_init must be one of"),
        ({"gate_init": "no"}, r"^gate_init must be one of"),
        ({"forget_init": math.inf}, r"^forget_init must be a finite number, got inf$"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_cell("nalu_lstm", 6, 4, **options)
