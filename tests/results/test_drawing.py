"""Figures are the same bytes whatever the user's matplotlib settings are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("drawing")  # one process draws without settings
DRAW = """
import hashlib, sys
from nalu_ray.results.output import figures, traces
from tests.results.samples import frame, mse, run, specs
from tests.results.test_traces import SERIES, TRACE
curve = {0: 1.0, 10: 4.0}
rows = frame(*(run({"layer": "nac", "op": "add"}, seed, mse(curve, curve)) for seed in range(2)))
spec = specs("static").figures[0].model_copy(update={"caption": "$ _"})
drawn = [figures.draw(spec, rows)]
drawn += [traces.draw([TRACE], "a_title"), traces.draw_series([SERIES], "a_title")]
digest = hashlib.sha256()
for figure in drawn:
    for kind in ("png", "pdf", "svg"):
        digest.update(figures.encode(figure, kind))
import matplotlib
assert "matplotlib.pyplot" not in sys.modules
print(digest.hexdigest(), matplotlib.rcParams["text.usetex"])
"""
USERS = """
text.usetex: True
text.color: white
axes.labelcolor: white
axes.facecolor: black
axes.prop_cycle: cycler(color=["w"])
savefig.bbox: tight
savefig.facecolor: black
savefig.transparent: True
font.family: fantasy
lines.linewidth: 20
path.sketch: 1, 100, 2
axes.formatter.use_mathtext: True
"""


def settings(folder: Path, data: bytes) -> None:
    """Writes settings of matplotlib, and beside them its list of fonts, which is slow to make."""
    (folder / "matplotlibrc").write_bytes(data)
    for fonts in Path(matplotlib.get_cachedir()).glob("fontlist-*.json"):
        shutil.copy(fonts, folder)


def draw(folder: Path, **environment: str) -> tuple[str, str]:
    """Draws in a process of its own; returns the figures' digest and the user's text.usetex."""
    clean = {
        name: text for name, text in os.environ.items() if not name.startswith(("MPL", "MATP"))
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", DRAW],
        cwd=folder, env=clean | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    digest, usetex = done.stdout.split()
    return digest, usetex


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest without any settings."""
    return draw(tmp_path_factory.mktemp("plain"))[0]


def test_settings_of_a_file_or_folder_change_nothing(tmp_path: Path, plain: str) -> None:
    settings(tmp_path, USERS.encode())
    assert draw(ROOT, MATPLOTLIBRC=str(tmp_path)) == (plain, "True")
    assert draw(ROOT, MPLCONFIGDIR=str(tmp_path)) == (plain, "True")


@pytest.mark.parametrize("backend", ["module://matplotlib_inline.backend_inline", "tkagg"])
def test_a_backend_that_cannot_be_had_changes_nothing(
    tmp_path: Path, plain: str, backend: str
) -> None:
    assert draw(tmp_path, MPLBACKEND=backend)[0] == plain


def test_a_settings_file_that_cannot_be_read_changes_nothing(tmp_path: Path, plain: str) -> None:
    settings(tmp_path, b"\xff\xfe")
    assert draw(ROOT, MPLCONFIGDIR=str(tmp_path), MPLBACKEND="no_such_backend")[0] == plain
