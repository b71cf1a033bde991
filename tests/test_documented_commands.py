"""The commands of all documents are valid command lines; none is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from nalu_ray import __main__ as program
from nalu_ray import predict, report, tune, watch
from nalu_ray.cluster import __main__ as cluster
from nalu_ray.command import request
from nalu_ray.command.words import task_and_words
from nalu_ray.data import __main__ as data
from nalu_ray.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("examples/*.md"),
    ]
)
NAMES = "|".join(program.COMMANDS)
COMMAND = re.compile(
    rf"(?:python -m nalu_ray[. ]|(?:^|`|\$\()nalu-ray )({NAMES})(?![\w.])([^`\n]*)", re.MULTILINE
)
# what the reader fills in, or the shell does: by what stands there to what is checked instead
PLACEHOLDERS = {
    "s3://BUCKET/results": "results",
    "$(seq -s, 5000 5039)": "5000-5039",
    ' bash)"': " bash",
}
# of a layer or a task that the reader has written: their names stand for nothing here
READERS_OWN = ("layer=mine", "layer=clamped,nac", "layer=choice,nac", "tune mean", " subset")


def lines(text: str) -> set[str]:
    """The commands in a text, without the package's name and comments; continued lines as one."""
    joined = re.sub(r"\\\n\s*", "", text)
    found = set()
    for name, words in COMMAND.findall(joined):
        line = " ".join([name, *re.sub(r"(^| )(#|\| ).*|; .*", "", words).split()])
        for written, meant in PLACEHOLDERS.items():
            line = line.replace(written, meant)
        if line != name and not any(own in line for own in READERS_OWN):
            found.add(line)
    return found


LINES = sorted(set().union(*(lines(path.read_text(encoding="utf-8")) for path in DOCUMENTS)))


def check(name: str, words: list[str]) -> int:
    """Returns the exit code of a command that only checks its command line."""
    try:
        return _check(name, words)
    except ConfigError:
        return 2


def _check(name: str, words: list[str]) -> int:
    if name == "tune":
        return tune.main([*words, "--print-config"])
    if name == "report":
        options, unknown = report._parser().parse_known_intermixed_args(words)
        task, filters = task_and_words(options.words)
        # a report filters by the fields that a sweep sets
        wrong = bool(unknown) or (
            bool(task or filters) and tune.main([str(task), *filters, "--print-config"])
        )
        return 2 if wrong else 0
    if name == "cluster":
        options = cluster._parser().parse_args(words)
        there = all((ROOT / file).is_file() for file in options.files)
        return 0 if options.command == "check" and there else 2
    if name in {"watch", "predict"}:
        command = {"watch": watch, "predict": predict}[name]
        command._checked(*command._parser().parse_known_intermixed_args(words))
        return 0
    return program.main([name, *words])


@pytest.fixture(autouse=True)
def _nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(request, "LOGGERS", dict.fromkeys(request.LOGGERS, "ray"))  # as installed
    monkeypatch.setattr(data, "_fetch", lambda: 0)


def test_every_kind_of_command_is_documented() -> None:
    assert {line.split()[0] for line in LINES} == {*program.COMMANDS}
    assert len(LINES) > 120


def test_every_placeholder_is_in_a_document() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    for word in ("s3://BUCKET/results", "$(seq -s, 5000 5039)", *READERS_OWN):
        assert word in text


@pytest.mark.parametrize("line", LINES)
def test_a_documented_command_is_valid(line: str) -> None:
    name, *words = shlex.split(line)
    assert check(name, words) == 0


@pytest.mark.parametrize(
    "line",
    [
        "tune static lair=nac",
        "watch gridworld",
        "predict 515",
        "report static lair=nac",
        "report static --htlm",
        "report statik",
        "results compress",
        "data minst",
        "cluster check missing.yaml",
        "completion fish",
    ],
)
def test_a_wrong_one_is_noticed(line: str) -> None:
    name, *words = line.split()
    assert check(name, words) == 2


def test_commands_are_found_in_code_and_comments_are_not() -> None:
    text = (
        "`nalu-ray report static layer=nac` and nalu-ray data that\n"
        "python -m nalu_ray.tune static \\\n    op=add  # nalu-ray\nnalu-ray data mnist\n"
        'eval "$(nalu-ray completion bash)"\nX=1 python -m nalu_ray.tune static --list; ls\n'
    )
    assert lines(text) == {
        "report static layer=nac", "tune static op=add", "data mnist", "completion bash",
        "tune static --list",
    }  # fmt: skip
