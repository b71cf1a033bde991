"""The digest of what a setting's numbers depend on: what counts, and what does not."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nalu_ray import layers, registry
from nalu_ray.layers.cells.unit_cell import _cells
from nalu_ray.layers.registry import Registry, _layers
from nalu_ray.sweep import code_digest
from nalu_ray.task import Setting

UNIT = """
    from torch import nn

    from .parts import SCALE

    def unit(in_features, hidden_features, out_features, hidden_layers=1):
        return nn.Linear(in_features, out_features * SCALE)
"""


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    cached = (code_digest._digest, code_digest._read, code_digest._units)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def text(code: str) -> str:
    parts: list[str] = []
    code_digest._write(ast.parse(textwrap.dedent(code)), parts)
    return "".join(parts)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("x = 1  # one", "x  =  1", True),
        ('def f():\n    "text"\n    return 1', "def f(): return 1", True),
        ('class A:\n    """Text."""\n    x = 1', 'class A:\n    """Other."""\n    x = 1', True),
        ("def f(): return 1", "def f(): return 2", False),
        ("x = 1", "x = 1.0", False),
        ("x = 'a'", "x = b'a'", False),
        ("f(a, b)", "f(b, a)", False),
        ("def f(a=1): pass", "def f(a=2): pass", False),
        ("if a: b()", "if a: pass\nb()", False),
        ("a - b", "a + b", False),
        ("x: int = 1", "x: float = 1", False),
    ],
)
def test_only_what_is_computed_counts(before: str, after: str, same: bool) -> None:
    assert (text(before) == text(after)) is same


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A unit of another package, registered as `mine`."""
    folder = tmp_path / "strange_units"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "unit.py").write_text(textwrap.dedent(UNIT))
    (folder / "parts.py").write_text("SCALE = 1")
    (folder / "other.py").write_text("x = 1")
    monkeypatch.syspath_prepend(tmp_path)

    def unit(
        in_features: int, hidden_features: int, out_features: int, hidden_layers: int = 1
    ) -> nn.Module:
        return nn.Linear(in_features, out_features)

    unit.__module__ = "strange_units.unit"
    for known in (_layers, _cells):  # what a test registers ends with it
        assert isinstance(known, Registry)
        monkeypatch.setattr(known, "entries", dict(known.entries))
    layers.register("mine", label="Mine")(unit)
    return folder


class Nested(Setting):
    __module__ = "nalu_ray.task"
    options: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)


def numbers_anew(task: Any, setting: Setting) -> str:
    for function in (code_digest._digest, code_digest._read, code_digest._units):
        function.cache_clear()
    return code_digest.numbers_digest(task, setting)


def digest(layer: str = "nac", task: str = "static", **values: str) -> str:
    found = registry.task(task)
    return numbers_anew(found, found.setting_type(**(values or {"layer": layer})))


def test_an_edited_unit_is_other_code_for_its_rows_only(plugin: Path) -> None:
    nac, mine = digest(), digest("mine")
    assert nac != mine
    for name, content in (("parts.py", "SCALE = 2"), ("unit.py", textwrap.dedent(UNIT) + "y = 1")):
        before = digest("mine")
        (plugin / name).write_text(content)
        assert digest("mine") != before
        assert digest() == nac
    edited = digest("mine")
    (plugin / "other.py").write_text("x = 2")  # which the unit does not import
    (plugin / "parts.py").write_text("SCALE = 2  # more")
    assert digest("mine") == edited
    (plugin / "parts.py").write_text("SCALE =")  # what cannot be read is no reason to fail
    assert digest("mine") != edited


@pytest.mark.parametrize("variant", ["mine", "lstm_mine"])
def test_an_edited_unit_of_the_gridworld_is_other_code(plugin: Path, variant: str) -> None:
    @layers.register_cell("mine", label="Mine")
    def cell(in_features: int, hidden_features: int) -> nn.Module:
        return nn.Linear(in_features, hidden_features)

    cell.__module__ = "strange_units.unit"
    before = [digest(variant=name, task="gridworld") for name in (variant, "lstm_nac")]
    (plugin / "parts.py").write_text("SCALE = 2")
    after = [digest(variant=name, task="gridworld") for name in (variant, "lstm_nac")]
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_units_within_options_and_the_classes_of_a_factory_count(plugin: Path) -> None:
    setting = Nested(options={"inner": ["mine"]})
    (plugin / "odd.py").write_text("x = 1")
    stacked = layers.Stacked(nn.Linear)
    stacked.passes_options_to = (type("Odd", (nn.Linear,), {"__module__": "strange_units.odd"}),)
    layers.register("odd", label="Odd")(stacked)
    task = registry.task("static")
    before = [numbers_anew(task, each) for each in (setting, Nested(options={"inner": "odd"}))]
    for name, content in (("parts.py", "SCALE = 2"), ("odd.py", "x = 2")):
        (plugin / name).write_text(content)
    after = [numbers_anew(task, each) for each in (setting, Nested(options={"inner": "odd"}))]
    torchs = any(name.startswith("torch") for name in code_digest._units(frozenset({"odd"})))
    assert not torchs  # the manifest has its version
    assert before[0] != after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize(
    ("task", "reached"),
    [
        ("static", {"nalu_ray.layers.nac", "nalu_ray.training.supervised", "nalu_ray.seeding"}),
        (
            "static",
            {"nalu_ray.tasks.static", "nalu_ray.tasks.static.data", "nalu_ray.tasks._operands"},
        ),
        ("gridworld", {"nalu_ray.rl.rllib.learner", "envs.world", "nalu_ray.layers.cells.lstm"}),
        ("language", {"nalu_ray.tasks.language.data", "nalu_ray.tasks.language.network"}),
        ("mnist_counting", {"nalu_ray.data.mnist", "nalu_ray.layers.convnet"}),
    ],
)
def test_the_source_is_followed_from_the_task(task: str, reached: set[str]) -> None:
    names = code_digest.modules([f"nalu_ray.tasks.{task}"])
    assert reached <= names.keys()
    apart = (
        "nalu_ray.results",
        "nalu_ray.sweep.ray",
        "nalu_ray.sweep.plan",
        "torch",
        "nalu_ray.sweep.presets",
    )
    assert [name for name in names if name.startswith(apart)] == []
    others = {f"nalu_ray.tasks.{name}" for name in registry.names()} - {f"nalu_ray.tasks.{task}"}
    assert not others & names.keys()


def test_every_task_has_a_digest() -> None:
    found = registry.tasks()
    digests = {code_digest.numbers_digest(task, task.setting_type()) for task in found.values()}
    assert len(digests) == len(found)
    assert {len(digest) for digest in digests} == {12}
