"""One YAML loader for every file of settings: YAML 1.2's plain values, no key twice, bounded.

PyYAML reads YAML 1.1, where ``1:3`` is 63, ``1e5`` a text, ``off`` false, and of two equal keys the
second wins in silence. Here a plain value is what YAML 1.2's core schema says, plus the merge key
``<<``; numbers have no ``_``; nothing but text, numbers, true, false, null, lists and mappings can
be built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # PyYAML without libyaml: slower, the same
    from yaml import SafeLoader as _Base  # type: ignore[assignment]

MOST_BYTES = 512 * 1024
MOST_NODES = 50_000
MOST_DEPTH = 40
MOST_DIGITS = 40

_TAG = "tag:yaml.org,2002:"
_CORE = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    "merge": (r"<<", "<"),
}
_MERGE = object()
_BASES = {"0o": 8, "0x": 16}


class YAMLError(ValueError):
    """A text is not YAML as it is read here; one line says what and where."""


class _Loader(_Base):
    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Puts the pairs of ``<<`` before a mapping's own: of equal keys, its own is the last.

        Of several mappings that are merged, the first that has a key counts. PyYAML 6.0.4 finds
        equal keys only if they are one character long.
        """
        merged: dict[tuple[str, str], tuple[yaml.Node, yaml.Node]] = {}
        own: dict[tuple[str, str], tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if key.tag != f"{_TAG}merge":
                own[key.tag, key.value] = key, value
                continue
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in sources:
                if not isinstance(source, yaml.MappingNode):
                    problem = "'<<' needs a mapping or a list of mappings"
                    raise yaml.constructor.ConstructorError(None, None, problem, value.start_mark)
                self.flatten_mapping(source)
                for pair in source.value:
                    merged.setdefault((pair[0].tag, pair[0].value), pair)
        node.value = list({**merged, **own}.values())


def read(path: Path) -> Any:
    """Returns the values in a YAML file.

    Raises:
        OSError: it cannot be read.
        YAMLError: it is too large, not UTF-8 or not YAML, or a key stands twice in a mapping.
    """
    return load(read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Returns a file's bytes, at most one more than are allowed; waits for no pipe's writer.

    Raises:
        OSError: it cannot be read.
    """
    waitless = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | waitless)) as file:
        os.set_blocking(file.fileno(), True)
        return file.read(MOST_BYTES + 1)


def load(data: bytes | str) -> Any:
    """Returns the values in a YAML text; checks its size before building them.

    Raises:
        YAMLError: as in :func:`read`.
    """
    text = _decoded(data)
    try:
        _check_size(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_keys(loader, node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise YAMLError(_one_line(error)) from error


def _decoded(data: bytes | str) -> str:
    if len(data) > MOST_BYTES:
        raise YAMLError(f"more than {MOST_BYTES // 1024} KiB")
    if isinstance(data, str):
        if any("\ud800" <= character <= "\udfff" for character in data):
            raise YAMLError("half a character, which UTF-8 does not have")
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YAMLError(f"not UTF-8 at byte {error.start}") from error


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    where = "" if mark is None else f"line {mark.line + 1}: "
    return f"{where}{str(problem)[:200]}"


# -- sizes -----------------------------------------------------------------------------------------


def _check_size(text: str) -> None:
    """Counts the values in a text; an alias counts as everything that it repeats."""
    sizes: dict[str, int] = {}  # of what each anchor names
    held: list[tuple[str | None, int]] = []  # anchors of what is open, and the count before it
    count = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise YAMLError(f"line {line}: alias *{str(event.anchor)[:40]} names nothing above")
            count += sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            _name(sizes, event.anchor, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            held.append((event.anchor, count))
            sizes.pop(event.anchor or "", None)
            count += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = held.pop()
            _name(sizes, anchor, count - before)
        if len(held) > MOST_DEPTH:
            raise YAMLError(f"line {line}: nested more than {MOST_DEPTH} deep")
        if count > MOST_NODES:
            raise YAMLError(f"line {line}: more than {MOST_NODES:,} values, aliases written out")


def _name(sizes: dict[str, int], anchor: str | None, size: int) -> None:
    if anchor is not None:
        sizes[anchor] = size


# -- keys ------------------------------------------------------------------------------------------


def _check_keys(loader: Any, root: yaml.Node) -> None:
    """Refuses a mapping in which a key, or ``<<``, stands twice, however it is written."""
    for mapping in _mappings(root):
        lines: dict[Any, int] = {}
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                raise YAMLError(f"line {key.start_mark.line + 1}: a key must be a plain value")
            merges, line = key.tag == f"{_TAG}merge", key.start_mark.line + 1
            name = _MERGE if merges else loader.construct_object(key)
            if name in lines:
                raise YAMLError(
                    f"line {line}: '{key.value[:40]}' stands twice in a mapping, "
                    f"first in line {lines[name]}"
                )
            lines[name] = line


def _mappings(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    left, seen = [root], {id(root)}
    while left:
        node = left.pop()
        if isinstance(node, yaml.MappingNode):
            yield node
            inner = [part for pair in node.value for part in pair]
        else:
            inner = node.value if isinstance(node, yaml.SequenceNode) else []
        for part in inner:
            if id(part) not in seen:
                seen.add(id(part))
                left.append(part)


# -- values ----------------------------------------------------------------------------------------


def _text(node: yaml.ScalarNode, name: str, what: str) -> str:
    """Returns a value's text.

    Raises:
        YAMLError: the text does not fit its tag, such as ``!!int``.
    """
    text = str(node.value)
    if not re.fullmatch(_CORE[name][0], text):
        raise YAMLError(f"line {node.start_mark.line + 1}: '{text[:40]}' is not {what}")
    return text


def _construct_int(loader: Any, node: yaml.ScalarNode) -> int:
    text = _text(node, "int", "a whole number")
    if len(text) > MOST_DIGITS:
        raise YAMLError(f"line {node.start_mark.line + 1}: a number of {len(text):,} digits")
    base = _BASES.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


def _construct_float(loader: Any, node: yaml.ScalarNode) -> float:
    text = _text(node, "float", "a number").lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def _construct_bool(loader: Any, node: yaml.ScalarNode) -> bool:
    return _text(node, "bool", "true or false").lower() == "true"


def _construct_null(loader: Any, node: yaml.ScalarNode) -> None:
    if node.value:
        _text(node, "null", "null")


def _make() -> None:
    """Gives the loader YAML 1.2's core schema in place of YAML 1.1's."""
    _Loader.yaml_implicit_resolvers = {}
    for name, (pattern, first) in _CORE.items():
        starts = [letter if letter != "\0" else "" for letter in first]
        _Loader.add_implicit_resolver(f"{_TAG}{name}", re.compile(rf"(?:{pattern})\Z"), starts)
    _Loader.yaml_constructors = {
        tag: constructor
        for tag, constructor in _Loader.yaml_constructors.items()
        if tag is None or tag.removeprefix(_TAG) in ("str", "seq", "map")
    }
    _Loader.add_constructor(f"{_TAG}int", _construct_int)
    _Loader.add_constructor(f"{_TAG}float", _construct_float)
    _Loader.add_constructor(f"{_TAG}bool", _construct_bool)
    _Loader.add_constructor(f"{_TAG}null", _construct_null)


_make()
