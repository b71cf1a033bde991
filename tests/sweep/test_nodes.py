"""What nodes answer, and what is made of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import nalu_ray
from nalu_ray import __version__
from nalu_ray.errors import ConfigError
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.code_digest import package_digest
from nalu_ray.sweep.ray import nodes
from nalu_ray.sweep.ray.nodes import Answer, check_nodes

HERE = Answer(*nodes._probe()("/"))


def check(
    monkeypatch: pytest.MonkeyPatch, out: Path, *answers: Answer | str, sees: bool = True
) -> list[str]:
    """Returns the mistakes found where each node gives one of the answers."""

    def ask(path: str) -> list[tuple[str, Answer | str]]:
        assert Path(path).exists() == sees
        return [(f"10.0.0.{i}", answer) for i, answer in enumerate(answers)]

    monkeypatch.setattr(nodes, "ask", ask)
    try:
        check_nodes(Store(str(out)), "fake")
    except ConfigError as error:
        return error.messages
    finally:
        assert not list((out / "fake").glob("probe*"))
    return []


def test_nodes_like_this_one_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert HERE.version == __version__
    assert HERE.code == package_digest()
    assert HERE.sees
    assert check(monkeypatch, tmp_path, HERE, HERE) == []


def test_every_node_that_differs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mistakes = check(
        monkeypatch,
        tmp_path,
        HERE,
        Answer("0.0.9", "abc", True),
        Answer(__version__, "abc", True),
        Answer(__version__, HERE.code, False),
        "ModuleNotFoundError: No module named 'nalu_ray'",
        Answer("0.0.9", "abc", False),
    )
    assert mistakes == [
        f"node 10.0.0.1 has nalu_ray 0.0.9, this command {__version__}: install the same version "
        "on every node",
        f"node 10.0.0.2 runs different code of nalu_ray {__version__} (digest abc) from this "
        f"command ({HERE.code}): copy the same code to every node",
        f"node 10.0.0.3 does not see {tmp_path}: rows are written where trials run, so --out must "
        "be a shared folder or a URI such as s3://bucket/results",
        "node 10.0.0.4 cannot run trials: ModuleNotFoundError: No module named 'nalu_ray'",
        f"node 10.0.0.5 has nalu_ray 0.0.9, this command {__version__}: install the same version "
        "on every node",
        f"node 10.0.0.5 does not see {tmp_path}: rows are written where trials run, so --out must "
        "be a shared folder or a URI such as s3://bucket/results",
    ]


def test_the_digest_is_of_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And of no other package called envs, which may come first on Python's path."""
    (other := tmp_path / "first" / "envs").mkdir(parents=True)
    (other / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(other.parent)
    monkeypatch.delitem(sys.modules, "envs", raising=False)

    def digest() -> str:
        package_digest.cache_clear()
        return nodes._probe()("/")[1]

    assert digest() == HERE.code
    for package in ("envs", "nalu_ray"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    monkeypatch.setattr(nalu_ray, "__file__", str(tmp_path / "nalu_ray" / "__init__.py"))
    digests = [digest()]
    (tmp_path / "envs" / "__init__.py").write_text("x = 1")
    digests.append(digest())
    (tmp_path / "envs" / "notes.txt").write_text("no code")
    digests.append(digest())
    monkeypatch.undo()
    package_digest.cache_clear()
    assert digests[0] != digests[1] == digests[2]
    assert HERE.code not in digests


def test_a_node_whose_version_has_no_digest_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nalu_ray.sweep.code_digest", None)
    assert nodes._probe()("/") == (__version__, "unknown", True)
