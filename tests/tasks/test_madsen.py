"""The Arithmetic Dataset Task: its presets, and the published values beside its tables."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any

import pytest

from nalu_ray import layers
from nalu_ray.results.analysis.text import in_full, stored
from nalu_ray.results.specs import FigureSpec, TableSpec
from nalu_ray.sweep.presets import Point, expand, sweep_of
from nalu_ray.tasks.static import TASK, protocols
from nalu_ray.tasks.static.network import StaticSetting
from nalu_ray.training.penalty_terms import parse

SWEEP = sweep_of(TASK)
PRESETS = [name for name in SWEEP.presets if name.startswith("madsen")]


def points(preset: str) -> list[Point]:
    return expand(SWEEP.presets[preset], StaticSetting, {})


def settings(preset: str) -> list[StaticSetting]:
    return [point.setting for point in points(preset) if isinstance(point.setting, StaticSetting)]


def table(name: str) -> TableSpec:
    return next(spec for spec in TASK.tables if spec.name == name)


def figure(name: str) -> FigureSpec:
    return next(spec for spec in TASK.figures if spec.name == name)


def test_the_preset_is_the_published_protocol() -> None:
    found = points("madsen")
    assert {len(point.seeds) for point in found} == {100}
    assert {setting.op for setting in settings("madsen")} == {*protocols.OPERATIONS.labels}
    for setting in settings("madsen"):
        assert (setting.inputs, setting.hidden, setting.section, setting.overlap) == (
            100,
            2,
            25,
            12,
        )
        assert (setting.train_range, setting.test_range) == ((1, 2), (2, 6))
        assert (setting.sets, setting.threshold, setting.test_size) == ("plain", "golden", 10_000)
        assert (setting.optimiser, setting.lr, setting.batch) == ("adam", 1e-3, 128)
        assert setting.steps == 1000 * setting.evaluations == 5_000_000
        expected = {
            "nau": "sparsity:0.01:linear:5000:50000",
            "nau_nmu": "sparsity:10:linear:1000000:2000000",
            "nau_mnac_linear": "sparsity:10:linear:1000000:2000000",
            "gated_nau_nmu": "sparsity:10:linear:1000000:2000000",
        }
        assert setting.penalty == expected.get(setting.layer)


POWER = ("npu", "real_npu", "naive_npu", "nau_npu", "nau_real_npu", "nau_naive_npu")
NMUS = (
    "nau_nmu", "nau_mnac_linear", "gated_nau_nmu", "nac_gated_nau_nmu", "nmu", "mnac_linear",
    "snmu", "nau_snmu",
)  # fmt: skip
MODIFIED = (
    "l1@*:1e-09:growth:10:10000:1e-07",
    "sparsity:1:linear:50000:75000",
    "gate:1:linear:50000:75000",
)
# unit -> learning rate, penalty, other fields: what units.md of the publications gives
RECIPES: dict[str, tuple[float, str | None, dict[str, Any]]] = {
    "nau": (1e-3, "sparsity:0.01:linear:5000:50000", {}),
    **dict.fromkeys(NMUS, (1e-3, "sparsity:10:linear:{0}:{1}", {})),
    **dict.fromkeys(
        ("modified_real_npu", "nau_modified_real_npu"), (5e-3, ";".join(MODIFIED), {"clip": None})
    ),
    "nru": (1e-3, "sparsity:10:linear:50000:75000", {"clip": None}),
    **dict.fromkeys(("nmru", "nau_nmru"), (1e-2, "sparsity:10:linear:50000:75000", {"clip": 1.0})),
    "inalu": (
        1e-3,
        "size:0.05:below:1:10000",
        {"clip_value": 0.1, "redraw": "5000:5000:1:2", "options": {"start": "port"}},
    ),
    "mcfc": (1e-3, "saturation:10:linear:50000:75000", {}),
    "mul_mcfc": (1e-3, "saturation:10:linear:50000:75000", {"options": {"spare": 0}}),
    "mcfc_linear": (1e-4, None, {}),
    "mcfc_mul_mcfc": (1e-2, None, {}),
    "mlp_bias": (1e-3, None, {"options": {"width": 100}}),
    **dict.fromkeys(("snapping_nac", "snapping_power", "snapping_nac_power"), (0.1, None, {})),
}
GROWTH = {
    "add": "l1@*:1e-05:growth:10:10000:0.0001",
    "mul": "l1@*:1e-05:growth:10:10000:0.0001",
    "div": "l1@*:1e-09:growth:10:10000:1e-07",
    "sqrt": "l1@*:1e-06:growth:10:10000:0.0001",
}


def normal(penalty: str | None) -> list[str]:
    return [str(term) for term in parse(penalty or "")]


@pytest.mark.parametrize(
    ("preset", "ramp"), [("madsen", (1_000_000, 2_000_000)), ("madsen-laptop", (20_000, 40_000))]
)
def test_each_unit_has_its_published_recipe(preset: str, ramp: tuple[int, int]) -> None:
    sweep = SWEEP.presets[preset].model_copy(update={"every": ["layer"]})
    every = expand(sweep, StaticSetting, {"layer": layers.names()})
    found: dict[str, list[StaticSetting]] = {}
    for point in every:
        assert isinstance(point.setting, StaticSetting)
        found.setdefault(point.setting.layer, []).append(point.setting)
    assert set(found) >= {*RECIPES, *POWER}
    for layer, run in found.items():
        for setting in run:
            if layer in POWER:
                assert setting.lr == (1e-2 if setting.op in ("add", "sub") else 5e-3)
                same = {"sub": "add", "square": "mul"}.get(setting.op, setting.op)
                assert normal(setting.penalty) == normal(GROWTH[same])
                assert (setting.optimiser, setting.rmsprop_decay) == ("rmsprop", 0.9)
                assert setting.options == {"gain": 0.1}
                continue
            lr, penalty, others = RECIPES.get(layer, (1e-3, None, {}))
            assert (layer, setting.lr) == (layer, lr)
            text = penalty.format(*ramp) if penalty else None
            assert (layer, normal(setting.penalty)) == (layer, normal(text))
            for name, value in others.items():
                assert getattr(setting, name) == value
            if "options" not in others:
                assert setting.options == {}
    # a unit that is named gets what it gets within all
    for layer in ("nau_nmu", "nmru", "real_npu", "inalu"):
        alone = expand(SWEEP.presets[preset], StaticSetting, {"layer": [layer]})
        assert {p.setting.id for p in alone} == {s.id for s in found[layer]}


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_has_a_table_or_figure_of_its_own(preset: str) -> None:
    specs: Sequence[TableSpec | FigureSpec] = [*TASK.tables, *TASK.figures]
    shown = [
        spec for spec in specs if any(fnmatch(preset, name) for name in spec.presets if name != "*")
    ]
    assert shown
    assert all(spec.name.startswith("madsen") for spec in shown)


@pytest.mark.parametrize(
    "name",
    [
        "madsen", "madsen_gate", "madsen_by_penalty", "madsen_inputs", "madsen_ablation",
        "madsen_nested",
    ],
)  # fmt: skip
def test_each_published_value_of_a_table_has_its_cell(name: str) -> None:
    spec = table(name)
    assert spec.publication is not None
    assert spec.columns is not None
    for value in spec.publication.values:
        assert value.row in spec.rows.labels
        assert value.column in spec.columns.labels
        assert value.measure in spec.measures


def test_the_penalties_of_the_table_are_those_that_run() -> None:
    run = {str(setting.penalty): setting.op for setting in settings("madsen-penalty")}
    assert set(run) == set(table("madsen_by_penalty").rows.labels)


def test_the_ablation_takes_the_clamp_or_the_penalty_away() -> None:
    assert {len(point.seeds) for point in points("madsen-ablation")} == {50}
    run = set()
    for setting in settings("madsen-ablation"):
        assert (setting.layer, setting.op, setting.steps) == ("nau_nmu", "mul", 5_000_000)
        options = '{"clamp": false}' if setting.options == {"clamp": False} else "{}"
        run.add((options, str(setting.penalty)))
    spec = table("madsen_ablation")
    assert spec.columns is not None
    assert run == {(row, column) for row in spec.rows.labels for column in spec.columns.labels}


def test_the_nested_product_is_of_four_inputs() -> None:
    assert {len(point.seeds) for point in points("madsen-nested")} == {100}
    for setting in settings("madsen-nested"):
        assert (setting.operands, setting.inputs, setting.op) == ("nested", 4, "mul")
        assert setting.steps == 1000 * setting.evaluations == 200_000
        assert setting.penalty is None
    run = {setting.layer for setting in settings("madsen-nested")}
    publication = table("madsen_nested").publication
    assert publication is not None
    assert run == {value.row for value in publication.values}


@pytest.mark.parametrize(
    ("preset", "field"),
    [
        ("madsen-train-range", "train_range"),
        ("madsen-hidden", "hidden"),
        ("madsen-inputs", "inputs"),
        ("madsen-overlap", "overlap"),
        ("madsen-section", "section"),
        ("madsen-lr", "lr"),
    ],
)
def test_each_published_point_of_a_sweep_is_run(preset: str, field: str) -> None:
    spec = figure(f"madsen_by_{field}")
    assert spec.publication is not None
    values = {
        in_full(value)
        for setting in settings(preset)
        for value in [setting.model_dump(mode="json")[field]]
    }
    assert {value.measure for value in spec.publication.values} == values
    assert {value.row for value in spec.publication.values} <= set(spec.lines.labels)
    run = {(setting.layer, setting.op) for setting in settings(preset)}
    assert {(value.row, value.column) for value in spec.publication.values} == run
    assert field not in spec.problem


@pytest.mark.parametrize("sweep", ["inputs", "penalty", "lr"])
def test_a_laptop_preset_of_a_sweep_is_a_part_of_it(sweep: str) -> None:
    budget = {"steps", "evaluations", "test_size"}

    def grid(preset: str) -> set[str]:
        return {setting.model_dump_json(exclude=budget) for setting in settings(preset)}

    part, whole = grid(f"madsen-{sweep}-laptop"), grid(f"madsen-{sweep}")
    assert part < whole
    assert {setting.steps // setting.evaluations for setting in settings(f"madsen-{sweep}")} == {
        setting.steps // setting.evaluations for setting in settings(f"madsen-{sweep}-laptop")
    }


def test_the_figure_of_the_penalty_has_a_line_per_unit_over_its_weight() -> None:
    spec = figure("madsen_by_weight")
    run = {
        (setting.layer, setting.op, (setting.penalty or "").split(":")[1])
        for setting in settings("madsen-penalty")
    }
    assert spec.publication is not None
    assert {value.place for value in spec.publication.values} == run
    assert len(run) == 18
    assert {value.row for value in spec.publication.values} <= set(spec.lines.labels)
    for place, text in {("nau", "add", "10"): "44%", ("nau_nmu", "mul", "0"): "93%"}.items():
        value = spec.publication.lookup(*place)
        assert value is not None
        assert value.text == text
    assert (spec.swept, spec.x_part, spec.presets) == ("penalty", 1, ("madsen-penalty*",))


def test_sizes_of_sections_follow_the_inputs() -> None:
    for setting in settings("madsen-inputs"):
        assert setting.section == setting.inputs // 4
        assert setting.overlap == setting.section // 2
    for setting in settings("madsen-section"):
        assert setting.overlap == setting.section // 2
    signs = {stored(setting.test_signs): setting for setting in settings("madsen-train-range")}
    assert signs["true"].train_range == (-2, 2)
    assert signs["true"].test_range == (2, 6)


NINE = {
    (-20, -10): (-40, -20), (-2, -1): (-6, -2), (-1.2, -1.1): (-6.1, -1.2),
    (-0.2, -0.1): (-2, -0.2), (-2, 2): (2, 6), (0.1, 0.2): (0.2, 2), (1, 2): (2, 6),
    (1.1, 1.2): (1.2, 6), (10, 20): (20, 40),
}  # fmt: skip


def test_the_snmu_and_the_nmu_are_compared_on_nine_ranges() -> None:
    run = points("madsen-train-range-snmu")
    assert {len(point.seeds) for point in run} == {20}
    for setting in settings("madsen-train-range-snmu"):
        assert setting.test_range == NINE[setting.train_range]
        assert setting.test_signs == (setting.train_range == (-2, 2))
        steps = 2_000_000 if setting.layer == "nau_snmu" else 5_000_000
        assert setting.steps == 1000 * setting.evaluations == steps
        assert (setting.section, setting.overlap, setting.lr) == (25, 12, 1e-3)
        assert setting.penalty == "sparsity:10:linear:1000000:2000000"
    assert len(run) == 3 * len(NINE)  # NMU, sNMU, and sNMU with the noise of the batch


def test_the_recipe_of_the_mass_conserving_layers() -> None:
    assert {len(point.seeds) for point in points("madsen-mass")} == {100}
    recipes = {
        setting.op: (setting.layer, setting.hidden, setting.lr, setting.steps, setting.penalty)
        for setting in settings("madsen-mass")
    }
    assert recipes == {
        "add": ("mcfc_linear", 2, 1e-4, 500_000, None),
        "sub": ("mcfc_linear", 3, 1e-4, 500_000, None),
        "mul": ("mcfc_mul_mcfc", 3, 1e-2, 3_000_000, None),
    }


@pytest.mark.parametrize(
    ("name", "place", "text"),
    [
        ("madsen", ("nau_nmu", "mul", "rate"), "98%"),
        ("madsen", ("nau_nmu", "mul", "solved_at"), "1.4e6"),
        ("madsen", ("none", "sub", "rate"), "7%"),
        ("madsen", ("nau", "add", "solved_at"), "1.8e4"),
        ("madsen", ("nac_mnac", "square", "rate"), "77%"),
        ("madsen", ("nau_mnac_linear", "sqrt", "rate"), "3%"),
        ("madsen_gate", ("nac_gated_nau_nmu", "mul", "rate"), "62%"),
        (
            "madsen_ablation",
            ('{"clamp": false}', "sparsity:10:linear:1000000:2000000", "solved_at"),
            "1.3e6",
        ),
        ("madsen_nested", ("nau_nmu", "mul", "rate"), "94%"),
        ("madsen_by_train_range", ("nau_nmu", "mul", "1.1:1.2"), "0%"),
        ("madsen_by_hidden", ("nau_mnac_linear", "mul", "5"), "6%"),
        ("madsen_by_inputs", ("gated_nau_nmu", "mul", "4"), "88%"),
        ("madsen_inputs", ("gated_nau_nmu", "4", "rate"), "88%"),
        ("madsen_inputs", ("nau_nmu", "10", "solved_at"), "5.4e4"),
        ("madsen_by_overlap", ("nau_nmu", "mul", "18"), "72%"),
        ("madsen_by_section", ("nac_mnac_sigmoid", "mul", "50"), "0%"),
        ("madsen_by_penalty", ("sparsity:10:linear:5000:50000", "add", "rate"), "44%"),
        ("madsen_by_lr", ("nac_mnac", "mul", "0.01"), "88%"),
    ],
)
def test_published_values_are_as_printed(name: str, place: tuple[str, str, str], text: str) -> None:
    value = protocols.PUBLISHED[name].lookup(*place)
    assert value is not None
    assert value.text == text
    assert "(2020)" in protocols.PUBLISHED[name].source


def test_unsolved_cells_have_no_step_of_success() -> None:
    values = protocols.PUBLISHED["madsen"].values
    solved = {v.place[:2] for v in values if v.measure == "rate" and v.published().value > 0}
    assert {v.place[:2] for v in values if v.measure == "solved_at"} == solved


def test_tables_and_figures_show_one_problem_each() -> None:
    data = {"train_range", "test_range", "distribution", "operands", "threshold", "solved_below"}
    for spec in (*TASK.tables, *TASK.figures):
        # x of this figure is the range
        ours = "madsen" in spec.name and spec.name != "madsen_by_train_range"
        assert not ours or data <= {*spec.problem}, spec.name
