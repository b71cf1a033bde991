"""The recurrent task: what is drawn, what is asked for, and long sequences piece by piece."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from nalu_ray.data.sections import sections
from nalu_ray.seeding import Streams
from nalu_ray.tasks._recurrent import OPERATIONS, RecurrentNetwork, RecurrentSetting, pieces
from nalu_ray.tasks.recurrent import TASK
from nalu_ray.training.replicas import Replicas

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


@pytest.mark.parametrize("op", OPERATIONS)
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
    assert TASK.references(chosen, "train", batch, streams("train")) == {}
    other = TASK.references(setting(layer="lstm", op="add"), "extrapolation", batch,
                            streams("extrapolation"))  # fmt: skip
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
