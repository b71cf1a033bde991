"""What produced a row: versions, commit, hardware. Never the environment's variables."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import nalu_ray

PACKAGES = ("nalu-ray", "torch", "ray", "numpy", "pandas", "gymnasium")


@functools.cache
def provenance() -> dict[str, Any]:
    """Returns versions, commit, dirty flag and hardware of this process as plain values."""
    return {
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in PACKAGES}},
        "commit": commit(),
        "dirty": None if (status := _git("status", "--porcelain")) is None else bool(status),
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
    """Returns the commit of the source; none outside a checkout."""
    return _git("rev-parse", "HEAD")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    folder = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
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
