"""Program evaluation: sets, the digit metric against strings, the network, and that it learns."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from nalu_ray.layers.cells.nalu_lstm import ConfiguredNALU
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.program import TASK
from nalu_ray.tasks.program.data import SYMBOLS, render
from nalu_ray.tasks.program.network import ProgramNetwork, ProgramSetting, matching_digits
from nalu_ray.training.replicas import Replicas
from tests.runs import finish

SEEDS = [0, 5]
FAR = 3 * 10**7


def setting(**values: object) -> ProgramSetting:
    small = {"layer": "rnn_tanh", "hidden": 5, "batch": 16, "test_size": 200}
    return ProgramSetting.model_validate({**small, **values})


def drawn(chosen: ProgramSetting, split: str) -> Batch:
    return TASK.sample(chosen, split, Streams(TASK.name, SEEDS, split))


def texts(batch: Batch) -> list[str]:
    """What a batch's inputs say, all seeds' programs one after the other."""
    x = batch.inputs[0].flatten(0, 1).numpy()
    symbols, numbers = x[..., :-1].argmax(-1), x[..., -1].astype(int)
    symbols[~x.any(-1)] = len(SYMBOLS)
    return list(map(render, symbols, numbers))


# -- sets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["addition", "program"])
@pytest.mark.parametrize(
    ("split", "low", "high"),
    [
        ("train", 0, 99),
        ("interpolation", 0, 99),
        ("validation", 100, 999),
        ("test", 1000, 9999),
    ],
)
def test_inputs_say_what_the_targets_are(variant: str, split: str, low: int, high: int) -> None:
    batch = drawn(setting(variant=variant, batch=150, test_size=250), split)
    found = texts(batch)
    assert len(found) == 2 * (150 if split == "train" else 250)
    assert [eval(text) for text in found] == batch.targets.flatten().tolist()
    numbers = [int(number) for text in found for number in re.findall(r"\d+", text)]
    assert low <= min(numbers) < low + (high - low) / 50
    assert high - (high - low) / 50 < max(numbers) <= high
    tokens = [len(text.split()) + 1 for text in found]
    assert batch.inputs[1].flatten().tolist() == tokens
    assert max(tokens) == (4 if variant == "addition" else 16)


def test_a_baseline_reads_hints_beside_the_same_programs() -> None:
    chosen = setting(hints="comparisons")
    plain, hinted = drawn(setting(), "test"), drawn(chosen, "test")
    assert torch.equal(hinted.targets, plain.targets)
    assert torch.equal(hinted.inputs[0][..., -1], plain.inputs[0][..., -1])
    network = ProgramNetwork(chosen)
    assert network(hinted.inputs[0][0], hinted.inputs[1][0]).shape == (200, 1)
    assert "hints" in setting(layer="nalu_lstm", hints="comparisons").unread()
    assert "hints" not in chosen.unread()


def test_interpolation_is_fresh_and_training_draws_on() -> None:
    chosen = setting(test_size=16)
    streams = Streams(TASK.name, SEEDS, "train")
    first, second = (TASK.sample(chosen, "train", streams) for _ in range(2))
    kept = drawn(chosen, "interpolation")
    assert texts(first) != texts(second)
    assert not set(texts(kept)) & {*texts(first), *texts(second)}
    assert texts(kept) == texts(drawn(chosen, "interpolation"))


def test_other_digits() -> None:
    chosen = setting(variant="addition", train_digits=1, validation_digits=2, test_digits=6)
    ranges = {"interpolation": (0, 18), "validation": (20, 198), "test": (200_000, 1_999_998)}
    for split, (low, high) in ranges.items():
        targets = drawn(chosen, split).targets
        assert low <= int(targets.min()) <= int(targets.max()) <= high


# -- scores ------------------------------------------------------------------------------------


def by_strings(prediction: float, target: int) -> float:
    mine, theirs = str(round(prediction)), str(target)
    pairs = zip(reversed(mine), reversed(theirs), strict=False)
    return sum(a == b for a, b in pairs) / max(len(mine), len(theirs))


@given(
    st.lists(
        st.tuples(
            st.one_of(st.floats(-FAR, FAR, width=32), st.integers(-12_000, 12_000).map(float)),
            st.integers(-FAR, FAR) | st.integers(-12_000, 12_000),
        ),
        min_size=1,
    )
)
@example([(1234.0, 1334), (-7.0, 17), (99.0, 100), (0.4, 0), (-0.4, 0), (12.0, -12), (0.5, 1)])
@example([(10.0**k, 10**k) for k in range(8)] + [(10.0**k - 1, 10**k - 1) for k in range(1, 7)])
def test_matching_digits_are_those_of_the_decimal_strings(pairs: list[tuple[float, int]]) -> None:
    predictions, targets = zip(*pairs, strict=True)
    found = matching_digits(torch.tensor(predictions), torch.tensor(targets).double())
    expected = [by_strings(*pair) for pair in pairs]
    assert found.tolist() == pytest.approx(expected)


def test_matching_digits_by_hand() -> None:
    cases = [(1234, 1334, 3 / 4), (-7, 17, 1 / 2), (99, 100, 0), (12.4, 12, 1), (12, -12, 2 / 3)]
    prediction, target, expected = torch.tensor(cases).unbind(1)
    torch.testing.assert_close(matching_digits(prediction, target), expected)


def test_what_is_not_finite_matches_nothing_and_what_is_huge_almost_nothing() -> None:
    broken = torch.tensor([torch.nan, torch.inf, -torch.inf])
    assert matching_digits(broken, torch.zeros(3)).tolist() == [0, 0, 0]
    huge = torch.tensor([3e38, -3e38])
    assert matching_digits(huge, torch.tensor([12345.0, -12345.0])).tolist() == [0, 0]


def test_metrics_are_each_seeds_own() -> None:
    target = torch.tensor([[[100.0], [20.0]], [[-3.0], [7.0]]])
    prediction = target + torch.tensor([[[3.0], [-4.0]], [[0.4], [-0.3]]])
    found = TASK.metrics(setting(), "test", prediction, target)
    assert list(found) == ["rmse", "digits", "exact"]  # the first is shown while running
    assert found["rmse"].tolist() == pytest.approx([12.5**0.5, 0.125**0.5])
    assert found["digits"].tolist() == pytest.approx([(2 / 3 + 0) / 2, 1])
    assert found["exact"].tolist() == [0, 1]


def test_loss_is_the_root_of_each_seeds_mean_square_and_has_a_gradient_at_zero() -> None:
    target = torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])
    prediction = (target + torch.tensor([[[3.0], [4.0]], [[0.0], [0.0]]])).requires_grad_()
    loss = TASK.loss(setting(), prediction, target)
    assert loss.tolist() == pytest.approx([12.5**0.5, 0], abs=1e-5)
    loss.sum().backward()
    assert isinstance(prediction.grad, Tensor)
    expected = torch.tensor([[[3.0], [4.0]], [[0.0], [0.0]]]) / 2 / 12.5**0.5
    torch.testing.assert_close(prediction.grad, expected)


def test_three_and_four_digits_never_select() -> None:
    rules = [spec.selection for spec in (*TASK.tables, *TASK.figures)]
    found = {(rule.metric, rule.split, rule.step) for rule in rules}
    assert found == {("rmse", "interpolation", "last")}


# -- networks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["lstm", "ugrnn", "nac", "nalu_lstm"])
def test_what_comes_after_a_program_does_not_matter(layer: str) -> None:
    chosen = setting(layer=layer)
    network = Replicas(lambda: ProgramNetwork(chosen), [1, 2])
    x, lengths = drawn(chosen, "train").inputs
    padding = torch.arange(x.shape[2]) >= lengths[..., None]
    assert padding.any()
    noisy = torch.where(padding[..., None], 1e3 * torch.randn_like(x), x)
    with torch.no_grad():
        torch.testing.assert_close(network(noisy, lengths), network(x, lengths))


def test_each_program_is_read_to_its_own_end() -> None:
    chosen = setting(layer="lstm")
    torch.manual_seed(1)
    network = ProgramNetwork(chosen)
    x, lengths = (tensor[0] for tensor in drawn(chosen, "train").inputs)
    with torch.no_grad():
        together = network(x, lengths)
        alone = [
            network(row[None, :length], length[None])
            for row, length in zip(x, lengths, strict=True)
        ]
    torch.testing.assert_close(together, torch.cat(alone))


def adding(chosen: ProgramSetting) -> Replicas:
    """Networks that add every number to their first output, and read that."""
    network = Replicas(lambda: ProgramNetwork(chosen), SEEDS)
    with torch.no_grad():
        for name, value in network.parameters().items():
            # W = 1 for the number and for the sum so far, 0 for symbols; the sum is read as it is
            value.fill_({"cell.unit.M_hat": 30, "read.weight": 1}.get(name, 0))
            if name == "cell.unit.W_hat":
                value[..., -2:] = 30
            if name == "cell.bias":  # of W_hat, M_hat and G, whatever the LSTM says
                w_hat, m_hat, gate = value.chunk(3, 2)
                w_hat[:, 0, :2] = 30
                m_hat.fill_(30)
                gate.fill_(30 / chosen.scale)  # a sum at the smallest numbers too
    return network


@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize(("layer", "size"), [("nac", {"hidden": 1}), ("nalu_lstm", {})])
def test_a_network_that_adds_is_right_at_any_number_of_digits(
    layer: str, size: dict[str, int], scale: float
) -> None:
    chosen = setting(layer=layer, variant="addition", scale=scale, **size)
    network = adding(chosen)
    for split in TASK.splits:
        batch = drawn(chosen, split)
        with torch.no_grad():
            found = TASK.metrics(chosen, split, network(*batch.inputs), batch.targets)
        assert found["exact"].tolist() == [1, 1]
        assert found["digits"].tolist() == [1, 1]
        assert float(found["rmse"].max()) < 0.01


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"nesting": 0}, "nesting\n.*greater than or equal to 1"),
        ({"nesting": 4}, "nesting\n.*less than or equal to 3"),
        ({"test_digits": 7}, "test_digits\n.*less than or equal to 6"),
        ({"train_digits": 0}, "train_digits\n.*greater than or equal to 1"),
        ({"train_digits": 3}, "digits must rise .* got 3, 3, 4"),
        ({"test_digits": 3}, "digits must rise .* got 2, 3, 3"),
        ({"layer": "lsmt"}, "Did you mean 'lstm'"),
        ({"variant": "adition"}, "variant"),
        ({"view": "signs"}, "view"),
        (
            {"options": {"registers": 7}},
            "registers is not an option here; set the field registers=",
        ),
        ({"options": {"values": 2}}, "options cannot contain values"),
    ],
)
def test_impossible_settings(values: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        setting(**values)


def test_fields_reach_the_cells_that_know_them() -> None:
    network = ProgramNetwork(setting(layer="nalu_lstm", registers=5, view="raw"))
    assert isinstance(network.cell, ConfiguredNALU)
    assert (network.cell.out_features, network.cell.view) == (5, "raw")
    assert ProgramNetwork(setting(layer="ugrnn", registers=5, view="raw")).cell.out_features == 5


def test_options_of_the_cell_are_checked_before_any_run() -> None:
    for name in ("slots", "hidden_features"):
        with pytest.raises(TypeError, match=f"no option '{name}'"):
            TASK.check(setting(options={name: 16}))


# -- learning ----------------------------------------------------------------------------------


def test_sums_are_learned_from_two_digits() -> None:
    chosen = setting(
        layer="nac", variant="addition", hidden=2, scale=1.0, batch=64, lr=0.03, steps=300,
        schedule="cosine", lr_end=0, clip=1, evaluations=1,
    )  # fmt: skip
    run = TASK.start(chosen, SEEDS, torch.device("cpu"))
    rows = finish(run)
    last = rows[(rows.step == 300) & (rows.metric == "digits")].groupby("split").value.mean()
    assert last["interpolation"] > 0.9
    assert last["interpolation"] >= last["validation"] >= last["test"] > 0.5


def test_the_configured_nalu_learns_sums() -> None:
    chosen = setting(
        layer="nalu_lstm", variant="addition", hidden=16, registers=2, scale=1.0, batch=32, lr=0.03,
        adam_beta2=0.99, steps=300, schedule="cosine", lr_end=0, clip=1, evaluations=1,
        options={"gate": "state", "gate_init": 5.0, "forget_init": 1.0},
    )  # fmt: skip
    run = TASK.start(chosen, [0, 1, 2], torch.device("cpu"))
    rows = finish(run)
    last = rows[(rows.step == 300) & (rows.metric == "digits") & (rows.split == "interpolation")]
    assert last.value.median() > 0.9
