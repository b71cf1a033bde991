"""Field types as the command line writes them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nalu_ray import layers
from nalu_ray.errors import ConfigError
from nalu_ray.registry import task
from nalu_ray.sweep.presets import Preset, expand
from nalu_ray.tasks.static import TASK, StaticSetting


def test_texts_of_the_command_line_become_what_they_mean() -> None:
    setting = StaticSetting.model_validate(
        {"gate_init": "0.2:glorot", "options": "epsilon:1e-5;m_hat_init:normal",
         "weight_init": "0.1", "train_range": "-1:1", "test_range": "1:2", "op": "sub",
         "steps": "1000", "clip": "0.5"}
    )  # fmt: skip
    assert setting.gate_init == (0.2, "glorot")
    assert setting.options == {"epsilon": 1e-5, "m_hat_init": "normal"}
    whole = StaticSetting.model_validate({"options": "a:8;b:8.0"}).options
    assert [type(value) for value in whole.values()] == [int, float]
    assert setting.weight_init == 0.1
    assert setting.train_range == (-1.0, 1.0)
    assert (setting.steps, setting.clip) == (1000, 0.5)


def test_the_network_gets_each_layers_initialisation() -> None:
    first, second = TASK.build(StaticSetting(layer="nalu", gate_init=(0.25, -0.5), weight_init=0.0))
    assert (first.G == 0.25).all()
    assert (second.G == -0.5).all()
    assert not first.W_hat.any()
    first, second = TASK.build(StaticSetting(layer="nac_nalu", gate_init=(0.25, -0.5)))
    assert (second.G == -0.5).all()
    assert first.W_hat.abs().max() <= 0.5
    TASK.build(StaticSetting(layer="tanh"))


def test_a_layer_gets_the_fields_that_it_knows() -> None:
    setting = StaticSetting(weight_init=0.5, gate_init=(0.25, -0.5))
    assert setting.layer_options(["init", "epsilon"]) == {"init": 0.5}
    assert setting.layer_options(["gate_init"], gate_init=1.0) == {"gate_init": 1.0}
    # the static task has no such field
    assert setting.layer_options(["memory_init"]) == {}


@pytest.mark.parametrize("written", [0.5, "0.5", [0.5], "0.50"])
def test_one_initialisation_is_for_every_layer_however_it_is_written(written: Any) -> None:
    assert StaticSetting(gate_init=written).gate_init == (0.5,)
    assert task("gridworld").setting_type(far_instructions=30).far_instructions == (30,)


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["bias:false", "{bias: false}", {"bias": False}, {"bias": "false"}]
)
def test_a_bias_that_is_left_out_is_left_out(given: Any) -> None:
    setting = StaticSetting(layer="relu", options=given)
    assert setting.options == {"bias": False}
    assert not any("bias" in name for name, _ in TASK.build(setting).named_parameters())


@pytest.mark.parametrize(
    "given", ["epsilon:1", "epsilon:1.0", "{epsilon: 1}", "epsilon:1e0", {"epsilon": 1}]
)
def test_a_number_is_one_however_it_is_written(given: Any) -> None:
    setting = StaticSetting(layer="nalu", options=given)
    assert setting.id == StaticSetting(layer="nalu", options={"epsilon": 1.0}).id
    assert isinstance(setting.options["epsilon"], float)


@pytest.mark.parametrize(
    ("name", "values", "default"),
    [
        ("static", {"layer": "nalu"}, "epsilon:1e-7"),
        ("static", {"layer": "relu"}, "bias:true"),
        ("static", {"layer": "nac"}, "m_hat_init:~"),
        ("recurrent", {"layer": "nalu"}, "epsilon:1e-7"),
        ("recurrent", {"layer": "lstm"}, "forget_init:0"),
        ("single_module", {"layer": "snmu"}, "noise_low:1"),
        ("mnist_counting", {"layer": "nalu"}, "epsilon:1e-7"),
        ("program", {"layer": "nalu_lstm"}, "gate:input"),
        ("comparison", {"layer": "nsr", "hidden_layers": 0, "hidden": 7}, "registers:7"),
        ("language", {"head": "nalu", "combine": "last"}, "epsilon:1e-7"),
    ],
)
def test_an_option_at_its_default_is_as_without_it(
    name: str, values: dict[str, Any], default: str
) -> None:
    setting_type = task(name).setting_type
    without = setting_type(**values)
    assert setting_type(**values, options=default).id == without.id
    (point,) = expand(Preset(), setting_type, {k: [v] for k, v in values.items()} | {
        "options": ["", default]
    })  # fmt: skip
    assert point.setting.id == without.id


@pytest.mark.parametrize(
    ("name", "values", "other"),
    [
        # NSR alone has as many registers as there are hidden units, not its factory's number
        ("comparison", {"layer": "nsr", "hidden_layers": 0, "hidden": 7}, "registers:1"),
        ("static", {"layer": "nalu"}, "epsilon:1e-6"),
        ("static", {"layer": "relu"}, "bias:false"),
        # rows of this preset are stored with both ends
        ("single_module", {"layer": "snmu"}, "noise_low:1;noise_high:2"),
    ],
)
def test_another_value_of_an_option_is_another_setting(
    name: str, values: dict[str, Any], other: str
) -> None:
    setting_type = task(name).setting_type
    setting = setting_type(**values, options=other)
    assert setting.id != setting_type(**values).id
    assert len(setting.options) == len(other.split(";"))


def test_defaults_of_options_are_what_the_layers_are_built_with() -> None:
    setting = StaticSetting(layer="nalu")
    for name in ("nalu", "relu", "nac_nalu", "snmu"):
        entry = layers.get(name)
        usual = setting.option_defaults(entry)
        assert usual.keys() <= set(entry.options)
        given = {k: v for k, v in usual.items() if k not in ("device", "dtype")}
        assert repr(layers.build(name, 4, 3, 1, **given)) == repr(layers.build(name, 4, 3, 1))


def test_options_have_the_types_of_the_chosen_layers_factory() -> None:
    dnc = task("program").setting_type(layer="dnc", options="slots:8.0;clip:10")
    assert [type(value) for value in dnc.options.values()] == [int, float]
    cell = task("recurrent").setting_type(layer="lstm", options="forget_init:1;recurrent_init:2")
    assert cell.options == {"forget_init": 1.0, "recurrent_init": 2.0}
    empty = StaticSetting(layer="nac", options="m_hat_init:~")
    assert empty.options == {}
    TASK.build(empty)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        (
            "static",
            {"options": "epsilon:x"},
            "options: epsilon='x': Input should be a valid number",
        ),
        ("static", {"options": "epsilon:1_0"}, "options: epsilon='1_0': write numbers without '_'"),
        ("static", {"options": "epsilon:true"}, "options: epsilon=True: true is not a number"),
        ("static", {"layer": "relu", "options": "bias:2"}, "options: bias=2: "),
        ("static", {"options": "device:cuda"}, "options: device cannot be set"),
        ("static", {"options": "init:1"}, "init is not an option here; set the field weight_init="),
        ("static", {"options": "epsilon:1;epsilon:2"}, "an option is given twice"),
        ("program", {"options": "view:raw"}, "view is not an option here; set the field view="),
        ("program", {"options": "values:2"}, "options cannot contain values"),
        ("program", {"layer": "dnc", "options": "slots:1.5"}, "options: slots=1.5: "),
        (
            "language",
            {"head": "none", "options": "slots:1"},
            "options must be empty: a recurrent head=none has none",
        ),
        ("static", {"options": {"epsilon": 2**64}}, "whole numbers go up to"),
    ],
)
def test_an_option_that_cannot_be_is_named(name: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        task(name).setting_type(**values)
    assert words in str(caught.value)


ADAM = {"adam_beta2", "adam_eps"}


# -- fields that are not read ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values", "unread"),
    [
        ("static", {"layer": "relu6"}, {"weight_init", "gate_init"}),
        ("static", {"layer": "nac"}, {"gate_init"}),
        ("static", {"layer": "nalu"}, set()),
        ("static", {"layer": "nac_nalu"}, set()),
        ("recurrent", {"layer": "lstm"}, {"weight_init", "gate_init", "memory_init"}),
        ("recurrent", {"layer": "nac"}, {"gate_init"}),
        ("recurrent", {"layer": "nac_nalu"}, set()),
        ("mnist_counting", {"layer": "nalu"}, {"hidden"}),
        ("mnist_addition", {"layer": "gru"}, {"weight_init", "gate_init", "memory_init"}),
        ("language", {"head": "nalu", "combine": "last"}, {"memory_init", "registers"}),
        ("language", {"head": "nalu", "combine": "last", "head_layers": 2}, {"memory_init"}),
        ("language", {"head": "none"}, {"weight_init", "gate_init", "memory_init"}),
        ("program", {"layer": "nalu_lstm"}, {"hints"}),
        ("program", {"layer": "lstm", "variant": "addition"}, {"nesting", "registers", "view"}),
        ("identity", {"optimiser": "adam", "train_inputs": "integers"}, {"batch"}),
        ("parity", {"last": "nac"}, set()),
    ],
)
def test_fields_that_change_nothing(name: str, values: dict[str, Any], unread: set[str]) -> None:
    always = {"momentum", "weight_decay", "lr_end", "rmsprop_decay"}  # with adam at a constant rate
    assert set(task(name).setting_type(**values).unread()) == unread | always


@pytest.mark.parametrize(
    ("values", "unread"),
    [
        ({"optimiser": "sgd", "schedule": "linear"}, {*ADAM, "weight_decay", "rmsprop_decay"}),
        ({"optimiser": "muon", "schedule": "cosine"}, {*ADAM, "momentum", "rmsprop_decay"}),
        ({"optimiser": "rmsprop"}, {*ADAM, "momentum", "weight_decay", "lr_end"}),
    ],
)
def test_an_optimiser_reads_its_own_fields(values: dict[str, Any], unread: set[str]) -> None:
    assert set(StaticSetting(layer="nalu", **values).unread()) == unread


def test_a_grid_varies_no_field_of_a_network_that_does_not_read_it() -> None:
    sweep = Preset(set={"weight_init": "normal", "steps": 3})
    changes = {"layer": ["relu6", "nac"], "weight_init": ["glorot", 0.5]}
    points = expand(sweep, StaticSetting, changes)
    found = [(point.setting.layer, point.setting.weight_init) for point in points]
    assert found == [("relu6", "normal"), ("nac", "glorot"), ("nac", 0.5)]
    (alone,) = expand(sweep, StaticSetting, {"layer": ["relu6"]})
    assert points[0].setting.id == alone.setting.id


@pytest.mark.parametrize(
    ("name", "values", "gates", "expected"),
    [
        ("static", {"layer": "nac_nalu"}, ["0.2:-0.2", "0.5:-0.2"], [(0.2, -0.2)]),
        ("static", {"layer": "nac_nalu"}, ["0.2:-0.2", "0.5:1"], [(0.2, -0.2), (0.2, 1)]),
        ("static", {"layer": "nalu"}, ["0.2:-0.2", "0.5:-0.2"], [(0.2, -0.2), (0.5, -0.2)]),
        ("recurrent", {"layer": "nac_nalu"}, ["0.2:-0.2", "0.5:-0.2"], [(0.2, -0.2)]),
        (
            "recurrent",
            {"layer": "nalu", "reader": "nac"},
            ["0.2:-0.2", "0.5:1"],
            [(0.2, -0.2), (0.5, -0.2)],
        ),
        (
            "recurrent",
            {"layer": "lstm", "reader": "nalu"},
            ["1:-0.2", "1:3"],
            [(0.2, -0.2), (0.2, 3)],
        ),
        ("recurrent", {"layer": "nac_nalu"}, ["0.5"], [(0.5,)]),
    ],
)
def test_a_grid_varies_no_part_that_a_network_does_not_read(
    name: str, values: dict[str, Any], gates: list[str], expected: list[Any]
) -> None:
    changes = {k: [v] for k, v in values.items()} | {"gate_init": gates}
    points = expand(Preset(), task(name).setting_type, changes)
    assert [point.setting.gate_init for point in points] == expected


def test_a_part_that_no_network_reads_is_refused_by_name() -> None:
    changes = {"layer": ["nac_nalu"], "gate_init": ["0.5:-0.2"]}
    with pytest.raises(ConfigError, match="no effect, as layer=nac_nalu: the first layer has no"):
        expand(Preset(), StaticSetting, changes)
    # a sweep file's own value stays, and so do the ids of what is stored
    (point,) = expand(Preset(set={"gate_init": "1:-0.2"}), StaticSetting, {"layer": ["nac_nalu"]})
    assert point.setting.gate_init == (1.0, -0.2)
