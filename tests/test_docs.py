"""The documents name what exists: paths, dotted names, links, anchors and figures.

Names are looked up in the source, so that nothing of the package is imported.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
NAMING = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]  # names as they are today
FOLDERS = (
    "nalu_ray", "envs", "tests", "benchmarks", "docs", "examples", "tune_configs", "cluster",
)  # fmt: skip
# Files that the examples of CONTRIBUTING.md tell the reader to write.
EXAMPLES = {"nalu_ray/layers/clamped.py", "nalu_ray/tasks/mean.py", "tune_configs/mean.yaml"}
NOT_MODULES = {"nalu_ray.sha256"}  # a key in the footer of a row file

FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`+[^`]+`+")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<(?:img|source)\b[^>]* src(?:set)?=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*")
DOTTED = re.compile(r"(?<![\w./:-])(?:nalu_ray|envs)(?:\.\w+)+")


def _text(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def _links(text: str) -> list[str]:
    return [markdown or html for markdown, html in LINK.findall(text)]


def _inline_code(document: Path) -> list[str]:
    return CODE.findall(FENCE.sub("", _text(document)))


def _blocks(document: Path) -> list[str]:
    return [match[0] for match in FENCE.finditer(_text(document))]


def _slug(heading: str) -> str:
    """Returns the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def _anchors(document: Path) -> set[str]:
    anchors: set[str] = set()
    counts: dict[str, int] = {}
    for heading in HEADING.findall(FENCE.sub("", _text(document))):
        slug = _slug(heading)
        repeats = counts.get(slug, 0)
        counts[slug] = repeats + 1
        anchors.add(f"{slug}-{repeats}" if repeats else slug)
    return anchors


def _names(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Returns the names that the statements define, assign or import."""
    names: dict[str, ast.stmt] = {}
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.ClassDef():
                names[statement.name] = statement
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    names[alias.asname or alias.name.split(".")[0]] = statement
            case ast.Assign() | ast.AnnAssign():
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        names[node.id] = statement
            case ast.If() | ast.Try():
                names |= _names(statement.body) | _names(statement.orelse)
    return names


def _source(parts: list[str]) -> Path | None:
    base = ROOT.joinpath(*parts)
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.exists()), None)


def _resolves(dotted: str) -> bool:
    """Whether a module, or a name in one, has this dotted name."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        source = _source(parts[:length])
        if source is None:
            continue
        body: list[ast.stmt] = ast.parse(source.read_text(encoding="utf-8")).body
        for name in parts[length:]:
            statement = _names(body).get(name)
            if statement is None:
                return False
            if not isinstance(statement, ast.ClassDef):
                break  # an imported or assigned name; what it holds is not looked at
            body = statement.body
        return True
    return False


def _imported(block: str) -> list[str]:
    """Returns the dotted names that a Python block imports from our packages."""
    code = "\n".join(block.splitlines()[1:-1])
    names: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name for name in names if name.split(".")[0] in ("nalu_ray", "envs")]


@pytest.mark.parametrize("document", NAMING, ids=lambda path: path.name)
def test_paths_exist(document: Path) -> None:
    paths = {path for code in _inline_code(document) for path in PATH.findall(code)}
    paths -= EXAMPLES | {"nalu_ray/TimeGridworld-v0"}
    missing = [path for path in sorted(paths) if not list(ROOT.glob(path.rstrip("/.")))]
    assert not missing


@pytest.mark.parametrize("document", NAMING, ids=lambda path: path.name)
def test_dotted_names_exist(document: Path) -> None:
    names = {name for code in _inline_code(document) for name in DOTTED.findall(code)}
    for block in _blocks(document):
        names.update(re.findall(r"-m (nalu_ray\.\w+)", block))
        if block.lstrip().startswith("```python"):
            names.update(_imported(block))
    assert not [name for name in sorted(names - NOT_MODULES) if not _resolves(name)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_anchors_resolve(document: Path) -> None:
    for link in _links(FENCE.sub("", _text(document))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_every_document_and_figure_is_linked() -> None:
    linked = {
        (document.parent / link.partition("#")[0]).resolve()
        for document in DOCUMENTS
        for link in _links(_text(document))
    }
    docs = ROOT / "docs"
    # pages made of docstrings are linked on the site alone
    linked |= {docs / name for name in re.findall(r"reference/\w+\.md", _text(ROOT / "mkdocs.yml"))}
    pages = {path for path in docs.rglob("*") if path.is_file()} - {*(docs / "rows").rglob("*")}
    assert sorted(pages - linked) == []


def test_the_site_has_each_picture_for_both_themes() -> None:
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    pictures = 0
    for document in DOCUMENTS:
        found = [match.groupdict() for match in hooks.PICTURE.finditer(_text(document))]
        assert len(found) == _text(document).count("<picture>")
        assert "<picture>" not in hooks.PICTURE.sub(hooks._by_theme, _text(document))
        for picture in found:
            assert picture["alt"]
            assert picture["dark"] == picture["light"].replace(".png", "-dark.png")
        pictures += len(found)
    assert pictures >= 12
    (one,) = hooks.PICTURE.finditer(
        '<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="a-dark.png">\n'
        '  <img alt="A" src="a.png">\n</picture>'
    )
    assert hooks._by_theme(one) == "![A](a.png#only-light)\n![A](a-dark.png#only-dark)"


def test_a_wrong_name_is_noticed() -> None:
    assert _resolves("nalu_ray.layers.NAC")
    assert _resolves("nalu_ray.layers.nalu.NALU.forward")
    assert not _resolves("nalu_ray.layers.NoSuchUnit")
    assert not _resolves("nalu_ray.no_such_room")
    assert _slug("What is left open, a² (`x`)") == "what-is-left-open-a²-x"
