"""The versions that a cluster file installs, held against those that the project asks for."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

PROJECT = "nalu-ray"
PINNED = ("ray", "torch")
# What runs on every node, before Ray starts.
FIELD = "setup_commands"
_PYTHON = re.compile(r"--python[= ](\d[\w.]*)|\bpython(\d\.\d[\w.]*)(?= -m venv)")


def mistakes(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each version that is not fixed, or not one of the project's."""
    found = _versions(config)
    for name, allowed in wanted().items():
        here = _here(name)
        if not found[name]:
            asks = f"{PROJECT} asks for {name}{allowed}, such as {here}"
            yield f"{FIELD}: {name} is not pinned; {asks}"
        if len(set(found[name])) > 1:
            yield f"{FIELD}: two versions of {name}: {', '.join(found[name])}"
        for written in dict.fromkeys(found[name]):
            version = written.removeprefix("==")
            if not re.fullmatch(r"\d+(\.\d+)+", version):
                yield f"{FIELD}: {name}{written}: not an exact version, such as {name}=={here}"
            elif not allowed.contains(Version(version)):
                yield f"{FIELD}: {name}{written}: {PROJECT} asks for {name}{allowed}"
    targets = config.get("file_mounts", {})
    if not any(_installs(word, targets) for words in _installing(config) for word in words):
        yield f"{FIELD}: nothing installs the project from file_mounts, such as -e ~/nalu-ray"


def describe(config: dict[str, Any]) -> str:
    """Returns a line such as ``python 3.11.7, ray 2.60.0, torch 2.14.1``."""
    versions = _versions(config).items()
    return ", ".join(f"{name} {''.join(found[:1]).removeprefix('==')}" for name, found in versions)


def wanted() -> dict[str, SpecifierSet]:
    """Returns what the installed project asks for."""
    about = metadata.metadata(PROJECT)
    needs = map(Requirement, metadata.requires(PROJECT) or [])
    named = {need.name: need.specifier for need in needs if need.marker is None}
    return {
        "python": SpecifierSet(about["Requires-Python"]),
        **{name: named[name] for name in PINNED},
    }


def _here(name: str) -> str:
    installed = platform.python_version() if name == "python" else metadata.version(name)
    return Version(installed).public


def _versions(config: dict[str, Any]) -> dict[str, list[str]]:
    """Returns for each name what is written after it, such as ``==2.60.0``."""
    found: dict[str, list[str]] = {"python": [], **{name: [] for name in PINNED}}
    for command in config.get(FIELD, []):
        found["python"] += ["==" + "".join(groups) for groups in _PYTHON.findall(command)]
    for words in _installing(config):
        for word in words:
            try:
                need = Requirement(word)
            except InvalidRequirement:
                continue
            if need.name in PINNED:
                found[need.name].append(str(need.specifier))
    return found


def _installing(config: dict[str, Any]) -> Iterator[list[str]]:
    for command in config.get(FIELD, []):
        _, install, rest = command.partition(" install ")
        if install:
            try:
                yield shlex.split(rest)
            except ValueError:  # quotes that do not match
                yield rest.split()


def _installs(word: str, targets: dict[str, Any]) -> bool:
    return any(f"{target}/".startswith(word.rstrip("/") + "/") for target in targets)
