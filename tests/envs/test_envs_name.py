"""Another package called ``envs`` neither breaks ours nor is broken by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nalu_ray.envs
from envs.world import World

ROOT = Path(__file__).resolve().parents[2]
SAID = "two packages are called envs: `import envs` is {}, and nalu_ray's own is"
USE = """
import gymnasium, nalu_ray.envs as ours
assert ours.World(size=3).cells == 9, ours.World
env = gymnasium.make("nalu_ray/TimeGridworld-v0", size=3)
assert type(env.unwrapped) is ours.TimeGridworldEnv
many = gymnasium.make_vec("nalu_ray.envs:nalu_ray/TimeGridworld-v0", 2)
assert type(many) is ours.TimeGridworldVectorEnv
env.reset(seed=1), many.reset(seed=1)
import pickle
assert pickle.loads(pickle.dumps(ours.World(size=4))) == ours.World(size=4)
"""


def run(words: list[str], folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder, which comes first on its path; ours comes last."""
    given = os.pathsep.join(map(str, path or (folder, ROOT)))
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": given},
        capture_output=True,
        text=True,
        check=False,
    )


def another(folder: Path, text: str = "THEIRS = True\n") -> Path:
    """Makes another package of the name."""
    (folder / "envs").mkdir(parents=True)
    (folder / "envs" / "__init__.py").write_text(text)
    (folder / "envs" / "world.py").write_text("World = None\n")
    return folder / "envs" / "__init__.py"


def test_with_no_other_it_is_envs() -> None:
    assert nalu_ray.envs.World is World


@pytest.mark.parametrize("first", ["", "import envs; assert envs.THEIRS; "])
def test_a_folder_of_the_working_directory(first: str, tmp_path: Path) -> None:
    theirs = another(tmp_path)
    done = run(["-c", first + USE + "import envs; assert envs.THEIRS"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(SAID.format(theirs))
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["import no_such_module", "("])
def test_one_that_cannot_be_imported(text: str, tmp_path: Path) -> None:
    theirs = another(tmp_path, text)
    done = run(["-c", USE], tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(theirs) in done.stderr


def test_a_module_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "envs.py").write_text("THEIRS = True\n")
    done = run(["-c", USE + "import envs; assert envs.THEIRS"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(SAID.format(tmp_path / "envs.py"))


def test_a_folder_without_python_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    done = run(["-c", USE + "import envs; assert envs.World is ours.World"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_distribution_that_overwrote_ours(tmp_path: Path) -> None:
    """Two distributions that install the same file: the later one's stays."""
    for package in ("envs", "nalu_ray"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=skip)
    (tmp_path / "envs" / "__init__.py").write_text("THEIRS = True\n")
    done = run(["-c", USE + "import envs; assert envs.THEIRS"], tmp_path, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(SAID.format(tmp_path / "envs" / "__init__.py"))


def test_commands_work_beside_it(tmp_path: Path) -> None:
    theirs = another(tmp_path, "raise RuntimeError('theirs')")
    done = run(["-m", "nalu_ray.tune", "gridworld", "--help"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "instructions" in done.stdout
    warning = f"warning: {SAID.format(theirs)} imported as nalu_ray.envs"
    assert done.stderr.splitlines() == [warning]
