"""Other packages join by entry points: examples/plugin, and the examples of CONTRIBUTING.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.test_contributing import example

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.xdist_group("plugins")  # one process builds the example
POINTS = {"nalu_ray.tasks": {"mean": "mean"}, "nalu_ray.layers": {"clamped": "clamped"}}


def python(folder: Path, *words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": path, "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def join(folder: Path, name: str, points: dict[str, dict[str, str]]) -> None:
    """Makes a folder on the path a place where a package of that name is installed."""
    metadata = folder / f"{name}-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{key} = {module}" for key, module in modules.items()), ""])
        for group, modules in points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's wheel, as an installer unpacks it."""
    folder = tmp_path_factory.mktemp("plugin")
    source = ROOT / "examples" / "plugin"
    words = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = python(folder, *words, cwd=source)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_they_pass_every_test_that_ours_pass(installed: Path) -> None:
    """The example of examples/, and beside it those of CONTRIBUTING.md as another package."""
    (installed / "clamped.py").write_text(example("layer"))
    (installed / "mean.py").write_text(example("task"))
    (installed / "mean.yaml").write_text(example("sweep"))
    join(installed, "contributed", POINTS)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "nalu_ray.testing"]
    cells = str(ROOT / "tests/layers/cells/test_every_cell.py")
    chosen = "mean or clamped or choice or subset"
    done = python(installed, *words, cells, "-k", chosen)
    assert done.returncode == 0, done.stdout[-3000:]
    counted = re.search(r"(\d+) passed, \d+ deselected", done.stdout)
    assert counted, done.stdout[-3000:]
    assert int(counted[1]) >= 70


def test_the_example_runs_and_stands_in_every_table(installed: Path, tmp_path: Path) -> None:
    code = (
        "from nalu_ray import report, tune\n"
        "words = 'subset --preset smoke --local seeds=1'.split()\n"
        "assert tune.main(words) == 0\n"
        "words = 'static --preset smoke --local seeds=1 layer=choice op=add'.split()\n"
        "assert tune.main(words) == 0\n"
        "assert report.main([]) == 0\n"
    )
    done = python(installed, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "results" / "report"
    board = (folder / "leaderboard.md").read_text(encoding="utf-8")
    assert re.search(r"\| Choice \| .* \|", board)
    assert "(90%)" in board
    assert "In parentheses: made up for this example." in board
    assert "| Choice | 5 |" in board.replace("**", "")  # four weights and one
    assert (folder / "subset" / "subset_inputs_smoke.png").is_file()
    static = (folder / "static" / "static_smoke.md").read_text(encoding="utf-8")
    assert "| Choice |" in static


def test_a_package_that_cannot_be_imported_is_a_warning_with_its_name(tmp_path: Path) -> None:
    join(
        tmp_path,
        "broken",
        {"nalu_ray.layers": {"a": "no_unit"}, "nalu_ray.tasks": {"b": "no_task"}},
    )
    done = python(tmp_path, "-m", "nalu_ray.tune", "--list")
    assert done.returncode == 0
    unit, task = done.stderr.splitlines()
    assert unit.startswith("warning: ")
    assert "layers of 'no_unit' left out: ModuleNotFoundError" in unit
    assert task.startswith("warning: task 'b' of no_task cannot be loaded: ModuleNotFoundError")
    assert "static" in done.stdout
