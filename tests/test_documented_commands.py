"""The commands of the README and of docs/using.md are valid command lines; none is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from nalu_ray import predict, tune, watch
from nalu_ray.command import request
from nalu_ray.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
COMMAND = re.compile(r"python -m nalu_ray\.(tune|watch|predict) ([a-z][^`\n#;]+)")
LINES = sorted(
    {
        f"{name} {words.strip()}"
        for document in (
            "README.md",
            "docs/using.md",
            "docs/tutorial.md",
            "docs/gridworld.md",
            "docs/language.md",
        )
        for name, words in COMMAND.findall((ROOT / document).read_text(encoding="utf-8"))
        if not words.strip().endswith("\\") and "layer=mine" not in words
    }
)


def check(name: str, words: list[str]) -> int:
    """Returns the exit code of a command that only checks its command line."""
    if name == "tune":
        return tune.main([*words, "--print-config"])
    command = {"watch": watch, "predict": predict}[name]
    try:
        command._checked(*command._parser().parse_known_intermixed_args(words))
    except ConfigError:
        return 2
    return 0


@pytest.mark.parametrize("line", LINES)
def test_a_documented_command_is_valid(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(request, "LOGGERS", dict.fromkeys(request.LOGGERS, "ray"))  # as installed
    name, *words = shlex.split(line)
    assert check(name, words) == 0


@pytest.mark.parametrize("line", ["tune static lair=nac", "watch gridworld", "predict 515"])
def test_a_wrong_one_is_noticed(line: str) -> None:
    name, *words = line.split()
    assert check(name, words) == 2
