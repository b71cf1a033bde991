"""Settings, sweeps and their mistakes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import Field

from nalu_ray import registry
from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.sweep.presets import (
    Point,
    Preset,
    expand,
    load_sweep,
    parse_seeds,
    sweep_of,
)
from nalu_ray.sweep.resources import Resources
from nalu_ray.task import Setting
from nalu_ray.training.fields import Range, SupervisedSetting


class Net(Setting):
    layer: Literal["nac", "nalu", "relu"] = Field("nac", description="layer")
    op: str = Field("add", description="operation")
    lr: float = Field(0.1, gt=0, description="rate")
    hidden: int = Field(2, description="units")
    clip: float | None = Field(None, gt=0, description="norm")
    span: Range = Field((0.0, 1.0), description="range")
    start: float = Field(0.5, description="read by nalu alone")

    def unread(self) -> dict[str, str]:
        return {} if self.layer == "nalu" else {"start": f"{self.layer} has no start"}


def preset(**values: Any) -> Preset:
    return Preset.model_validate(values)


def values(points: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(point.setting, name) for name in names) for point in points]


def mistakes(*arguments: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        expand(*arguments)
    return caught.value.messages


# -- settings --------------------------------------------------------------------------------------


def test_id_depends_on_the_values_alone() -> None:
    assert Net(lr=0.5, hidden=3).id == Net(hidden=3, lr=0.5).id
    assert Net(lr=1).id == Net(lr=1.0).id
    assert len({Net(hidden=n).id for n in range(50)}) == 50


def test_id_is_the_same_in_another_process() -> None:
    code = "from nalu_ray.task import setting_id; print(setting_id({'b': 1.5, 'a': 'x'}))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert outputs == {"099f4bcf556f24a5\n"}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_are_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Net(lr=bad)


# -- seeds and resources ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("3", (0, 1, 2)),
        (3, (0, 1, 2)),
        ("3,7", (3, 7)),
        ("3,", (3,)),
        ("0-3", (0, 1, 2, 3)),
        ("7-7", (7,)),
        ("0-1,7,20-21", (0, 1, 7, 20, 21)),
        ([3], (3,)),
        ([7, 3], (7, 3)),
    ],
)
def test_seeds(text: Any, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text",
    [
        *("0", "-1", "x", "1.5", "1_0", "3,3", "3,-1", [], "", ",", [True], [1.0], "٣", True),
        *("3-1", "0-3,2", "1-", "-1-3", "0-9999999"),
    ],
)
def test_impossible_seeds(text: Any) -> None:
    with pytest.raises(ConfigError, match="seeds="):
        parse_seeds(text)


@pytest.mark.parametrize("gpus", [0, 1, 0.5, 0.25, 0.33])
def test_gpus_that_fill_a_device(gpus: float) -> None:
    assert Resources(gpus_per_trial=gpus).gpus_per_trial == gpus


def test_gpus_that_are_to_be_measured() -> None:
    found = Resources.model_validate({"gpus_per_trial": "auto"})
    assert (found.gpus_per_trial, found.gpus) == ("auto", 1.0)
    assert Resources.model_validate({"gpus_per_trial": "0.25"}).gpus == 0.25


def test_more_seeds_than_may_be_are_refused_before_they_are_made() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_seeds("20240601")
    assert str(caught.value) == (
        "seeds='20240601': a count is at most 1,000,000 seeds; "
        "for this one seed write seeds=20240601,"
    )
    assert parse_seeds("20240601,") == (20240601,)
    for huge in (10**9, "1000000000", "9" * 5000, 10**30):
        with pytest.raises(ConfigError, match="at most 1,000,000 seeds") as caught:
            parse_seeds(huge)
        assert len(str(caught.value)) < 200


def test_seeds_fit_in_64_bits() -> None:
    assert parse_seeds(f"{2**63 - 1},") == (2**63 - 1,)
    for seeds in (f"{2**63},", [0, 2**63], "3," + "9" * 5000):
        with pytest.raises(ConfigError, match=r"a seed is at most 2\^63 - 1"):
            parse_seeds(seeds)


@pytest.mark.parametrize("field", ["cpus_per_trial", "seeds_per_trial", "max_concurrent"])
@pytest.mark.parametrize("bad", [True, "1_0", 2**64])
def test_resources_are_plain_numbers(field: str, bad: Any) -> None:
    if field == "cpus_per_trial" and bad == 2**64:
        return
    with pytest.raises(ValueError, match=field):
        Resources.model_validate({field: bad})


@pytest.mark.parametrize(
    "gpus", [0.4, 0.7, 0.98, 1.04, 1.5, 2, 2.03, 64, True, "1_0", -1, 1e-320, "some", "nan", None]
)
def test_gpus_that_do_not(gpus: float) -> None:
    with pytest.raises(ValueError, match="gpus_per_trial"):
        Resources.model_validate({"gpus_per_trial": gpus})


# -- sweeps ----------------------------------------------------------------------------------------


def test_axes_make_a_grid_and_changes_extend_it() -> None:
    sweep = preset(axes={"layer": ["nac", "nalu"]}, set={"lr": 0.5}, seeds=3)
    points = expand(sweep, Net, {"op": ["add", "mul"]})
    assert values(points, "layer", "op", "lr") == [
        ("nac", "add", 0.5),
        ("nac", "mul", 0.5),
        ("nalu", "add", 0.5),
        ("nalu", "mul", 0.5),
    ]
    assert {point.seeds for point in points} == {(0, 1, 2)}


def test_a_change_replaces_an_axis_a_value_and_an_override() -> None:
    override = {"when": {"layer": ["nalu"]}, "set": {"lr": 0.7}, "axes": {"hidden": [4, 8]}}
    sweep = preset(axes={"layer": ["nac", "nalu"]}, set={"lr": 0.5}, overrides=[override])
    assert values(expand(sweep, Net, {}), "layer", "lr", "hidden") == [
        ("nac", 0.5, 2),
        ("nalu", 0.7, 4),
        ("nalu", 0.7, 8),
    ]
    changed = expand(sweep, Net, {"lr": [0.9], "hidden": [3], "layer": ["nalu"]})
    assert values(changed, "layer", "lr", "hidden") == [("nalu", 0.9, 3)]


def test_an_override_matches_a_field_that_is_left_at_its_default() -> None:
    sweep = preset(axes={"layer": ["nac"]}, overrides=[{"when": {"op": ["add"]}, "seeds": [7]}])
    assert [point.seeds for point in expand(sweep, Net, {})] == [(7,)]
    assert [point.seeds for point in expand(sweep, Net, {"op": ["mul"]})] == [(0,)]


def test_seeds_of_the_command_line_win_everywhere() -> None:
    sweep = preset(seeds=3, overrides=[{"when": {"op": ["add"]}, "seeds": [7]}])
    assert [point.seeds for point in expand(sweep, Net, {}, (1, 2))] == [(1, 2)]


def test_points_that_become_equal_are_one_with_all_seeds() -> None:
    overrides = [
        {"when": {"hidden": [3]}, "seeds": [5, 1]},
        {"when": {"hidden": [3]}, "set": {"hidden": 2}},
    ]
    sweep = preset(axes={"hidden": [2, 3]}, seeds=2, overrides=overrides)
    (point,) = expand(sweep, Net, {})
    assert point.setting == Net()
    assert point.seeds == (0, 1, 5)


# -- what is not read ------------------------------------------------------------------------------


def test_a_field_is_varied_where_it_is_read() -> None:
    sweep = preset(
        axes={"layer": ["nac", "nalu"]},
        overrides=[{"when": {"layer": ["nac"]}, "set": {"start": 0.75}}],
    )
    assert values(expand(sweep, Net, {"start": [1, 2]}), "layer", "start") == [
        ("nac", 0.75),
        ("nalu", 1.0),
        ("nalu", 2.0),
    ]


def test_an_axis_of_a_sweep_is_not_varied_where_it_is_not_read() -> None:
    sweep = preset(axes={"layer": ["nac", "nalu"], "start": [1, 2]}, seeds=3)
    assert values(expand(sweep, Net, {}), "layer", "start") == [
        ("nac", 0.5),
        ("nalu", 1.0),
        ("nalu", 2.0),
    ]
    # the command line took its readers away, and did not ask for it
    assert values(expand(sweep, Net, {"layer": ["nac"]}), "start") == [(0.5,)]


@pytest.mark.parametrize(
    ("sweep", "changes"),
    [
        ({}, {"start": [1.0, 2.0]}),
        ({"axes": {"layer": ["nac", "relu"]}}, {"start": [1.0, 2.0]}),
        ({"axes": {"layer": ["nac", "relu"], "start": [1.0, 2.0]}}, {}),
        ({"axes": {"layer": ["nalu"]}}, {"layer": ["relu"], "start": ["1", 2]}),
    ],
)
def test_a_field_that_nothing_reads_is_refused(
    sweep: dict[str, Any], changes: dict[str, Any]
) -> None:
    (told,) = mistakes(preset(**sweep), Net, changes)
    assert told.startswith("start=1.0, 2.0: it has no effect, as ")
    assert told.endswith(" has no start")


# -- mistakes --------------------------------------------------------------------------------------


def test_every_mistake_is_told_at_once_and_only_once() -> None:
    changes = {"laier": ["nac"], "layer": ["nacc"], "lr": ["fast", -1], "hidden": [2, 3]}
    told = mistakes(preset(), Net, changes)
    assert [line.split(":")[0].split(".")[0] for line in told] == [
        "unknown field 'laier'",
        "layer='nacc'",
        "lr='fast'",
        "lr=-1",
    ]
    assert "Did you mean 'layer'?" in told[0]
    assert "Did you mean 'nac'? Allowed: nac, nalu, relu" in told[1]
    assert "valid number" in told[2]
    assert "greater than 0" in told[3]


def test_a_field_that_only_the_sweep_file_names_is_told_as_such() -> None:
    sweep = preset(set={"lrr": 1}, overrides=[{"when": {"lyer": ["nac"]}}])
    told = mistakes(sweep, Net, {})
    assert [line.split(" Allowed")[0] for line in told] == [
        "sweep: unknown field 'lrr'. Did you mean 'lr'?",
        "sweep: unknown field 'lyer'. Did you mean 'layer'?",
    ]


@pytest.mark.parametrize(
    ("when", "told"),
    [
        (
            {"lr": ["fast"]},
            "lr='fast': Input should be a valid number, unable to parse string as a",
        ),
        ({"lr": [True]}, "lr=True: true is not a number"),
        ({"lr": [-1]}, "lr=-1: Input should be greater than 0"),
        ({"layer": ["nalo"]}, "layer='nalo': Input should be 'nac', 'nalu' or 'relu'"),
        ({"lr": []}, "lr=[]: an empty list matches no point; leave lr out"),
        ({"lr": [0.5, 0.25]}, "lr=0.25: no point has it; there is 0.5, 1.0, 0.75"),
        ({"layer": ["relu"]}, "layer='relu': no point has it; there is 'nac', 'nalu'"),
        ({"hidden": [3]}, "hidden=3: no point has it; there is 2"),
    ],
)
def test_a_condition_that_no_point_can_meet_is_named(when: dict[str, Any], told: str) -> None:
    sweep = preset(
        axes={"layer": ["nac", "nalu"], "lr": [0.5, 1]},
        overrides=[{"when": {"layer": ["nac"]}, "set": {"lr": 0.75}}, {"when": when}],
    )
    (line,) = mistakes(sweep, Net, {})
    assert line.startswith(f"sweep: overrides.1.when.{told}")


def test_a_condition_that_a_change_can_meet_is_none() -> None:
    sweep = preset(overrides=[{"when": {"lr": [0.7]}, "set": {"hidden": 9}}])
    assert values(expand(sweep, Net, {"lr": [0.7]}), "hidden") == [(9,)]
    assert "no point has it" in mistakes(sweep, Net, {})[0]


@pytest.mark.parametrize("written", ["1e-3", "'1e-3'", "0.001", ".001"])
@pytest.mark.parametrize("asked", ["1e-3", "0.001"])
def test_conditions_are_compared_as_the_fields_type(
    tmp_path: Path, written: str, asked: str
) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        f"task: net\npresets: {{smoke: {{axes: {{lr: [0.1, {asked}]}}, "
        f"overrides: [{{when: {{lr: [{written}]}}, set: {{hidden: 7}}}}]}}}}\n"
    )
    sweep = load_sweep("net", file).presets["smoke"]
    assert values(expand(sweep, Net, {}), "lr", "hidden") == [(0.1, 2), (0.001, 7)]


def test_a_range_is_a_condition_however_it_is_written() -> None:
    sweep = preset(
        axes={"span": ["1:3", [0, 2]]}, overrides=[{"when": {"span": [[1, 3]]}, "set": {"lr": 5}}]
    )
    assert values(expand(sweep, Net, {}), "span", "lr") == [((1, 3), 5), ((0, 2), 0.1)]


def test_a_file_is_typed_as_the_command_line_is(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "task: net\npresets:\n  smoke:\n    axes: {clip: [none, 1, '2']}\n"
        "    set: {span: 1:3, hidden: 1e5, lr: 1e-3}\n"
    )
    points = expand(load_sweep("net", file).presets["smoke"], Net, {})
    assert values(points, "clip", "span", "hidden", "lr") == [
        (clip, (1.0, 3.0), 100_000, 0.001) for clip in (None, 1.0, 2.0)
    ]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"hidden": 2**63}, "hidden=9223372036854775808: whole numbers go up to 2^63 - 1"),
        ({"hidden": "9" * 5000}, "hidden='999"),
        ({"hidden": True}, "hidden=True: true is not a number"),
        ({"lr": "1_0"}, "lr='1_0': write numbers without '_'"),
        ({"hidden": "1_0"}, "hidden='1_0': write numbers without '_'"),
        ({"span": "1_0:20"}, "span='1_0:20': write numbers without '_'"),
        ({"span": [False, True]}, "span=[False, True]: false is not a number"),
        ({"layer": "x" * 500}, "layer='xxx"),
        ({"layer": "a\x1b[31m\n"}, r"layer='a\x1b[31m\n'"),
    ],
)
def test_values_that_are_no_plain_numbers_are_refused_in_a_short_line(
    values: dict[str, Any], told: str
) -> None:
    changes = {name: [value] for name, value in values.items()}
    (line,) = mistakes(preset(), Net, changes)
    assert line.startswith(told)
    assert len(line) < 350
    assert line.isprintable()


def test_a_grid_is_bounded_before_it_is_made() -> None:
    many = [n / 100 for n in range(1, 101)]
    changes: dict[str, list[Any]] = {"lr": many, "clip": many, "hidden": list(range(1000))}
    assert mistakes(preset(), Net, changes) == [
        "a sweep of 10,000,000 settings or more: at most 10,000 settings; split it"
    ]
    (line,) = mistakes(preset(axes={"lr": many}, seeds=20_000), Net, {})
    assert line == (
        "a sweep of 100 settings or more: at most 1,000,000 runs, settings times seeds; split it"
    )
    inside = preset(overrides=[{"when": {"hidden": [2]}, "axes": changes}])
    assert "at most 10,000 settings" in mistakes(inside, Net, {})[0]


@pytest.mark.parametrize(
    ("sweep", "changes", "told"),
    [
        ({"set": {"lr": "fast"}, "axes": {"lr": [1]}}, {}, "sweep: set.lr='fast': Input should"),
        ({"set": {"lr": [1]}}, {"lr": [2]}, "sweep: set.lr=[1]: Input should be a valid number"),
        ({"axes": {"lr": [1, True]}}, {"lr": [2]}, "sweep: axes.lr=True: true is not a number"),
    ],
)
def test_a_wrong_value_is_named_though_another_takes_its_place(
    sweep: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    (line,) = mistakes(preset(**sweep), Net, changes)
    assert line.startswith(told)


def test_a_value_that_is_replaced_is_said_once() -> None:
    sweep = preset(set={"redraw": "10"}, overrides=[{"when": {"penalty": ["l1@*:-1"]}}])
    assert mistakes(sweep, SupervisedSetting, {"redraw": [None]}) == [
        "sweep: set.redraw='10': write every:losses:above:range",
        "sweep: overrides.0.when.penalty='l1@*:-1': the coefficient must be at least 0",
    ]


def test_an_axis_without_values_is_a_mistake() -> None:
    assert mistakes(preset(axes={"op": []}), Net, {}) == ["no settings: an axis has no values"]


def test_did_you_mean_names_the_nearest_or_none() -> None:
    assert "Did you mean 'static'?" in did_you_mean("task", "sttaic", ["static", "identity"])
    assert "Did you mean" not in did_you_mean("task", "xyz", ["static", "identity"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read sweep"),
        (b"a: [1", "is not YAML"),
        (b"\xff\xfe\x00", "is not YAML"),
        (b"", "dictionary"),
        (b"task: net\npresets: {smoke: {axis: {}}}", "presets.smoke.axis: no such field"),
        (b"task: net\npresets: {Tiny: {}}", "String should match pattern"),
        (b"task: other\npresets: {}", "'other' is not 'net'"),
        (b"task: net\npresets: {smoke: {axes: {lr: 3}}}", "presets.smoke.axes.lr=3"),
        (b"task: net\npresets: {smoke: {set: {lr: 1, lr: 2}}}", "line 2: 'lr' stands twice"),
        (b"task: net\ntask: net\npresets: {}", "'task' stands twice"),
        (b"[" * 900, "nest"),
        (b"[" + b"0," * 490_000 + b"]", "more than 512 KiB"),
        (
            b"task: net\npresets: {smoke: {seeds: true}}",
            "presets.smoke.seeds=True: true is not a number",
        ),
        (b"task: net\npresets: {smoke: {seeds: " + b"9" * 5000 + b"}}", "5,000 digits"),
    ],
)
def test_a_sweep_file_that_cannot_be_used_says_why(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "sweep.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="sweep") as caught:
        load_sweep("net", file)
    assert message in str(caught.value)


def test_a_sweep_file_is_read_as_written(tmp_path: Path) -> None:
    data = {"task": "net", "presets": {"smoke": {"axes": {"lr": [0.1]}, "seeds": [4]}}}
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(data))
    assert load_sweep("net", file).presets["smoke"] == preset(axes={"lr": [0.1]}, seeds=[4])


def test_a_sweep_file_may_have_presets_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text("task: net\npresets: {madsen-2_hidden: {axes: {lr: [0.1]}}}")
    assert load_sweep("net", file).presets["madsen-2_hidden"] == preset(axes={"lr": [0.1]})


def test_an_override_sees_the_axes_of_those_before_it() -> None:
    sweep = preset(
        axes={"layer": ["nac", "relu"]},
        set={"lr": 0.1},
        overrides=[
            {"when": {"layer": ["nac"]}, "axes": {"lr": [1, 2]}},
            {"when": {"lr": [2]}, "set": {"clip": 3}, "seeds": [7]},
        ],
    )
    points = expand(sweep, Net, {})
    found = [(*fields(point, "layer", "lr", "clip"), point.seeds) for point in points]
    assert found == [("nac", 1, None, (0,)), ("nac", 2, 3, (7,)), ("relu", 0.1, None, (0,))]
    changed = [fields(point, "lr", "clip") for point in expand(sweep, Net, {"lr": [2, 4]})]
    assert changed == [(2, 3), (4, None)] * 2


def fields(point: Point, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(point.setting, name) for name in names)


@pytest.mark.parametrize(
    ("written", "seeds"),
    [('"0-4"', range(5)), ('"7,"', [7]), ("[3, 5-6]", [3, 5, 6]), ("2", [0, 1])],
)
def test_seeds_of_a_file_are_read_as_those_of_the_command_line(
    tmp_path: Path, written: str, seeds: Iterable[int]
) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(f"task: net\npresets: {{mine: {{seeds: {written}}}}}")
    assert parse_seeds(load_sweep("net", file).presets["mine"].seeds) == tuple(seeds)


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("comparison", "laptop"),
        ("npu_small", "laptop"),
        ("recurrent", "mass-laptop"),
        ("sequential_mnist", "laptop"),
        ("single_module", "laptop"),
        ("static", "laptop"),
        ("static_mnist", "laptop"),
    ],
)
def test_a_published_protocol_has_a_laptop_preset_of_45_minutes_on_two_cores(
    name: str, ending: str
) -> None:
    """By the measured time per step and seed that the preset itself declares."""
    task = registry.task(name)
    presets = sweep_of(task).presets
    laptops = [preset for preset in presets if str(preset).endswith(ending)]
    assert laptops
    for preset in laptops:
        points = expand(presets[preset], task.setting_type, {})
        steps = sum(len(point.seeds) * task.steps(point.setting) for point in points)
        assert steps * presets[preset].seed_step_microseconds / 2 < 45 * 60e6, preset
