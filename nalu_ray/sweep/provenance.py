"""Where rows come from: versions, commit and hardware, but no environment variables."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nalu_ray import __version__

HERE = Path(__file__).resolve().parents[1]
# the user's git settings; other variables may name another repository
KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
PACKAGES = ("nalu-ray", "torch", "ray", "numpy", "pandas", "gymnasium")


@functools.cache
def provenance() -> dict[str, Any]:
    """Returns versions, commit, dirty flag and hardware of this process as plain values.

    ``dirty`` is about the source files only; ``no_commit`` gives the reason if there is no commit.
    """
    source = checkout(HERE)
    return {
        "versions": {
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
            # the code that runs, which an editable installation may have passed
            "nalu-ray": __version__,
        },
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


def commit() -> str | None:
    """Returns the commit of the source; None outside a checkout."""
    return checkout(HERE).commit


@dataclass(frozen=True)
class Checkout:
    """The commit of a package's source and whether files differ from it, or why it is unknown."""

    commit: str | None = None
    dirty: bool | None = None
    reason: str | None = None


class _GitError(Exception):
    """Git fails, with its reason."""


@functools.cache
def checkout(package: Path) -> Checkout:
    """Returns the commit of the repository that tracks a package's source, not of another one.

    Args:
        package: folder of the package.
    """
    beside = package.with_name("envs")
    try:
        # fails in another project's repository that only surrounds the package
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
        raise _GitError("git is not installed, or does not answer") from error
    return done.stdout.strip()


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), None)


def _gpus() -> list[str]:
    # a process that trains has loaded torch; one that plans need not wait for it
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
