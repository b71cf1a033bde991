"""What produced a row: versions, commit, hardware. Never the environment's variables."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import nalu_ray

HERE = Path(__file__).resolve().parents[1]
# where the user's settings of git are; every other variable may name a repository of its own
KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
PACKAGES = ("nalu-ray", "torch", "ray", "numpy", "pandas", "gymnasium")


@functools.cache
def provenance() -> dict[str, Any]:
    """Returns versions, commit, dirty flag and hardware of this process as plain values.

    ``dirty`` is of the source alone; ``no_commit`` says why there is no commit.
    """
    source = checkout(HERE)
    return {
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in PACKAGES}},
        "commit": source.commit,
        "dirty": source.dirty,
        "no_commit": source.reason,
        "hardware": {
            "machine": platform.machine(),
            "processor": _processor(),
            "cpus": os.cpu_count(),
            "gpus": _gpus(),
        },
    }


@functools.cache
def code_digest() -> str:
    """Returns a digest of this package's source as it lies here, whatever its history says."""
    digest = hashlib.sha256()
    # Beside each other, whatever else is called envs: see nalu_ray.envs.
    root = Path(nalu_ray.__file__).resolve().parents[1]
    for folder in (root / "envs", root / "nalu_ray"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def commit() -> str | None:
    """Returns the commit of the source; none outside a checkout of it."""
    return checkout(HERE).commit


@dataclass(frozen=True)
class Checkout:
    """The commit of some source and whether files differ from it, or why that is not known."""

    commit: str | None = None
    dirty: bool | None = None
    reason: str | None = None


class _GitError(Exception):
    """Git says no, and why."""


@functools.cache
def checkout(package: Path) -> Checkout:
    """Returns what the repository that holds a package's source says; no other is asked.

    Args:
        package: folder of the package.
    """
    beside = package.with_name("envs")
    try:
        # fails in a repository that merely lies around: that of a project with the package in it
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        commit = _git(package, "rev-parse", "HEAD")
        folders = [str(folder) for folder in (package, beside) if folder.is_dir()]
        status = _git(package, "status", "--porcelain", "--", *folders)
    except _GitError as error:
        return Checkout(reason=_reason(str(error)))
    return Checkout(commit, bool(status))


def _reason(text: str) -> str:
    if "dubious ownership" in text:
        return "another user owns the checkout; git config --global --add safe.directory <its path>"
    if "not a git repository" in text or "did not match any file" in text:
        return "no git repository holds the source"
    lines = text.strip().splitlines()
    return lines[0] if lines else "git fails"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in KEPT}
    environment = {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise _GitError(error.stderr) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise _GitError("git is not to be had, or does not answer") from error
    return done.stdout.strip()


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), None)


def _gpus() -> list[str]:
    # whoever computes has torch loaded; whoever only plans need not wait for it
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
