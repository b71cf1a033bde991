"""Commands as they are printed."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nalu_ray.input import invocation


def virtual(folder: Path) -> Path:
    """An environment as venv makes it: its Python is a link to another's."""
    bin_ = folder / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "python").symlink_to(sys.executable)
    (bin_ / "tool").write_text("#!/bin/sh\n")
    (bin_ / "tool").chmod(0o755)
    return bin_


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    bin_ = virtual(tmp_path / ".venv")
    monkeypatch.setattr(sys, "executable", str(bin_ / "python"))
    monkeypatch.setenv("PATH", str(virtual(tmp_path / "other")))
    monkeypatch.chdir(tmp_path)
    return bin_


def test_an_activated_environment_needs_no_path(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(environment), prepend=os.pathsep)
    words = ["static", "--out", "my results"]
    assert (
        invocation.command("report", words) == "python -m nalu_ray.report static --out 'my results'"
    )
    assert invocation.program("tool") == "tool"


def test_python_of_another_environment_is_not_ours(environment: Path) -> None:
    """Both are links to one file, and only one of them has this package."""
    assert invocation.command("tune") == ".venv/bin/python -m nalu_ray.tune"
    assert invocation.program("tool") == ".venv/bin/tool"
    assert invocation.program("missing") == "missing"


def test_from_another_folder_the_path_is_whole(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert invocation.interpreter() == str(environment / "python")
    moved = virtual(folder / "my env")
    monkeypatch.setattr(sys, "executable", str(moved / "python"))
    assert invocation.interpreter() == "'my env/bin/python'"
    monkeypatch.setattr(sys, "executable", "")
    assert invocation.interpreter() == "python"


def test_texts_of_help_are_adapted(environment: Path) -> None:
    text = "examples:\n  python -m nalu_ray.watch gridworld\n  python -m pytest\n"
    expected = text.replace("python -m nalu_ray", ".venv/bin/python -m nalu_ray")
    assert invocation.adapted(text) == expected
    assert invocation.adapted(expected) == expected


def test_the_printed_command_runs_where_nothing_is_activated(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    run = [sys.executable, "-m", "nalu_ray.report", "--out", str(tmp_path / "none")]
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), "HOME": str(tmp_path)}
    refused = subprocess.run(run, capture_output=True, text=True, check=False, env=variables)
    assert refused.returncode == 2
    command = shlex.split(refused.stderr.split("first: ")[1])
    assert os.path.samefile(command[0], sys.executable)
    assert command[1:] == ["-m", "nalu_ray.tune", "static"]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("words", "code"), [("layer=nac,nalu options='a:1'", 0), ("wrong", 2)])
def test_make_ends_with_the_line_that_activates(tmp_path: Path, words: str, code: int) -> None:
    root = Path(__file__).resolve().parents[2]
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "ran $@"; [ "$4" != wrong ]\n')
    python.chmod(0o755)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv" / ".installed").touch()
    make = ["make", "-f", str(root / "Makefile"), "static", f"ARGS={words}"]
    # `make test` runs this test: the inner make must not see the outer one
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    own = {name: value for name, value in os.environ.items() if name not in outer}
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, check=False, env=own)
    assert done.returncode == code
    said, ran, last = done.stdout.splitlines()
    assert said == f".venv/bin/python -m nalu_ray.tune static {words}"
    assert ran == f"ran -m nalu_ray.tune static {words}".replace("'", "")
    assert last == "to run more, activate the environment: . .venv/bin/activate"
    variables = {**own, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        make, cwd=tmp_path, capture_output=True, text=True, check=False, env=variables
    )
    assert done.stdout.splitlines() == [said, ran]
