"""The single-module task: its sets, and its thresholds against closed forms."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from nalu_ray.results.analysis.text import in_full
from nalu_ray.seeding import Streams
from nalu_ray.sweep.presets import expand, sweep_of
from nalu_ray.tasks.single_module import INALU, INALU_ALL, NOISE, TASK, SingleModuleSetting
from nalu_ray.tasks.single_module.data import chosen, perturbed_error

SEEDS = (0, 3, 8)
E = 1e-5


def small(**values: Any) -> SingleModuleSetting:
    return SingleModuleSetting(**{"test_size": 4000, "batch": 16, **values})


def drawn(setting: SingleModuleSetting, split: str = "extrapolation") -> Any:
    return TASK.sample(setting, split, Streams("single_module", SEEDS, split))


def uniform(low: float, high: float, inputs: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    shape = (1, 20_000, inputs)
    return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)


FIRST_TWO = torch.tensor([[0]]), torch.tensor([[1]])


@pytest.mark.parametrize(
    ("bounds", "of_two", "of_ten", "of_hundred"),
    [
        ((20, 40), (3.67e-7, 3.48e-4, 4.67e-10), 9.03e-6, 9.00e-4),
        ((2, 6), (6.67e-9, 1.20e-7, 5.78e-10), 1.61e-7, 1.60e-5),
        ((-6.1, -1.2), (5.73e-9, 9.39e-8, 8.37e-10), 1.35e-7, 1.33e-5),
        ((1.2, 6), (5.57e-9, 8.86e-8, 8.27e-10), 1.32e-7, 1.30e-5),
        ((0.2, 2), (5.38e-10, 8.76e-10, 1.48e-9), 1.24e-8, 1.21e-6),
    ],
)
def test_thresholds_are_those_of_the_closed_form(
    bounds: tuple[float, float],
    of_two: tuple[float, float, float],
    of_ten: float,
    of_hundred: float,
) -> None:
    """Of sums, products and quotients of two inputs; of sums with redundant inputs."""
    (low, high), (add, mul, div) = bounds, of_two
    for op, expected in {"add": add, "sub": add, "mul": mul, "div": div}.items():
        found = perturbed_error(op, uniform(low, high, 2), FIRST_TWO, E)
        assert found.item() == pytest.approx(expected, rel=0.03), op
        larger = perturbed_error(op, uniform(low, high, 2), FIRST_TWO, 1e-4)
        assert larger.item() == pytest.approx(100 * expected, rel=0.03), op
    for inputs, expected in ((10, of_ten), (100, of_hundred)):
        for op in ("add", "sub"):
            found = perturbed_error(op, uniform(low, high, inputs), FIRST_TWO, E)
            assert found.item() == pytest.approx(expected, rel=0.03)


def test_thresholds_by_hand_with_redundant_inputs() -> None:
    """a = 4, b = -2, redundant 3 and -5."""
    x = torch.tensor([[[3.0, 4.0, -2.0, -5.0]]])
    places = torch.tensor([[1]]), torch.tensor([[2]])
    redundant = (1 - 3 * E) * (1 - 5 * E)
    expected = {
        "add": 14 * E,
        "sub": 14 * E,
        "mul": 8 * (1 - (1 - E) ** 2 * redundant),
        "div": 2 * (1 - (1 - E) / (1 + E) * redundant),
    }
    for op, off in expected.items():
        assert perturbed_error(op, x, places, E).tolist() == pytest.approx([off**2], rel=1e-9), op


def test_no_threshold_is_below_the_rounding_of_float32() -> None:
    x = torch.tensor([[[4.0, 2.0]]])
    noise = torch.finfo(torch.float32).eps
    for op, y in {"mul": 8.0, "div": 2.0, "add": 6.0, "sub": 6.0}.items():
        assert perturbed_error(op, x, FIRST_TWO, 1e-9).item() == pytest.approx((noise * y) ** 2)
    assert perturbed_error("mul", torch.zeros(1, 3, 2), FIRST_TWO, E).float().item() > 0


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("inputs", [2, 10])
def test_targets_are_the_operation_on_two_inputs(op: str, inputs: int) -> None:
    setting = small(op=op, inputs=inputs, test_size=50)
    batch, (first, second) = drawn(setting), chosen(setting, SEEDS)
    assert (first != second).all()
    x = batch.inputs[0].numpy().astype(float)
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    for k in range(len(SEEDS)):
        expected = function(x[k][:, first[k].item()], x[k][:, second[k].item()])
        np.testing.assert_allclose(batch.targets[k, :, 0], expected, rtol=1e-6)


def zeros_for_some(streams: Streams, shape: Any, low: float, high: float, *_: Any) -> Any:
    """U(low, high), but two examples of each seed are 0, and so is an input of a third."""
    x = np.random.default_rng(0).uniform(low, high, (len(streams), *shape)).astype(np.float32)
    x[:, :2], x[:, 2, 0] = 0, 0
    return x


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("op", ["div", "mul"])
def test_no_divisor_is_exactly_zero(op: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float32 number of U(-2, 2) is 0 once in 2^24, which ended 8 of 25 seeds, of any unit."""
    monkeypatch.setattr(Streams, "uniform", zeros_for_some)
    setting = small(op=op, train_range=(-2, 2), inputs=4, shared_inputs=shared)
    batch = TASK.sample(setting, "train", Streams("single_module", SEEDS, "train", shared=shared))
    first, second = chosen(setting, SEEDS)
    assert batch.targets.isfinite().all()
    x = batch.inputs[0].expand(len(SEEDS), -1, -1)
    if op == "mul":
        assert (x[:, :2] == 0).all()
        return
    for seed in range(len(SEEDS)):
        b = x[seed, :, second[seed]].squeeze(1)
        assert b[:2].tolist() == pytest.approx([4 / 2**24] * 2)
        assert x[seed, 0].count_nonzero() == (4 if shared else 1)  # whichever seeds there are
        np.testing.assert_allclose(batch.targets[seed, :, 0], x[seed, :, first[seed]][:, 0] / b)


