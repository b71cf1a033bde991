"""Every unit of the registry trains by name in every task whose network is not that of `static`.

test_language.py has the same of its heads.
A task's check builds the network on the meta device and trains one step of two stacked seeds; a new
unit is tested by being registered.
"""

from __future__ import annotations

from typing import Any

import pytest

from nalu_ray import layers, registry
from nalu_ray.sweep.presets import sweep_of
from nalu_ray.training import footprint

LEAST = {
    name: factory.least
    for name in layers.names()
    if isinstance(factory := layers.get(name).factory, layers.Stacked)
}
SMALL = {"batch": 2, "length": 2}
# task, field that names the unit, other values
TRAINED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "recurrent": ("recurrent", "layer", SMALL),
    "mnist_counting": ("mnist_counting", "layer", SMALL | {"pool": 2}),
    "mnist_addition": ("mnist_addition", "layer", SMALL | {"pool": 2}),
    "sequential sum": ("sequential_mnist", "layer", SMALL | {"pool": 2}),
    "sequential product": ("sequential_mnist", "layer", {"op": "product", "batch": 2, "pool": 2}),
    "static_mnist": ("static_mnist", "layer", {"batch": 2, "hidden": 3}),
    "program": ("program", "layer", {"batch": 2, "nesting": 1}),
}
# networks of the same parts
BUILT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "language, two layers": ("language", "head", {"combine": "last", "head_layers": 2}),
    "parity": ("parity", "last", {}),
}
every_unit = pytest.mark.parametrize("unit", LEAST)


@pytest.mark.parametrize(
    ("unit", "place"),
    # a pair is no cell
    [(u, p) for u in LEAST for p in TRAINED if not LEAST[u] or p in ("recurrent", "static_mnist")],
)
def test_a_unit_trains_a_step(unit: str, place: str) -> None:
    name, field, values = TRAINED[place]
    if place == "static_mnist":
        values = values | {"hidden_layers": LEAST[unit]}
    task = registry.task(name)
    task.check(task.setting_type.model_validate({field: unit, **values}))


@every_unit
def test_a_unit_is_built(unit: str) -> None:
    places = dict(BUILT)
    if LEAST[unit]:  # where one unit is trained, pairs are refused
        del places["parity"]
    for name, field, values in places.values():
        task: Any = registry.task(name)
        setting = task.setting_type.model_validate({field: unit, **values})
        network = footprint.without_memory(lambda: task.build(setting))  # noqa: B023
        assert all(parameter.is_meta for parameter in network.parameters())


@pytest.mark.parametrize(
    "name", ["recurrent", "language", "program", "mnist_counting", "mnist_addition"]
)
def test_the_preset_units_has_every_unit(name: str) -> None:
    axes = sweep_of(registry.task(name)).presets["units"].axes
    (named,) = (set(axes[field]) for field in ("layer", "head") if field in axes)
    assert {unit for unit in LEAST if not LEAST[unit]} - named == set()


@pytest.mark.parametrize(
    ("name", "field"),
    sorted(
        {(name, field) for name, field, _ in (TRAINED | BUILT).values()}
        | {("gridworld", "variant")}
    ),
)
def test_tables_call_a_unit_by_its_label(name: str, field: str) -> None:
    specs = registry.task(name).specs()
    axes = [axis for table in specs.tables for axis in (table.rows, table.columns) if axis]
    axes += [figure.lines for figure in specs.figures]
    of_units = [axis for axis in axes if axis.field == field and axis.others]
    assert of_units
    for axis in of_units:
        assert set(LEAST) - {*axis.labels, *axis.more} == set()


def test_the_label_says_what_the_unit_is_part_of() -> None:
    rows = registry.task("language").specs().tables[0].rows
    assert (rows.more["npu"], rows.labels["nac"]) == ("LSTM + NPU", "LSTM + NAC")
