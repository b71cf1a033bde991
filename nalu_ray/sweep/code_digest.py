"""Digests of source code: of what a setting's numbers depend on, and of the whole package.

:func:`numbers_digest` is stored with a setting's rows. It starts at the modules of the task and of
the layers that the setting names, and follows the imports in their source through the packages in
:data:`PARTS` and the packages that the task and the layers come from. Comments, docstrings and
formatting do not change it, and neither does the code that plans, stores and prints. torch and
other packages are left out: the manifest has their versions.

:func:`package_digest` tells whether two machines have the same copy of this package.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nalu_ray
from nalu_ray.task import Setting, Task

PARTS = (
    *("nalu_ray.layers", "nalu_ray.training", "nalu_ray.data", "nalu_ray.rl", "nalu_ray.tasks"),
    *("nalu_ray.seeding", "nalu_ray.task", "nalu_ray.envs", "envs"),
)


def numbers_digest(task: Task[Any], setting: Setting) -> str:
    """Returns twelve hexadecimal digits for the source that a setting's numbers depend on."""
    texts = frozenset(_texts([*dict(setting).values(), *setting.units()]))
    return _digest(_units(texts) | {type(task).__module__, type(setting).__module__})


@functools.cache
def package_digest() -> str:
    """Returns twelve hexadecimal digits for this package's source files as they are on the disk."""
    digest = hashlib.sha256()
    # Beside each other, whatever else is called envs: see nalu_ray.envs.
    root = Path(nalu_ray.__file__).resolve().parents[1]
    for folder in (root / "envs", root / "nalu_ray"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@functools.cache
def _digest(roots: frozenset[str]) -> str:
    read = modules(roots)
    text = "".join(f"{name} {read[name]}\n" for name in sorted(read))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def modules(roots: Iterable[str]) -> dict[str, str]:
    """Returns the digest of each module that the roots import, roots included, by module name."""
    # of another package, every module that is reached counts
    parts = (*PARTS, *{name.partition(".")[0] for name in roots} - {"nalu_ray"})
    digests: dict[str, str] = {}
    seen, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        digest, imported = _read(name)
        digests |= {name: digest} if digest else {}
        waiting += [other for other in imported if _within(other, parts)]
    return digests


def _texts(value: Any) -> Iterator[str]:
    """Yields a text, or those within a list, a tuple or the values of a mapping."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


@functools.cache
def _units(texts: frozenset[str]) -> frozenset[str]:
    """Returns the modules of the layers and cells that are named among a setting's texts."""
    from nalu_ray import layers  # noqa: PLC0415 (torch is slow to load)

    entries = [layers.get(name) for name in texts.intersection(layers.names())]
    cells = {*layers.cell_names(), *layers.pair_names()}
    entries += [layers.first_cell(name) for name in texts & cells]
    # a functools.partial hides its function's module, and a factory those of the classes it calls
    factories: list[Any] = [getattr(entry.factory, "func", entry.factory) for entry in entries]
    classes = (part for each in factories for part in getattr(each, "passes_options_to", ()))
    names = {part.__module__ for part in (*factories, *classes)}
    return frozenset(name for name in names if name.partition(".")[0] != "torch")


def _within(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


@functools.cache
def _read(name: str) -> tuple[str, tuple[str, ...]]:
    """Returns the digest of a module's source and its imports; nothing if it has no source."""
    path = tree = None
    try:
        path = _file(name)
        tree = None if path is None else ast.parse(path.read_bytes())
    except (ImportError, ValueError, OSError, SyntaxError):  # built in, compiled, a notebook's
        pass
    if path is None or tree is None:
        return "", ()
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    parts: list[str] = []
    _write(tree, parts)
    text = "".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest(), tuple(_imports(tree, package))


def _file(name: str) -> Path | None:
    """Returns a module's source file without importing it; None for a name within a module."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not rest:
        return Path(spec.origin) if spec and spec.origin else None
    for folder in spec.submodule_search_locations or ():
        base = Path(folder, *rest)
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            dots = "." * node.level
            base = importlib.util.resolve_name(f"{dots}{node.module or ''}", package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _write(node: Any, parts: list[str]) -> None:
    """Writes a syntax tree as text that is the same in every version of Python."""
    if isinstance(node, ast.AST):
        parts.append(f"({type(node).__name__}")
        for field, value in ast.iter_fields(node):
            kept = value[1:] if field == "body" and _is_documented(node) else value
            if kept is not None and kept != []:
                parts.append(f" {field}=")
                _write(kept, parts)
        parts.append(")")
    elif isinstance(node, list):
        for item in node:
            _write(item, parts)
    else:
        parts.append(repr(node))


def _is_documented(node: ast.AST) -> bool:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None
