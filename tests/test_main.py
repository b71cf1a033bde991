"""The commands under one name, and the completion of their words."""

from __future__ import annotations

import subprocess
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
    ],
)
def test_bash_completes(script: Path, line: str, words: list[str]) -> None:
    program = f'source {script}; COMP_LINE="{line}" COMP_POINT={len(line)}; _nalu_ray 2>/dev/null'
    program += '; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == words
