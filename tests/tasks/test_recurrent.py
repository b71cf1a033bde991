"""The recurrent task: what is drawn, what is asked for, and long sequences piece by piece."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from nalu_ray.layers import MulMCFC
from nalu_ray.results.store.store import COMPLETED
from nalu_ray.seeding import Streams, entropy
from nalu_ray.sweep.presets import expand, sweep_of
from nalu_ray.task import Batch
from nalu_ray.tasks._operands import sections
from nalu_ray.tasks.recurrent import TASK, RecurrentTask
from nalu_ray.tasks.recurrent.data import pieces
from nalu_ray.tasks.recurrent.network import RecurrentNetwork, RecurrentOperation, RecurrentSetting
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedRun
from tests.runs import finish

SEEDS = [0, 5]
REFERENCE = {
    "a": lambda a, b: a,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "square": lambda a, b: a**2,
    "sqrt": lambda a, b: np.sqrt(a),
}


def setting(**values: object) -> RecurrentSetting:
    return RecurrentSetting.model_validate(
        {"layer": "nac", "batch": 4, "test_size": 3, "test_length": 250, **values}
    )


def streams(split: str) -> Streams:
    return Streams(TASK.name, SEEDS, split)


def long_x(chosen: RecurrentSetting) -> Tensor:
    return torch.cat(list(pieces(chosen, streams("extrapolation"))), dim=2)


def by_hand(chosen: RecurrentSetting, x: Tensor) -> np.ndarray:
    """One sequence after the other, one step after the other."""
    where = sections("recurrent", tuple(SEEDS), chosen.inputs, chosen.section, chosen.overlap)
    y = np.empty((*x.shape[:2], 1))
    for seed in range(len(x)):
        for n, sequence in enumerate(x[seed].double().numpy()):
            a = sum(step[i] for step in sequence for i in where[0][seed].tolist())
            b = sum(step[i] for step in sequence for i in where[1][seed].tolist())
            y[seed, n, 0] = REFERENCE[chosen.op](a, b)
    return y


@pytest.mark.parametrize("op", get_args(RecurrentOperation))
def test_targets(op: str) -> None:
    chosen = setting(op=op)
    for split, count in ("train", 4), ("interpolation", 3):
        batch = TASK.sample(chosen, split, streams(split))
        assert batch.inputs[0].shape == (2, count, 10, 10)
        np.testing.assert_allclose(batch.targets, by_hand(chosen, batch.inputs[0]), rtol=1e-6)
    far = TASK.sample(chosen, "extrapolation", streams("extrapolation"))
    x = long_x(chosen)
    assert x.shape == (2, 3, 250, 10)
    assert far.inputs == ()
    np.testing.assert_allclose(far.targets, by_hand(chosen, x), rtol=1e-6)


def test_training_draws_on_and_evaluation_sets_stay() -> None:
    chosen, drawn = setting(), streams("train")
    first, second = (TASK.sample(chosen, "train", drawn).inputs[0] for _ in range(2))
    assert not torch.equal(first, second)
    assert 0 <= float(first.min()) < 0.02
    assert 0.98 < float(first.max()) < 1
    assert torch.equal(long_x(chosen), long_x(chosen))


@pytest.mark.parametrize("layer", ["lstm", "gru", "rnn_tanh", "nac", "nalu"])
def test_a_long_sequence_read_in_pieces_is_read_whole(layer: str) -> None:
    chosen = setting(layer=layer, hidden=3)
    network = Replicas(lambda: RecurrentNetwork(chosen), [1, 2])
    batch = TASK.sample(chosen, "extrapolation", streams("extrapolation"))
    with torch.no_grad():
        found = TASK.predict(network, chosen, "extrapolation", batch, streams("extrapolation"))
        whole, _ = network(long_x(chosen))
    torch.testing.assert_close(found, whole)


def solved(chosen: RecurrentSetting) -> Replicas:
    """Two units that accumulate a and b, and a reader that adds or multiplies them."""
    network = Replicas(lambda: RecurrentNetwork(chosen), SEEDS)
    where = sections("recurrent", tuple(SEEDS), chosen.inputs, chosen.section, chosen.overlap)
    parameters = dict(network.parameters())
    big = 30.0
    with torch.no_grad():
        cell_w = parameters["cell.unit.W_hat"].zero_()
        for seed in range(len(SEEDS)):
            for unit in range(2):
                cell_w[seed, unit, where[unit][seed]] = big
                cell_w[seed, unit, chosen.inputs + unit] = big
        for name, value in parameters.items():
            if name.endswith("M_hat"):
                value.fill_(big)
            if name.endswith("G"):
                value.fill_(big if name.startswith("cell") else -big)
        parameters["read.W_hat"].fill_(big)
    return network


@pytest.mark.parametrize(("layer", "op"), [("nac", "add"), ("nalu", "mul")])
def test_the_exact_solution_extrapolates(layer: str, op: str) -> None:
    chosen = setting(layer=layer, op=op, hidden=2, test_length=1000)
    network = solved(chosen)
    for split in TASK.splits:
        batch = TASK.sample(chosen, split, streams(split))
        with torch.no_grad():
            found = TASK.predict(network, chosen, split, batch, streams(split))
        torch.testing.assert_close(found, batch.targets, rtol=1e-4, atol=1e-4)


def test_hundred_is_a_random_lstm() -> None:
    chosen = setting(layer="nac", op="add")
    batch = TASK.sample(chosen, "extrapolation", streams("extrapolation"))
    found = TASK.references(chosen, "extrapolation", batch, streams("extrapolation"))
    # such a network puts out about 0, whatever it reads
    torch.testing.assert_close(
        found["random_mse"], batch.targets.square().mean((1, 2)), rtol=0.01, atol=0
    )
    # no random model there: only the best constant's errors
    of_training = TASK.references(chosen, "train", batch, streams("train"))
    assert of_training["constant_mse"].tolist() == pytest.approx(
        batch.targets.var((1, 2), correction=0).tolist(), rel=1e-5
    )
    assert set(of_training) == {"constant_mae", "constant_mse"}
    inits = [entropy(TASK.name, seed, "reference") % 2**63 for seed in SEEDS]
    lstm = setting(layer="lstm", op="add", hidden=chosen.reference_hidden)
    alone = Replicas(lambda: RecurrentNetwork(lstm), inits)
    with torch.no_grad():
        said = alone(long_x(chosen))[0]
    wanted = (said - batch.targets).square().mean((1, 2))
    torch.testing.assert_close(found["random_mse"], wanted, rtol=1e-6, atol=0)
    run = SupervisedRun(TASK, chosen, SEEDS, torch.device("cpu"))
    (logged,) = (
        record["values"] for record in run.records
        if (record["split"], record["metric"]) == ("extrapolation", "random_mse")
    )  # fmt: skip
    torch.testing.assert_close(logged.float(), wanted, rtol=1e-7, atol=0)
    for another in (setting(layer="lstm", op="add"), setting(layer="nac", op="add", reader="nalu")):
        other = TASK.references(another, "extrapolation", batch, streams("extrapolation"))
        assert torch.equal(found["random_mse"], other["random_mse"])


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"section": 6}, "section=6"),
        ({"section": 2, "overlap": 3}, "overlap=3"),
        ({"op": "sqrt", "train_range": (-1, 1)}, "op=sqrt"),
        ({"op": "div", "train_range": (-1, 1)}, "op=div"),
        ({"test_length": 10}, "test_length=10"),
        ({"layer": "lsmt"}, "lstm"),
    ],
)
def test_impossible_settings(values: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        setting(**values)


def test_options_of_the_cell_are_checked_before_any_run() -> None:
    with pytest.raises(TypeError, match="no option 'epsilon'"):
        TASK.check(setting(layer="lstm", options={"epsilon": 1e-3}))
    TASK.check(setting(layer="nalu", options={"epsilon": 1e-3}))


def test_settings_reach_the_cell_and_what_reads_it() -> None:
    chosen = setting(layer="nalu", memory_init=110.0, gate_init=(1.0, -0.2), weight_init=0.25)
    network: Any = RecurrentNetwork(chosen)
    unit, size = network.cell.unit, chosen.hidden
    assert torch.equal(unit.weight[:, -size:], torch.eye(size))
    assert (unit.W_hat[:, :-size] == 0.25).all()
    assert (unit.G == 1).all()
    assert (network.read.W_hat == 0.25).all()
    assert torch.allclose(network.read.G, torch.tensor(-0.2))
    both: Any = RecurrentNetwork(setting(layer="nalu", gate_init=(0.5,)))
    assert (both.cell.unit.G == 0.5).all()
    assert (both.read.G == 0.5).all()


@pytest.mark.parametrize("layer", ["lstm", "gru", "rnn_relu", "nac", "nalu"])
def test_a_seed_whose_sequence_has_nan_is_frozen_at_its_step_and_harms_no_other(layer: str) -> None:
    class Broken(RecurrentTask):
        calls = 0

        def sample(self, setting: RecurrentSetting, split: str, streams: Streams) -> Batch:
            batch = super().sample(setting, split, streams)
            if split == "train":  # first the set that Table 8 calls T
                self.calls += 1
                if self.calls > 3 and SEEDS[1] in streams.seeds:
                    batch.inputs[0][streams.seeds.index(SEEDS[1]), 0, 4] = torch.nan
            return batch

    chosen = setting(layer=layer, op="add", steps=4, evaluations=4, hidden=3, test_length=20)
    rows = {}
    for seeds in (SEEDS, SEEDS[:1]):
        run = SupervisedRun(Broken(), chosen, seeds, torch.device("cpu"))
        rows[len(seeds)] = finish(run)
    final = rows[2][rows[2].metric == COMPLETED].set_index("seed")
    assert final.value.tolist() == [1, 0]
    assert "step 2" in final.reason[SEEDS[1]]
    mine = rows[2][rows[2].seed == SEEDS[0]].value.to_numpy()
    np.testing.assert_allclose(mine, rows[1].value.to_numpy(), rtol=1e-4)


def test_seeds_that_share_inputs_read_the_same_sequences_and_have_their_own_targets() -> None:
    chosen = setting(op="add", shared_inputs=True)
    batch = TASK.sample(chosen, "train", Streams(TASK.name, SEEDS, "train", shared=True))
    assert batch.shared
    assert len(batch.inputs[0]) == 1
    assert len(batch.targets) == len(SEEDS)


@pytest.mark.parametrize(
    ("op", "error"),
    [
        # the sums over time of all ten inputs, and of a's and b's
        ("a", lambda total, a, b: 5e-6 * total),
        ("add", lambda total, a, b: 1e-5 * total),
        ("sub", lambda total, a, b: 1e-5 * total),
        ("square", lambda total, a, b: (a + 5e-6 * total) ** 2 - a**2),
        ("sqrt", lambda total, a, b: np.sqrt(a + 5e-6 * total) - np.sqrt(a)),
        (
            "mul",
            lambda total, a, b: (a + 5e-6 * (total + a - b)) * (b + 5e-6 * (total + b - a)) - a * b,
        ),
    ],
)
def test_solved_is_below_selecting_weights_off_by_1e_5(op: str, error: Any) -> None:
    chosen = setting(op=op)
    batch = TASK.sample(chosen, "extrapolation", streams("extrapolation"))
    solved = TASK.references(chosen, "extrapolation", batch, streams("extrapolation"))["solved_mse"]
    x = np.concatenate([p.numpy() for p in pieces(chosen, streams("extrapolation"))], 2)
    sums = x.astype(np.float64).sum(2)
    of_a, of_b = (index.numpy() for index in sections("recurrent", tuple(SEEDS), 10, 1, 0))
    for k in range(len(SEEDS)):
        a, b = sums[k][:, of_a[k]].sum(1), sums[k][:, of_b[k]].sum(1)
        wanted = np.mean(error(sums[k].sum(1), a, b) ** 2)
        assert solved[k].item() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("selecting", "keeping", "solved"),
    [(0, 0, True), (4e-6, 0, True), (4e-5, 0, False), (0, 1e-5, False)],
)
def test_what_counts_as_solved(selecting: float, keeping: float, solved: bool) -> None:
    """The recurrence must be exact: over 1000 steps, 1e-5 of the state is half a percent."""
    chosen = setting(layer="rnn_relu", op="a", hidden=1, test_length=1000)
    (at,), _ = sections("recurrent", (0,), 10, 1, 0)
    one: Any = RecurrentNetwork(chosen)
    with torch.no_grad():
        one.cell.weight_x.fill_(selecting)[:, at] = 1 - selecting
        one.cell.weight_h.fill_(1 - keeping)
        one.read.weight.fill_(1)
        one.read.bias.zero_()
    streams = Streams("recurrent", [0], "extrapolation")
    batch = TASK.sample(chosen, "extrapolation", streams)
    limit = TASK.references(chosen, "extrapolation", batch, streams.fork("extrapolation"))
    x = torch.cat(list(pieces(chosen, streams.fork("extrapolation"))), 2)[0]
    with torch.no_grad():
        error = (one(x)[0] - batch.targets[0]).square().mean()
    assert bool(error < limit["solved_mse"]) is solved


# -- the recipes of Hoedt et al. (2021) ------------------------------------------------------------


def test_the_recipes_of_the_mass_conserving_lstm() -> None:
    points: Any = expand(sweep_of(TASK).presets["mass"], RecurrentSetting, {})
    recipes = {}
    for point in points:
        s = point.setting
        assert len(point.seeds) == 100
        assert (s.inputs, s.section, s.overlap, s.length, s.test_length) == (10, 2, 1, 10, 100)
        assert s.steps == 1000 * s.evaluations
        recipes[s.layer, s.op] = (s.hidden, s.lr, s.steps, s.penalty)
    assert recipes["mc_lstm", "add"] == (2, 0.01, 2_000_000, "l2@read.weight:0.00025")
    assert recipes["mc_lstm", "sub"] == (3, 0.01, 500_000, "l2@read.weight:1.66667e-05")
    assert recipes["mc_lstm", "mul"] == (3, 0.05, 2_000_000, None)
    assert recipes["lstm", "sub"] == (10, 0.01, 2_000_000, "l2@read.weight:5e-06")
    assert {(layer, op) for layer, op in recipes if "mc" in layer and op == "mul"} == {
        ("mc_lstm", "mul")
    }


def test_a_unit_may_read_another_cell() -> None:
    """Two sums of mass, multiplied: with 1 = each share and gate, y = e^c m_1 m_2."""
    chosen = setting(layer="mc_lstm", reader="mul_mcfc", hidden=2, inputs=2, options={"spare": 0})
    network = RecurrentNetwork(chosen).double()
    assert isinstance(network.read, MulMCFC)
    with torch.no_grad():
        network.cell.d.copy_(torch.tensor([[50.0, -50.0], [-50.0, 50.0]]))  # type: ignore[operator]
        network.cell.A.zero_()  # type: ignore[operator]
        network.cell.r.copy_(50 * torch.eye(2))  # type: ignore[operator]
        network.read.w.fill_(50)
    x = torch.rand(4, 5, 2, dtype=torch.float64) + 1
    torch.testing.assert_close(network(x)[0][:, 0], x.sum(1).prod(1), rtol=1e-6, atol=0)
    with pytest.raises(ValidationError, match=r"unknown unit 'mul_mcf'.*mul_mcfc"):
        setting(reader="mul_mcf")
