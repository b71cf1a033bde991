"""Comparisons: pairs and answers, units of large numbers, metrics, the exact solution."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import Tensor

from nalu_ray.layers import NSR
from nalu_ray.seeding import Streams
from nalu_ray.tasks.comparison import TASK, data
from nalu_ray.tasks.comparison.network import ComparisonSetting
from tests.runs import finish

SEEDS = [0, 1, 2]
HOLDS = {
    "greater": operator.gt,
    "less": operator.lt,
    "greater_equal": operator.ge,
    "less_equal": operator.le,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
every_operation = pytest.mark.parametrize("op", HOLDS)


def draw(op: str, split: str, **fields: object) -> tuple[Tensor, Tensor]:
    setting = ComparisonSetting.model_validate({"op": op, **fields})
    batch = TASK.sample(setting, split, Streams("comparison", SEEDS, split))
    assert batch.inputs[0].dtype == batch.targets.dtype == torch.float64
    return batch.inputs[0], batch.targets


@every_operation
@pytest.mark.parametrize("split", ["train", "extrapolation"])
def test_answers(op: str, split: str) -> None:
    """Against Python's comparisons of whole numbers, which are exact."""
    pairs, targets = draw(op, split)
    for row, answer in zip(pairs.flatten(0, 1).tolist(), targets.flatten().tolist(), strict=True):
        assert answer == HOLDS[op](int(row[0]), int(row[1]))


def test_order_is_trained_on_all_pairs() -> None:
    pairs, targets = draw("greater_equal", "train")
    for seed in pairs:
        assert {tuple(pair) for pair in seed.tolist()} == {
            (a, b) for a in range(1, 10) for b in range(1, 10)
        }
    assert targets.sum(1).flatten().tolist() == [45] * 3


def test_equality_is_trained_on_as_many_equal_pairs_as_unequal_ones() -> None:
    pairs, targets = draw("equal", "train")
    assert pairs.shape == (3, 18, 2)
    assert targets.sum(1).flatten().tolist() == [9] * 3
    assert (pairs >= 1).all()
    assert (pairs <= 9).all()
    assert sorted(pairs[0, 9:, 0].tolist()) == list(range(1, 10))
    assert not torch.equal(pairs[0], pairs[1])
    again, _ = draw("equal", "interpolation")
    assert torch.equal(again, pairs)
    assert draw("equal", "train", balanced=False)[0].shape == (3, 81, 2)


@every_operation
def test_far_pairs_are_near_each_other_and_of_their_size(op: str) -> None:
    pairs, _ = draw(op, "extrapolation")
    by_exponent = pairs.reshape(3, 18, -1, 2)
    for k, of_exponent in enumerate(by_exponent.unbind(1), start=1):
        x = of_exponent[:, 0, 0]
        assert (10**k <= x + 2048).all()
        assert (x < 10 ** (k + 1)).all()
        unit = {16: 16, 17: 128, 18: 2048}.get(k, 2 if k == 15 else 1)
        differences = (of_exponent[..., 0] - of_exponent[..., 1]) / unit
        low = 0 if op in ("equal", "not_equal") else 1
        wanted = {float(i) for i in range(-5, 6)}
        assert set(differences.flatten().tolist()) == wanted
        assert (differences == 0).sum() == 3 * (10 if low == 0 else 1)


def set_exactly(unit: NSR) -> None:
    """greater, with saturated weights."""
    with torch.no_grad():
        unit.V1.copy_(torch.tensor([[800.0, 0.0]]))
        unit.V2.copy_(torch.tensor([[0.0, 800.0]]))
        unit.w_sign.fill_(80.0)
        unit.w_zero.fill_(-40.0)


