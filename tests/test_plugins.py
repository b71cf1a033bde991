"""The tests over all tasks and layers run over another package's too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.test_contributing import example

ROOT = Path(__file__).parents[1]
POINTS = "[nalu_ray.tasks]\nmean = mean\n\n[nalu_ray.layers]\nclamped = clamped\n"
CHOSEN = "mean or clamped"
TESTS = ["test_every_task.py", "test_every_layer.py", "test_every_cell.py"]


def test_the_examples_as_a_package_pass_every_test_that_ours_pass(tmp_path: Path) -> None:
    (tmp_path / "clamped.py").write_text(example("layer"))
    (tmp_path / "mean.py").write_text(example("task"))
    (tmp_path / "mean.yaml").write_text(example("sweep"))
    metadata = tmp_path / "example-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    files = [str(path) for name in TESTS for path in (ROOT / "tests").rglob(name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CHOSEN, *files],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    counted = re.search(r"(\d+) passed, \d+ deselected", done.stdout)
    assert counted, done.stdout[-3000:]
    assert int(counted[1]) >= 60
