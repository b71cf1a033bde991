"""The commands under one name, and the completion of their words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nalu_ray import __version__
from nalu_ray.__main__ import COMMANDS, main
from nalu_ray.command import completion


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"nalu-ray {__version__}\n"
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tun"], "error: unknown command 'tun'. Did you mean 'tune'?"),
        ([], "error: no command given\n\nusage: nalu-ray COMMAND"),
        (["tune", "statik", "--dry-run"], "error: unknown task 'statik'."),
        (["completion", "fish"], "error: shell: unknown value 'fish'"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(message)


def test_help_names_a_program_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(bin_ / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)

    def texts() -> tuple[str, str]:
        assert main(["--help"]) == 0
        usage = capsys.readouterr().out
        with pytest.raises(SystemExit):
            completion._main(["--help"])
        return usage, capsys.readouterr().out

    usage, help_ = texts()
    assert usage.startswith("usage: .venv/bin/python -m nalu_ray COMMAND ...")
    assert 'eval "$(.venv/bin/python -m nalu_ray completion bash)"' in help_
    assert "nalu-ray COMMAND" not in usage
    for name in ("nalu-ray", "other"):
        (bin_ / name).write_text("#!/bin/sh\n")
        (bin_ / name).chmod(0o755)
    usage, help_ = texts()
    assert usage.startswith("usage: .venv/bin/nalu-ray COMMAND ...")
    assert usage.endswith("\n.venv/bin/python -m nalu_ray COMMAND is the same.\n")
    assert "  .venv/bin/nalu-ray completion bash > ~/.local/" in help_
    monkeypatch.setenv("PATH", str(bin_), prepend=os.pathsep)
    usage, help_ = texts()
    assert usage.startswith("usage: nalu-ray COMMAND ...")
    assert 'eval "$(nalu-ray completion bash)"' in help_


def test_commands_get_their_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "static", "op=add", "layer=nac", "--print-config"]) == 0
    sweep = yaml.safe_load(capsys.readouterr().out)["presets"]["laptop"]
    assert sweep["changes"] == {"op": ["add"], "layer": ["nac"]}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "nalu-ray.bash"
    path.write_text(completion.script(), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nalu-ray tu", ["tune"]),
        ("nalu-ray tune langu", ["language"]),
        ("nalu-ray tune static lay", ["layer="]),
        ("nalu-ray tune static layer=nac,nalu", ["nac,nalu", "nac,nalu_separate"]),
        (
            "nalu-ray tune static layer=nac op=",
            ["add", "sub", "mul", "div", "square", "sqrt", "reciprocal"],
        ),
        ("nalu-ray tune static preset=lap", ["laptop"]),
        ("nalu-ray tune static op=mul --pres", ["--preset"]),
        ("nalu-ray report --repro", ["--reproduction"]),
        ("nalu-ray cluster ch", ["check"]),
        ("nalu-ray tune static ffff", []),
        ("nalu-ray watch gri", ["gridworld"]),
        ("nalu-ray watch gridworld --ep", ["--episodes"]),
        ("nalu-ray predict l", ["language"]),
        ("nalu-ray predict mnist_c", ["mnist_counting"]),
        ("nalu-ray report static lay", ["layer="]),
        ("nalu-ray report static op=mul layer=relu", ["relu", "relu6"]),
        ("nalu-ray report static preset=lap", ["laptop"]),
    ],
)
def test_bash_completes(script: Path, line: str, words: list[str]) -> None:
    program = f'source {script}; COMP_LINE="{line}" COMP_POINT={len(line)}; _nalu_ray 2>/dev/null'
    program += '; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == words
