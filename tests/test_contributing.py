"""The examples of CONTRIBUTING.md work as they stand."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import settings

from nalu_ray import layers
from nalu_ray.layers.cells import unit_cell
from nalu_ray.results.analysis.table import build as build_table
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.presets import SweepFile, expand
from nalu_ray.tasks import static
from tests.runs import finish

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def example(name: str) -> str:
    found = re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", TEXT, re.DOTALL)
    assert found, name
    return found[1]


def module(name: str) -> types.ModuleType:
    made = types.ModuleType(f"example_{name}")
    sys.modules[made.__name__] = made
    exec(compile(example(name), f"CONTRIBUTING.md: {name}", "exec"), made.__dict__)
    return made


@pytest.mark.xdist_group("contributing")
def test_tests_of_a_group_share_a_process(request: pytest.FixtureRequest) -> None:
    """pytest-xdist puts the group into the id; with some versions of pytest it does not arrive."""
    grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@contributing") == grouped


def test_the_table_of_where_things_are_is_short_and_its_paths_exist() -> None:
    table = TEXT.partition("## Where things are")[2].partition("\n[docs/")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(lines) == 12
    root = Path(__file__).parents[1]
    names = re.findall(r"`([^`]+)`", table)
    assert {"nalu_ray/sweep/ray/", "envs/"} <= set(names)
    beside = {"store/", "published/", "analysis/", "output/"}  # of nalu_ray/results/
    paths = [f"nalu_ray/results/{name}" if name in beside else name for name in names]
    assert [name for name in paths if not (root / name).exists()] == []


def test_ci_builds_the_site_and_runs_the_tests_in_a_browser() -> None:
    """They need packages that `make test` does not install, so it skips them."""
    root = Path(__file__).parents[1]
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^test-cluster:.*\n\t(.*)$", makefile, re.MULTILINE)
    named = recipe.split("pytest ")[1].split(" $(ARGS)")[0].split()
    of_browser = [
        f"{path.relative_to(root).as_posix()}::{name}"
        for path in sorted((root / "tests").rglob("test_*.py"))
        for name in re.findall(
            r"^@pytest\.mark\.browser\ndef (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert named == ["tests/cluster", *of_browser]
    jobs = yaml.safe_load((root / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    steps = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    for target in ("docs", "test-cluster"):
        assert any(f"make {target}" in step for step in steps)


def test_the_layer_can_be_built_by_name_and_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (layers.registry._layers, unit_cell._cells):
        monkeypatch.setattr(known, "entries", dict(known.entries))
    module("layer")
    assert "clamped" in layers.names()
    network = layers.build("clamped", 4, 2, 1)
    assert network(torch.ones(3, 4)).shape == (3, 1)
    assert layers.get("clamped").label == "Clamped"
    setting = static.StaticSetting(
        layer="clamped", op="add", inputs=6, section=2, steps=1500, lr=0.03, batch=16, test_size=50,
        schedule="cosine",
    )  # fmt: skip
    run = static.TASK.start(setting, [0, 1], torch.device("cpu"))
    rows = finish(run).assign(**setting.model_dump(include={"layer", "op"}), setting_id=setting.id)
    table = build_table(static.TASK.specs().tables[0], rows.assign(task="static"))
    assert [heading.label for heading in table.columns][-1] == "Clamped"
    cell = table.cells["add", "clamped", "extrapolation"]
    assert cell.value is not None
    assert cell.value < 0.05


def test_the_task_runs_its_sweep_and_prints_its_table(tmp_path: Path) -> None:
    task = module("task").TASK
    sweep = SweepFile.model_validate(yaml.safe_load(example("sweep")))
    store = Store(str(tmp_path))
    for point in expand(sweep.presets["smoke"], task.setting_type, {}):
        run = task.start(point.setting, point.seeds, torch.device("cpu"))
        key = {"task": "mean", "setting_id": point.setting.id}
        store.write(point.setting.model_dump(mode="json"), key, finish(run), {})
    table = build_table(task.tables[0], store.load("mean"))
    cell = table.cells["nac", "", "interpolation"]
    assert cell.n == 2
    assert cell.value is not None
    assert cell.value > 0


def test_no_example_of_a_property_fails_for_its_time() -> None:
    assert settings.default.deadline is None
