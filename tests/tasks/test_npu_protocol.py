"""The large task of the neural power unit: its preset and its published values."""

from __future__ import annotations

import pytest

from nalu_ray.sweep.presets import expand, sweep_of
from nalu_ray.tasks.static import TASK
from nalu_ray.tasks.static.network import StaticSetting
from nalu_ray.tasks.static.protocols import NPU as TABLE


def settings() -> list[StaticSetting]:
    points = expand(sweep_of(TASK).presets["npu"], StaticSetting, {})
    assert {len(point.seeds) for point in points} == {10}
    return [point.setting for point in points if isinstance(point.setting, StaticSetting)]


def test_the_preset_is_the_published_task() -> None:
    for setting in settings():
        assert (setting.inputs, setting.hidden) == (100, 100)
        assert (setting.section, setting.overlap) == (50, 12)
        assert (setting.optimiser, setting.steps, setting.batch) == ("rmsprop", 100_000, 128)
        assert setting.rmsprop_decay == 0.9
        assert setting.lr == (0.01 if setting.op == "add" else 0.005)
        ranges = {"sqrt": ((0, 2), (0, 4)), "reciprocal": ((0, 0.5), (-0.5, 0.5))}
        assert (setting.train_range, setting.test_range) == ranges.get(
            setting.op, ((-1, 1), (-4, 4))
        )
        ends = {"sqrt": ("1e-06", "0.0001"), "reciprocal": ("1e-09", "1e-07")}
        first, last = ends.get(setting.op, ("1e-05", "0.0001"))
        assert setting.penalty == f"l1@*:{first}:growth:10:10000:{last}"
        # The published NAU has no bounds.
        power = {"gain": 0.1, "clamp": False}
        assert setting.options == (power if "npu" in setting.layer else {})


def test_the_table_has_what_runs() -> None:
    assert TABLE.columns is not None
    assert {setting.layer for setting in settings()} == set(TABLE.rows.labels)
    assert {setting.op for setting in settings()} == set(TABLE.columns.labels)
    assert "npu" in TABLE.presets


@pytest.mark.parametrize(
    ("layer", "op", "text"),
    [("nau_npu", "add", "0.092"), ("nau_real_npu", "mul", "3.09"), ("nau_nmu", "sqrt", "10.96"),
     ("nalu", "mul", "2.9e83"), ("nau_naive_npu", "add", "161.65"),
     ("nau_npu", "reciprocal", "1e-7"), ("nau_nmu", "reciprocal", "1.622")],
)  # fmt: skip
def test_published_errors_are_as_printed(layer: str, op: str, text: str) -> None:
    assert TABLE.publication is not None
    value = TABLE.publication.lookup(layer, op, "mse")
    assert value is not None
    assert value.text == text