def test_a_divisor_keeps_its_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Streams, "uniform", zeros_for_some)
    setting = small(op="div", train_range=(0, 1), inputs=4, opposite=True)
    batch, (_, second) = drawn(setting, "train"), chosen(setting, SEEDS)
    for seed in range(len(SEEDS)):
        assert (batch.inputs[0][seed, :, second[seed]] < 0).all()


def test_sets_come_from_their_ranges() -> None:
    setting = small(train_range=(-2, 2), test_range=(2, 6), test_signs=True)
    for split in ("train", "interpolation"):
        x = drawn(setting, split).inputs[0]
        assert x.shape == (3, 16 if split == "train" else 4000, 2)
        assert (x.min() < -1) & (x.max() > 1) & (x.abs().max() <= 2)
    x = drawn(setting).inputs[0]
    assert (x.abs().min() >= 2) & (x.abs().max() > 5.9)
    assert (x < 0).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert (x < 0).any(2).double().mean().item() == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("inputs", [2, 10])
def test_opposite_operands_have_opposite_signs(inputs: int) -> None:
    setting = small(op="div", inputs=inputs, train_range=(-2, -0.1), opposite=True)
    first, second = chosen(setting, range(20))
    assert ((first < inputs // 2) & (second >= inputs // 2)).all()
    for split, low, high in (("train", -2.0, -0.1), ("extrapolation", 2.0, 6.0)):
        batch = drawn(setting, split)
        x = batch.inputs[0]
        a, b = x[..., : inputs // 2], x[..., inputs // 2 :]
        assert ((a >= low) & (a <= high) & (b >= -high) & (b <= -low)).all()
        assert (batch.targets < 0).all()


def test_a_seed_draws_the_same_in_any_block() -> None:
    setting = small(inputs=10, opposite=True)
    block = drawn(setting)
    alone = TASK.sample(setting, "extrapolation", Streams("single_module", (3,), "extrapolation"))
    assert torch.equal(block.inputs[0][1:2], alone.inputs[0])
    assert torch.equal(block.targets[1:2], alone.targets)


def test_the_network_is_one_unit() -> None:
    network = TASK.build(small(layer="nac", inputs=10))
    shapes = {name: tuple(value.shape) for name, value in network.named_parameters()}
    assert shapes == {"0.W_hat": (1, 10), "0.M_hat": (1, 10)}


def test_the_threshold_is_of_the_extrapolation_set() -> None:
    setting = small(op="mul")
    streams = Streams("single_module", SEEDS, "extrapolation")
    batch = drawn(setting)
    assert TASK.references(setting, "interpolation", batch, streams) == {}
    (solved,) = TASK.references(setting, "extrapolation", batch, streams).values()
    assert solved.tolist() == pytest.approx([1.20e-7] * 3, rel=0.1)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"inputs": 1}, ["inputs", "greater than or equal to 2"]),
        ({"op": "sqrt"}, ["op", "add"]),
        ({"test_signs": True, "opposite": True}, ["test_signs=true", "opposite=true"]),
        ({"weight_error": 0}, ["weight_error", "greater than 0"]),
        (
            {"distribution": "benford", "train_range": (0, 1)},
            ["distribution=benford", "above 0", "0.0:1.0"],
        ),
    ],
)
def test_impossible_settings_are_named(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        SingleModuleSetting.model_validate(values)
    for word in words:
        assert word in str(caught.value)


def test_normal_inputs_are_within_three_deviations() -> None:
    setting = small(distribution="normal", train_range=(-2, 4), test_range=(8, 10))
    for split, mean, deviation in (("interpolation", 1, 1), ("extrapolation", 9, 1 / 3)):
        x = drawn(setting, split).inputs[0].double()
        assert (x - mean).abs().max() <= 3 * deviation + 1e-6
        assert x.mean().item() == pytest.approx(mean, abs=0.03 * deviation)
        # a normal law without its tails beyond 3
        assert x.std().item() == pytest.approx(0.9866 * deviation, rel=0.02)
        assert (x < mean - deviation).double().mean().item() == pytest.approx(0.1578, abs=0.01)


def test_exponential_inputs_have_their_mean() -> None:
    setting = small(distribution="exponential", train_range=(0, 0.2), test_range=(0, 0.5))
    for split, mean in (("interpolation", 0.2), ("extrapolation", 0.5)):
        x = drawn(setting, split).inputs[0].double()
        assert x.min() >= 0
        assert x.mean().item() == pytest.approx(mean, rel=0.03)
        assert x.std().item() == pytest.approx(mean, rel=0.05)
        assert (x > 2 * mean).double().mean().item() == pytest.approx(math.exp(-2), abs=0.01)


def test_benford_inputs_have_its_leading_digits() -> None:
    setting = small(distribution="benford", train_range=(10, 100), test_range=(100, 1000))
    for split, low in (("interpolation", 10), ("extrapolation", 100)):
        x = drawn(setting, split).inputs[0].double()
        assert (x.min() >= low) & (x.max() <= 10 * low)
        digits = (x / low).floor()
        for digit in (1, 2, 9):
            share = (digits == digit).double().mean().item()
            assert share == pytest.approx(math.log10(1 + 1 / digit), abs=0.015)


def test_a_fixed_error_may_be_the_threshold() -> None:
    setting = small(solved_below=1e-5)
    streams = Streams("single_module", SEEDS, "extrapolation")
    solved = TASK.references(setting, "extrapolation", drawn(setting), streams)["solved_mse"]
    assert solved.tolist() == [1e-5] * 3


def test_the_published_rates_of_the_inalu_are_of_the_settings_that_run() -> None:
    points = expand(sweep_of(TASK).presets["inalu"], SingleModuleSetting, {})
    run = set()
    for point in points:
        values = point.setting.model_dump(mode="json")
        assert values["solved_below"] == 1e-5
        assert (values["optimiser"], values["rmsprop_decay"], values["lr"]) == (
            "rmsprop",
            0.9,
            0.01,
        )
        beyond = {"normal": "8:10", "exponential": "0:0.5", "uniform": "-10:-5"}
        assert in_full(values["test_range"]) == beyond[values["distribution"]]
        options = '{"shared": true}' if values["options"] else "{}"
        run.add((options, values["op"], in_full(values["train_range"])))
    assert INALU.publication is not None
    assert {value.place for value in INALU.publication.values} == run
    rates = [v.published().value for v in INALU.publication.values if v.place[:2] == ("{}", "mul")]
    assert sorted(rates) == [0, 0, 100, 100, 100, 100, 100]
    # the recount of all 70 runs, which tells no ranges apart
    pooled = INALU_ALL.publication
    assert pooled is not None
    for options in ("{}", '{"shared": true}'):
        for op in ("add", "sub", "mul", "div"):
            by_range = [
                value.published().value
                for value in INALU.publication.values
                if value.place[:2] == (options, op)
            ]
            whole = pooled.lookup(options, op, "rate")
            assert whole is not None
            assert sum(by_range) / 7 == pytest.approx(whole.value, abs=0.5), (options, op)


def test_the_table_of_noise_has_what_runs() -> None:
    run = set()
    for point in expand(sweep_of(TASK).presets["snmu-noise"], SingleModuleSetting, {}):
        setting: Any = point.setting
        assert len(point.seeds) == 25
        assert (setting.layer, setting.op, setting.inputs) == ("snmu", "mul", 2)
        assert setting.penalty == "sparsity:10:linear:20000:35000"
        run.add((json.dumps(setting.options), str([*setting.train_range])))
    assert NOISE.columns is not None
    assert run == {(row, column) for row in NOISE.rows.labels for column in NOISE.columns.labels}


def test_stored_rows_of_noise_keep_their_ids() -> None:
    points = expand(sweep_of(TASK).presets["snmu-noise"], SingleModuleSetting, {})
    settings: list[Any] = [point.setting for point in points]
    ids = [setting.id for setting in settings if setting.train_range == (1, 2)]
    assert ids == [
        "66f613f0c955c384",
        "f58949d6c18eeb44",
        "cb642ae13e55f4af",
        "21cb731960800765",
        "c28eeee16f3b1f7b",
        "d0011920969239c7",
    ]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"noise_low": 1, "noise_high": 5}, {}),
        ({"noise_high": "5", "noise_low": "1"}, {}),
        ({"noise_low": 1}, {}),
        ({"noise_high": 5}, {}),
        ({"noise_low": 1, "noise_high": 2}, {"noise_low": 1.0, "noise_high": 2.0}),
        ({"noise_low": 0.5, "noise_high": 5}, {"noise_low": 0.5}),
        ({"noise_high": 2}, {"noise_high": 2.0}),
        ({"noise_low": 1, "noise_high": 5, "batch_noise": False}, {}),
    ],
)
def test_a_range_of_noise_is_one_setting_however_often_it_is_read(
    given: dict[str, Any], kept: dict[str, Any]
) -> None:
    setting = SingleModuleSetting(layer="snmu", op="mul", options=given)
    assert setting.options == kept
    again = SingleModuleSetting(**setting.model_dump())
    assert again == setting
    assert again.id == setting.id
    assert setting.id == SingleModuleSetting(layer="snmu", op="mul", options=kept).id