def test_metrics_of_an_exact_network_and_of_a_constant() -> None:
    setting = ComparisonSetting(op="greater", hidden=1)
    network = TASK.build(setting)
    assert isinstance(network, NSR)
    set_exactly(network)
    pairs, targets = draw("greater", "extrapolation")
    exact = TASK.metrics(setting, "extrapolation", network(pairs), targets)
    assert all((value == 1).all() for name, value in exact.items() if "solved" in name)
    assert all((value < 1e-9).all() for name, value in exact.items() if "mae" in name)
    constant = torch.full_like(targets, 0.25)
    found = TASK.metrics(setting, "extrapolation", constant, targets)
    # 10 of 21 pairs are greater
    assert found["mae_1e3"].tolist() == pytest.approx([(10 * 0.75 + 11 * 0.25) / 21] * 3)
    assert found["right"].tolist() == pytest.approx([11 / 21] * 3)
    assert found["solved_1e18"].tolist() == [0, 0, 0]
    assert TASK.loss(setting, constant, targets).tolist() == pytest.approx(found["mae"].tolist())


def test_the_best_constant_has_an_error_at_each_exponent() -> None:
    setting, streams = ComparisonSetting(op="greater"), Streams("c", SEEDS, "extrapolation")
    batch = TASK.sample(setting, "extrapolation", streams)
    found = TASK.references(setting, "extrapolation", batch, streams)
    # 10 of 21 pairs are greater, so the median is 0
    assert found["constant_mae_1e18"].tolist() == pytest.approx([10 / 21] * 3)
    measures = TASK.tables[1].measures.values()
    assert {f"constant_{measure.metric}" for measure in measures} <= set(found)


def test_one_wrong_pair_is_not_solved() -> None:
    setting = ComparisonSetting(op="greater")
    _, targets = draw("greater", "extrapolation")
    answers = targets.clone()
    answers[1, 21 * 4 + 7] = 1 - answers[1, 21 * 4 + 7]
    found = TASK.metrics(setting, "extrapolation", answers, targets)
    assert found["solved_1e5"].tolist() == [1, 0, 1]
    assert found["solved_1e4"].tolist() == [1, 1, 1]
    batch = TASK.sample(setting, "extrapolation", Streams("comparison", SEEDS, "extrapolation"))
    exponents, shares = TASK.curves(setting, "extrapolation", batch, answers)["right"]
    assert exponents.tolist() == list(data.EXPONENTS)
    assert shares[1, 4].item() == pytest.approx(20 / 21)


@pytest.mark.parametrize(
    ("layer", "depth", "count"),
    [("nsr", 0, 10 * 6 + 1), ("nalu", 0, 10 * 2 * 3 + 11), ("sigmoid", 1, 30 + 110 + 11)],
)
def test_networks(layer: str, depth: int, count: int) -> None:
    setting = ComparisonSetting(layer=layer, hidden_layers=depth)
    network = TASK.build(setting)
    assert sum(value.numel() for value in network.parameters()) == count
    assert all(value.dtype == torch.float64 for value in network.parameters())
    y = network(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    assert y.shape == (1, 1)
    assert 0 < y.item() < 1


def test_only_equality_reads_balanced() -> None:
    assert "balanced" in ComparisonSetting(op="less").unread()
    assert "balanced" not in ComparisonSetting(op="equal").unread()


def test_an_nsr_learns_an_order_for_numbers_of_any_size_and_an_mlp_does_not() -> None:
    found = {}
    for layer, depth in (("nsr", 0), ("sigmoid", 1)):
        setting = ComparisonSetting(
            layer=layer, hidden_layers=depth, lr=0.05, steps=150, evaluations=1
        )
        rows = finish(TASK.start(setting, [0], torch.device("cpu")))
        last = rows[(rows.step == 150) & rows.x.isna()].groupby(["split", "metric"]).value.mean()
        found[layer] = last
    for layer in found:
        assert found[layer]["interpolation", "mae"] < 0.1
    assert found["nsr"]["extrapolation", "solved_1e9"] == 1
    assert found["sigmoid"]["extrapolation", "solved_1e9"] == 0
