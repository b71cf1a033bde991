"""Layers and cells are found by name, and a new one is a single file that nothing else names."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import nalu_ray.layers
from nalu_ray.layers import (
    NAC,
    NALU,
    Cell,
    NACCell,
    NALUCell,
    UnitCell,
    UnknownLayerError,
    build,
    build_cell,
    cell_names,
    first_cell,
    get,
    get_cell,
    names,
    pair_names,
    register,
    register_cell,
    registry,
)
from nalu_ray.layers.cells import unit_cell

NEW_LAYER = """
import torch
from torch import nn
from nalu_ray.layers import Stacked, register

class Doubled(nn.Module):
    def __init__(self, in_features, out_features, *, factor=2.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((out_features, in_features), factor))

    def reset_parameters(self, generator=None): ...

    def forward(self, x):
        return x @ self.weight.mT

register("{name}", label="Doubled")(Stacked(Doubled))
"""

NEW_CELL = """
from nalu_ray.layers import Cell, register_cell

@register_cell("counter", label="Counter")
class Counter(Cell):
    def __init__(self, in_features, hidden_features, *, start=0.0):
        super().__init__()
        self.in_features, self.out_features = in_features, hidden_features
        self.start = start

    def initial(self, batch, like):
        return (like.new_full((batch, self.out_features), self.start),)

    def reset_parameters(self, generator=None): ...

    def _step(self, projected, state, weights):
        return state[0] + 1, (state[0] + 1,)
"""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a test registers and imports."""
    cell_names()
    for known in registry._layers, unit_cell._cells:
        monkeypatch.setattr(known, "entries", dict(known.entries))
    before = set(sys.modules)
    yield
    for module in set(sys.modules) - before:
        del sys.modules[module]
    registry._load_plugins.cache_clear()


def test_the_papers_networks_are_there() -> None:
    activations = (
        "tanh sigmoid relu6 softsign selu elu relu crelu none hardtanh threshold softshrink "
        "leaky_relu tanhshrink softplus prelu"
    )
    assert {*activations.split(), "nac", "nalu", "nac_nalu"} <= set(names())
    assert names() == sorted(names())


def test_arithmetic_networks_stack_hidden_layers_plus_one() -> None:
    def kinds(name: str, hidden_layers: int) -> list[type]:
        return [type(layer) for layer in build(name, 5, 3, 2, hidden_layers)]

    assert kinds("nac", 1) == [NAC, NAC]
    assert kinds("nalu", 2) == [NALU, NALU, NALU]
    assert kinds("nalu", 0) == [NALU]
    assert kinds("nac_nalu", 2) == [NAC, NALU, NALU]
    shapes = [(layer.in_features, layer.out_features) for layer in build("nalu", 5, 3, 2, 2)]
    assert shapes == [(5, 3), (3, 3), (3, 2)]
    with pytest.raises(ValueError, match=r"^hidden_layers must be an integer of at least 1, got 0"):
        build("nac_nalu", 5, 3, 2, 0)


def test_options_reach_the_layers_that_take_them() -> None:
    first, second = build("nac_nalu", 5, 3, 2, epsilon=1e-3, init=0.5, gate_init=0.25)
    assert second.epsilon == 1e-3
    assert (first.W_hat == 0.5).all()
    assert (second.M_hat == 0.5).all()
    assert (second.G == 0.25).all()
    assert set(get("nac_nalu").options) == set(get("nalu").options)
    assert set(get("nalu").options) - set(get("nac").options) == {"epsilon", "gate_init"}


def test_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match=r"^layer 'nac' has no option 'epsilon'; its options: init"):
        build("nac", 1, 1, 1, epsilon=1e-3)
    with pytest.raises(TypeError, match=r"'relu' has no option 'activation'; its options: bias"):
        build("relu", 1, 1, 1, activation="tanh")


def test_unknown_name_suggests_and_lists() -> None:
    with pytest.raises(UnknownLayerError, match=r"^unknown layer 'Nalu'\. Did you mean 'nalu'\?"):
        build("Nalu", 1, 1, 1)
    with pytest.raises(UnknownLayerError) as caught:
        get("transformer9000")
    assert "Did you mean" not in str(caught.value)
    assert all(name in str(caught.value) for name in names())


@pytest.mark.usefixtures("fresh")
def test_a_file_in_the_package_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doubled.py").write_text(NEW_LAYER.replace("{name}", "doubled"))
    (tmp_path / "_draft.py").write_text("raise AssertionError('names with _ are skipped')")
    monkeypatch.setattr(nalu_ray.layers, "__path__", [*nalu_ray.layers.__path__, str(tmp_path)])
    assert "doubled" in names()
    net = build("doubled", 3, 2, 1, factor=1.0)
    assert [tuple(p.shape) for p in net.parameters()] == [(2, 3), (1, 2)]
    with pytest.raises(TypeError, match=r"its options: factor$"):
        build("doubled", 3, 2, 1, scale=1.0)


@pytest.mark.usefixtures("fresh")
def test_an_installed_package_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside_layers.py").write_text(NEW_LAYER.replace("{name}", "outside"))
    points = "[nalu_ray.layers]\nanything = outside_layers\nbroken = no_such_module\n"
    metadata = tmp_path / "outside-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    registry._load_plugins.cache_clear()
    with pytest.warns(UserWarning, match="layers of 'no_such_module' left out: .*no_such_module"):
        assert "outside" in names()
    assert get("outside").label == "Doubled"


