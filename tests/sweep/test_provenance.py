"""Whose commit rows record: that of the repository that holds the source, or none and why."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nalu_ray.sweep import provenance
from nalu_ray.sweep.provenance import Checkout, checkout

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(folder: Path, *names: str) -> str:
    """A repository of some files; returns its commit."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    checkout.cache_clear()
    yield
    checkout.cache_clear()


def test_a_checkout_has_its_commit_and_whether_its_source_differs(tmp_path: Path) -> None:
    made = repository(tmp_path, "nalu_ray/__init__.py", "envs/world.py")
    package = tmp_path / "nalu_ray"
    assert checkout(package) == Checkout(made, False)
    (tmp_path / "notes.txt").write_text("not source")
    checkout.cache_clear()
    assert checkout(package) == Checkout(made, False)
    (tmp_path / "envs" / "world.py").write_text("x = 2\n")
    checkout.cache_clear()
    assert checkout(package) == Checkout(made, True)


@pytest.mark.parametrize("ignored", [True, False])
def test_a_package_inside_somebodys_project_is_not_of_its_commit(
    tmp_path: Path, ignored: bool
) -> None:
    if ignored:
        (tmp_path / ".gitignore").write_text(".venv\n")
    repository(tmp_path, "work.py")
    package = tmp_path / ".venv" / "lib" / "nalu_ray"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    assert checkout(package) == Checkout(reason="no git repository holds the source")


def test_a_folder_without_a_repository_has_none(tmp_path: Path) -> None:
    assert checkout(tmp_path) == Checkout(reason="no git repository holds the source")


def test_variables_that_name_a_repository_are_not_heeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    made = repository(mine, "nalu_ray/__init__.py")
    repository(other, "nalu_ray/__init__.py", "more.py")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert checkout(mine / "nalu_ray") == Checkout(made, False)
    apart = tmp_path / "installed" / "nalu_ray"
    apart.mkdir(parents=True)
    (apart / "__init__.py").touch()
    assert checkout(apart).commit is None


def test_a_checkout_of_another_owner_says_why_it_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "git"
    words = "fatal: detected dubious ownership in repository at '/somewhere'"
    script.write_text(f'#!/bin/sh\necho "{words}" >&2\nexit 128\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout(tmp_path) == Checkout(
        reason="another user owns the checkout; git config --global --add safe.directory <its path>"
    )


def test_without_git_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout(tmp_path) == Checkout(reason="git is not installed, or does not answer")


def test_the_manifest_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(provenance, "HERE", tmp_path)
    provenance.provenance.cache_clear()
    found = provenance.provenance()
    provenance.provenance.cache_clear()
    assert (found["commit"], found["dirty"]) == (None, None)
    assert found["no_commit"] == "no git repository holds the source"
