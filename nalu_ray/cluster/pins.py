"""Compares the versions that a cluster file installs with those that the project requires."""

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

from nalu_ray.cluster.exposure import texts

PROJECT = "nalu-ray"
PINNED = ("ray", "torch")
# What runs on every node, before Ray starts.
FIELD = "setup_commands"
_SHOWN = 60
_LOCKED = re.compile(r"^([\w.-]+) *(==[^\s;\\]+)", re.MULTILINE)
_RUNS = r"(?:sudo\s+(?:-\S+\s+)*)?(?:\S*/)?(?:(?:ba|z|da|k)?sh|python[\d.]*|perl|ruby|node)\b"
_DOWNLOADS = r"\b(?:curl|wget)\b"
# curl ... | sh, sh <(curl ...), sh -c "$(curl ...)"
_UNCHECKED = re.compile(
    rf"{_DOWNLOADS}[^|]*\|\s*{_RUNS}|{_RUNS}[^|;&]*(?:<\(|\$\(|`)\s*{_DOWNLOADS}[^)`]*[)`]"
)
_VERIFIES = re.compile(r"\b(?:sha\d+sum|shasum|openssl dgst|gpg|cosign)\b")
_PIP = re.compile(r"\bpip[\d.]* (?:-\S+ )*install (.+)", re.DOTALL)
# options of pip and uv pip with a value
_VALUED = {
    *("-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f"),
    *(
        "--find-links",
        "-t",
        "--target",
        "-p",
        "--python",
        "--prefix",
        "--cache-dir",
        "--torch-backend",
    ),
}
_COMMANDS = re.compile(r"&&|\|\||;|\n")
_PYTHON = re.compile(r"--python[= ](\d[\w.]*)|\bpython(\d\.\d[\w.]*)(?= -m venv)")


def mistakes(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each version that is not exact, or that the project does not allow."""
    yield from _unchecked(config)
    written_versions = _versions(config)
    for name, allowed in wanted().items():
        here = _installed_here(name)
        versions = written_versions[name]
        if not versions:
            asks = f"{PROJECT} asks for {name}{allowed}, such as {here}"
            yield f"{FIELD}: {name} is not pinned; {asks}"
        if len(set(versions)) > 1:
            yield f"{FIELD}: two versions of {name}: {', '.join(versions)}"
        for written in dict.fromkeys(versions):
            version = written.removeprefix("==")
            if not re.fullmatch(r"\d+(\.\d+)+", version):
                yield f"{FIELD}: {name}{written}: not an exact version, such as {name}=={here}"
            elif not allowed.contains(Version(version)):
                yield f"{FIELD}: {name}{written}: {PROJECT} asks for {name}{allowed}"
    targets = [f"{target}/" for target in config.get("file_mounts", {})]
    words = {f"{word.rstrip('/')}/" for words in _installing(config) for word in words}
    if not any(target.startswith(word) for target in targets for word in words):
        yield f"{FIELD}: nothing installs the project from file_mounts, such as -e ~/nalu-ray"


def notes(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each download whose content nothing fixes: a choice, not a mistake."""
    for field, command in _commands(config):
        if not _UNCHECKED.search(command) and not _VERIFIES.search(command):
            for text in re.findall(rf"{_DOWNLOADS} .*", command):
                yield f"note: {field}: {_short(text)!r}: no checksum is verified"
        for part in _COMMANDS.split(command):
            match = _PIP.search(part)
            if match and (word := _without_hash(_words(match[1]))):
                yield (
                    f"note: {field}: pip install {word}: nothing verifies what is downloaded; a "
                    "lock file with --require-hashes does, then --no-deps for the rest"
                )


def _without_hash(words: list[str]) -> str:
    """Returns the first word that makes pip download without a hash; empty if there is none."""
    if {"--require-hashes", "-r", "--requirement"} & {*words}:  # without hashes, a mistake
        return ""
    values = {index + 1 for index, word in enumerate(words) if word in _VALUED}
    named = [w for i, w in enumerate(words) if i not in values and not w.startswith("-")]
    if "--no-deps" in words:  # a folder alone downloads nothing
        named = [word for word in named if not _is_folder(word)]
    return named[0] if named else ""


def _is_folder(word: str) -> bool:
    return word.startswith((".", "/", "~", "$")) and "://" not in word


def describe(config: dict[str, Any]) -> str:
    """Returns a line such as ``python 3.11.7, ray 2.60.0, torch 2.14.1``."""
    firsts = {name: "".join(versions[:1]) for name, versions in _versions(config).items()}
    return ", ".join(f"{name} {first.removeprefix('==')}" for name, first in firsts.items())


def wanted() -> dict[str, SpecifierSet]:
    """Returns the versions that the installed project requires, by name."""
    about = metadata.metadata(PROJECT)
    needs = map(Requirement, metadata.requires(PROJECT) or [])
    named = {need.name: need.specifier for need in needs if need.marker is None}
    return {
        "python": SpecifierSet(about["Requires-Python"]),
        **{name: named[name] for name in PINNED},
    }


def _installed_here(name: str) -> str:
    installed = platform.python_version() if name == "python" else metadata.version(name)
    return Version(installed).public


def _versions(config: dict[str, Any]) -> dict[str, list[str]]:
    """Returns the versions that the commands pin, by package, such as ``["==2.60.0"]``."""
    versions: dict[str, list[str]] = {"python": [], **{name: [] for name in PINNED}}
    for command in config.get(FIELD, []):
        versions["python"] += ["==" + "".join(groups) for groups in _PYTHON.findall(command)]
    for words in _installing(config):
        for word in words:
            try:
                need = Requirement(word)
            except InvalidRequirement:
                continue
            if need.name in PINNED:
                versions[need.name].append(str(need.specifier))
        for _, text in _locks(words, config):
            for name, version in _LOCKED.findall(text or ""):
                if name in PINNED:
                    versions[name].append(version)
    return versions


def _unchecked(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each download without a checksum."""
    for field, command in _commands(config):
        if download := _UNCHECKED.search(command):
            yield f"{field}: {download[0]!r}: runs an unchecked download; verify a checksum"
    for field, value in _fields(config):
        if field.endswith("sourceImage") and "/family/" in value:
            yield f"{field}={value!r}: it changes over time; write an image's name"
    for words in _installing(config):
        for path, text in _locks(words, config):
            if text is None:
                yield f"{FIELD}: -r {path}: no such file in file_mounts"
            elif "--require-hashes" not in words:
                yield f"{FIELD}: -r {path}: without --require-hashes"


def _fields(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields each text of the file with its field, without places in lists."""
    for where, value in texts(config):
        yield ".".join(part for part in where.split(".") if not part.isdigit()), value


def _commands(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields each command with its field, those of node types among them."""
    return ((field, text) for field, text in _fields(config) if field.endswith("_commands"))


def _locks(words: list[str], config: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yields each ``-r FILE`` of a command, and the file's text on this machine."""
    for flag, path in itertools.pairwise(words):
        if flag in ("-r", "--requirement"):
            yield path, _text(path, config.get("file_mounts", {}))


def _text(path: str, mounts: dict[str, Any]) -> str | None:
    """Returns the text of the local file behind a path on the nodes; None if there is none."""
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
                yield _words(rest)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # quotes that do not match
        return text.split()


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