@pytest.mark.usefixtures("fresh")
def test_a_taken_name_and_a_wrong_factory_are_refused() -> None:
    def factory(
        in_features: int, hidden_features: int, out_features: int, hidden_layers: int = 1
    ) -> nn.Module:
        return nn.Identity()

    def shapeless(width: int, hidden_layers: int = 1) -> nn.Module:
        return nn.Identity()

    with pytest.raises(ValueError, match=r"^layer 'nalu' of .* is taken by .*\.nalu$"):
        register("nalu", label="Mine")(factory)
    with pytest.raises(TypeError, match=r"^layer 'shapeless': its factory must start with"):
        register("shapeless", label="Shapeless")(shapeless)
    assert "shapeless" not in names()
    assert register("mine", label="Mine")(factory) is factory
    assert get("mine").factory is factory


def test_the_papers_cells_are_there() -> None:
    expected = {"rnn_tanh", "rnn_relu", "gru", "lstm", "ugrnn", "dnc", "nac", "nalu", "nalu_lstm"}
    assert expected <= set(cell_names())
    assert cell_names() == sorted(cell_names())


def test_activations_are_no_cells() -> None:
    assert not {"relu", "tanh", "none"} & set(cell_names())
    with pytest.raises(
        UnknownLayerError, match=r"^unknown cell 'relu'\. Did you mean 'rnn_relu'\?"
    ):
        build_cell("relu", 1, 1)


def test_a_units_own_cell_is_preferred() -> None:
    assert type(build_cell("nac", 3, 2)) is NACCell
    assert type(build_cell("nalu", 3, 2)) is NALUCell
    assert get_cell("nalu").label == get("nalu").label


def test_a_pair_is_no_cell_but_its_first_unit_has_one() -> None:
    assert {"nac_nalu", "nau_nmu", "mcfc_linear"} <= set(pair_names())
    assert not set(pair_names()) & set(cell_names())
    for refuse in (get_cell, lambda name: build_cell(name, 3, 2)):
        with pytest.raises(
            UnknownLayerError, match=r"^'nau_nmu' is a pair of units, .*: dnc, .* nau, nmru,"
        ):
            refuse("nau_nmu")
    entry = first_cell("nac_nalu")
    assert (entry.name, entry.label) == ("nac_nalu", get("nac_nalu").label)
    assert type(build_cell(entry, 3, 2)) is NACCell
    assert first_cell("lstm") == get_cell("lstm")


def test_unknown_cell_suggests_and_lists() -> None:
    with pytest.raises(UnknownLayerError, match=r"^unknown cell 'lsmt'\. Did you mean 'lstm'\?"):
        build_cell("lsmt", 1, 1)
    with pytest.raises(UnknownLayerError) as caught:
        get_cell("transformer9000")
    assert all(name in str(caught.value) for name in cell_names())


def test_options_of_cells() -> None:
    assert set(get_cell("nalu").options) > set(get("nalu").options)
    assert set(get_cell("dnc").options) == {"slots", "width", "reads", "clip"}
    assert get_cell("gru").options == ()
    with pytest.raises(TypeError, match=r"^cell 'gru' has no option 'slots'; its options: none$"):
        build_cell("gru", 1, 1, slots=2)


@pytest.mark.usefixtures("fresh")
def test_a_unit_of_one_file_is_a_cell_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doubled.py").write_text(NEW_LAYER.replace("{name}", "doubled"))
    monkeypatch.setattr(nalu_ray.layers, "__path__", [*nalu_ray.layers.__path__, str(tmp_path)])
    assert "doubled" in cell_names()
    assert get_cell("doubled").label == "Doubled"
    assert get_cell("doubled").options == ("factor",)
    cell = build_cell("doubled", 3, 2, factor=1.0)
    assert type(cell) is UnitCell
    # each of the two is the sum of all five: 3 inputs of 1 and both of before
    outputs, _ = cell(torch.ones(1, 3, 3))
    assert outputs[0, :, 0].tolist() == [3, 9, 21]
    with pytest.raises(TypeError, match=r"^cell 'doubled' has no .*; its options: factor$"):
        build_cell("doubled", 3, 2, scale=1.0)


@pytest.mark.usefixtures("fresh")
def test_a_cell_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counter.py").write_text(NEW_CELL)
    monkeypatch.setattr(nalu_ray.layers, "__path__", [*nalu_ray.layers.__path__, str(tmp_path)])
    outputs, _ = build_cell("counter", 3, 2, start=5.0)(torch.ones(1, 2, 3))
    assert outputs.tolist() == [[[6, 6], [7, 7]]]
    assert "counter" not in names()


@pytest.mark.usefixtures("fresh")
def test_a_taken_cell_name_and_a_wrong_cell_factory_are_refused() -> None:
    def factory(in_features: int, hidden_features: int) -> Cell:
        return build_cell("gru", in_features, hidden_features)

    def shapeless(width: int) -> Cell:
        return build_cell("gru", width, width)

    with pytest.raises(
        ValueError, match=r"^cell 'gru' of .* is taken by nalu_ray\.layers\.cells\.gru$"
    ):
        register_cell("gru", label="Mine")(factory)
    with pytest.raises(TypeError, match=r"^cell 'shapeless': its factory must start with"):
        register_cell("shapeless", label="Shapeless")(shapeless)
    assert register_cell("mine", label="Mine")(factory) is factory
    assert "mine" in cell_names()
