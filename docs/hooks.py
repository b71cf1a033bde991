"""Hooks of MkDocs: files from outside of ``docs/`` that pages link to become part of the site."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "", "CHANGELOG.md": ""}
LINKED = ("cluster.yaml", "cluster/*.yaml", "examples/**/*")
# a figure for light pages and one for dark pages, as GitHub shows them
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">'
    r'\s*<img alt="(?P<alt>[^"]*)" src="(?P<light>[^"]+)">\s*</picture>'
)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)[^)\s]+")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the documents and linked files of the repository's root."""
    for name, target in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, target or name, content=_from_root(text)))
    for pattern in LINKED:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(ROOT).as_posix()
                files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links out of ``docs/`` links within the site, where those files are at its root."""
    if page.file.generated_by:
        return markdown
    markdown = PICTURE.sub(_by_theme, markdown)
    outside = "../" * (page.file.src_uri.count("/") + 1)

    def inside(link: re.Match[str]) -> str:
        return _site(link[0].removeprefix("../") if link[0].startswith(outside) else link[0])

    return LINK.sub(inside, markdown)


def _from_root(text: str) -> str:
    """Returns a document of the root with links for a site whose root is ``docs/``."""
    text = PICTURE.sub(_by_theme, text)
    return LINK.sub(lambda link: _site(link[0].removeprefix("docs/")), text)


def _by_theme(picture: re.Match[str]) -> str:
    """Returns a picture as two images, of which the site shows the one of its theme."""
    alt = picture["alt"]
    return f"![{alt}]({picture['light']}#only-light)\n![{alt}]({picture['dark']}#only-dark)"


def _site(link: str) -> str:
    path, sharp, anchor = link.partition("#")
    return f"{PAGES.get(path) or path}{sharp}{anchor}"
