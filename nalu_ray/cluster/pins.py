"""The versions that a cluster file installs, held against those that the project asks for."""

from __future__ import annotations

import itertools
import platform
import re
import shlex
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

PROJECT = "nalu-ray"
PINNED = ("ray", "torch")
# What runs on every node, before Ray starts.
FIELD, HEAD_FIELD = "setup_commands", "head_setup_commands"
_LOCKED = re.compile(r"^([\w.-]+) *(==[^\s;\\]+)", re.MULTILINE)
_PIPED = re.compile(r"\b(curl|wget)\b[^|]*\|\s*(sudo\s+)?(ba|z)?sh\b")
_COMMANDS = re.compile(r"&&|\|\||;|\n")
_PYTHON = re.compile(r"--python[= ](\d[\w.]*)|\bpython(\d\.\d[\w.]*)(?= -m venv)")


def mistakes(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each version that is not fixed, or not one of the project's."""
    yield from _unchecked(config)
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
        for _, text in _locks(words, config):
            for name, version in _LOCKED.findall(text or ""):
                if name in PINNED:
                    found[name].append(version)
    return found


def _unchecked(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each thing that is installed as somebody else has it that day."""
    for field in (FIELD, HEAD_FIELD):
        for command in config.get(field, []):
            if piped := _PIPED.search(command):
                yield f"{field}: {piped[0]!r}: runs what comes; install by a checksum"
    for words in _installing(config):
        for path, text in _locks(words, config):
            if text is None:
                yield f"{FIELD}: -r {path}: no such file in file_mounts"
            elif "--require-hashes" not in words:
                yield f"{FIELD}: -r {path}: without --require-hashes"


def _locks(words: list[str], config: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yields each ``-r FILE`` of a command and the file's text here, where `ray up` reads it."""
    for flag, path in itertools.pairwise(words):
        if flag in ("-r", "--requirement"):
            yield path, _text(path, config.get("file_mounts", {}))


def _text(path: str, mounts: dict[str, Any]) -> str | None:
    """Returns the text of what a path on the nodes is a copy of; none where it is of nothing."""
    for target, source in mounts.items():
        inside = path.removeprefix(str(target).rstrip("/"))
        if inside != path and inside[:1] in ("", "/"):
            try:
                local = Path(str(source)).expanduser()
                return (local / inside.lstrip("/")).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                return None
    return None


def _installing(config: dict[str, Any]) -> Iterator[list[str]]:
    for command in config.get(FIELD, []):
        for part in _COMMANDS.split(command):
            _, install, rest = part.partition(" install ")
            if install:
                try:
                    yield shlex.split(rest)
                except ValueError:  # quotes that do not match
                    yield rest.split()


def _installs(word: str, targets: dict[str, Any]) -> bool:
    return any(f"{target}/".startswith(word.rstrip("/") + "/") for target in targets)
