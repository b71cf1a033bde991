"""What is shipped: the wheel's and the sdist's contents, and that an installed copy works."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import nalu_ray

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.xdist_group("package")  # one process builds one wheel
# Run outside the checkout, in an installed copy whose folder is the one argument.
INSTALLED = """
import sys
from pathlib import Path

import envs
import nalu_ray
from nalu_ray.sweep.presets import configs_folder
from nalu_ray.results.published import load

home = Path(sys.argv[1])
for path in (nalu_ray.__file__, envs.__file__, configs_folder()):
    assert home in Path(path).resolve().parents, path
assert len(load(7))
print(nalu_ray.__version__, *sorted(path.stem for path in configs_folder().glob("*.yaml")))
"""


def _run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _files(folder: str, pattern: str) -> set[str]:
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob(pattern)}
    assert found, f"no {pattern} in {folder}"
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_version_is_a_release_number_with_a_changelog_entry() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", nalu_ray.__version__)
    assert f"## [{nalu_ray.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_wheel_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [item for item in archive.namelist() if item.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    assert metadata["Name"] == "nalu-ray"
    assert metadata["Version"] == nalu_ray.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata["Requires-Python"].split(",")) == {">=3.10", "<3.14"}


@pytest.mark.slow
def test_wheel_holds_the_packages_and_their_data(wheel: Path) -> None:
    wanted = _files("nalu_ray", "*.py") | _files("envs", "*.py") | {"nalu_ray/py.typed"}
    wanted |= _files("nalu_ray/results/published", "*.csv")
    wanted |= _files("nalu_ray/trained", "*.pt") | {"nalu_ray/trained/index.json"}
    wanted |= {f"nalu_ray/{path}" for path in _files("tune_configs", "*.yaml")}
    assert wanted <= _names(wheel)


@pytest.mark.slow
def test_wheel_holds_nothing_else(wheel: Path) -> None:
    info = f"nalu_ray-{nalu_ray.__version__}.dist-info"
    assert {name.split("/")[0] for name in _names(wheel)} == {"nalu_ray", "envs", info}
    assert not [name for name in _names(wheel) if "__pycache__" in name]


@pytest.mark.slow
def test_installed_copy_finds_its_data(wheel: Path, tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    _run("-m", "pip", "install", "--no-deps", "--no-index", "--target", home, wheel)
    version, *tasks = _run(
        "-c", INSTALLED, home.resolve(), cwd=elsewhere, PYTHONPATH=str(home)
    ).split()
    assert version == nalu_ray.__version__
    assert tasks == sorted(path.stem for path in (ROOT / "tune_configs").glob("*.yaml"))


@pytest.mark.slow
def test_sdist_holds_sources_and_no_results(tmp_path: Path) -> None:
    _run("-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "nalu_ray/__init__.py", "tests/test_package.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "results/", ".hypothesis"))]
