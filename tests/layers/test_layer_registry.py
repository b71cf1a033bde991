"""Layers are found by name, and a new one is a single file that nothing else names."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn

import nalu_ray.layers
from nalu_ray.layers import NAC, NALU, UnknownLayerError, build, get, names, register, registry

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


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a test registers and imports."""
    names()
    monkeypatch.setattr(registry._layers, "entries", dict(registry._layers.entries))
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

    with pytest.raises(ValueError, match=r"^layer 'nalu' of .* is taken by nalu_ray\.layers\.nac$"):
        register("nalu", label="Mine")(factory)
    with pytest.raises(TypeError, match=r"^layer 'shapeless': its factory must start with"):
        register("shapeless", label="Shapeless")(shapeless)
    assert "shapeless" not in names()
    assert register("mine", label="Mine")(factory) is factory
    assert get("mine").factory is factory