@pytest.mark.parametrize(
    ("preset", "ramp"),
    [("paper", "20000:35000"), ("redundant-10", "50000:75000"), ("redundant-100", "50000:75000")],
)
def test_each_unit_has_its_published_penalty(preset: str, ramp: str) -> None:
    seen: dict[str, set[str]] = {}
    for point in expand(sweep_of(TASK).presets[preset], SingleModuleSetting, {}):
        setting: Any = point.setting
        if setting.layer in published(ramp):
            assert setting.penalty == published(ramp)[setting.layer]
        seen.setdefault(setting.layer, set()).add(str(setting.options))
    assert seen["mul_mcfc"] == {
        str({"spare": 0} | signs) for signs in ({}, {"signs": "product"}, {"signs": "cosine"})
    }
    widths = {str({"width": 100})} | ({str({"width": 1})} if preset == "paper" else set())
    assert seen["mlp_bias"] == widths
    assert ("snmu" in seen) == (preset == "paper")


@pytest.mark.parametrize(
    ("preset", "ramp"),
    [
        *((name, "20000:35000") for name in ("laptop", "mixed-signs", "small-divisors", "benford")),
        ("redundant-10", "50000:75000"),
    ],
)
@pytest.mark.parametrize("op", ["add", "mul", "div"])
def test_a_unit_that_is_named_has_its_published_recipe(preset: str, ramp: str, op: str) -> None:
    """Also one that is not on the preset's axis."""
    named = {"layer": [*published(ramp), "npu", "real_npu"], "op": [op]}
    seen = set()
    for point in expand(sweep_of(TASK).presets[preset], SingleModuleSetting, named):
        setting: Any = point.setting
        seen.add(setting.layer)
        if setting.layer in published(ramp):
            assert setting.penalty == published(ramp)[setting.layer]
        elif op in ("mul", "div"):
            growth = "1e-09:growth:10:10000:1e-07" if op == "div" else "1e-07:growth:10:10000:1e-05"
            assert (setting.lr, setting.penalty) == (0.005, f"l1@*:{growth}")
            assert setting.options == {"gate_gradient": "clamp"}
    assert seen == {*named["layer"]}


def published(ramp: str) -> dict[str, str | None]:
    """Penalties by unit."""
    return {
        "nau": f"sparsity:0.01:linear:{ramp}",
        "nmu": f"sparsity:10:linear:{ramp}",
        "snmu": f"sparsity:10:linear:{ramp}",
        "nru": f"sparsity:10:linear:{ramp}",
        "nmru": f"sparsity:10:linear:{ramp}",
        "mcfc": f"saturation:10:linear:{ramp}",
        "mul_mcfc": f"saturation:10:linear:{ramp}",
        "inalu": "size:0.05:below:1:10000",
        **dict.fromkeys(("nac", "mnac", "nalu", "gnalu", "mlp_bias")),
    }
