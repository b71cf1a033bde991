"""python -m nalu_ray.predict."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from nalu_ray import predict
from nalu_ray.data import mnist
from nalu_ray.input import invocation
from nalu_ray.registry import task
from nalu_ray.seeding import generator
from nalu_ray.tasks.language.data import VOCABULARY, split, tokenise, words
from nalu_ray.training.best_networks import ENDING

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "PYTHON -m nalu_ray.predict language"  # whichever Python the command names


def trained(path: Path, about: dict[str, Any] | None = None, **values: Any) -> Path:
    """A file of two seeds' models after a step of training."""
    language = task("language")
    small = {"hidden": 4, "embedding": 3, "registers": 2, "steps": 1, "evaluations": 1}
    setting = language.setting_type.model_validate({**small, **values})
    run = language.start(setting, [0, 7], torch.device("cpu"))
    run.advance()
    (data,) = run.files().values()
    saved = torch.load(io.BytesIO(data), weights_only=True)
    for known, value in zip(saved["about"], (about or {}).get("value", ()), strict=False):
        known["value"] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(saved, path)
    return path


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    trained(folder / "language" / f"a{ENDING}", {"value": [3.5, 2.5]}, head="nalu")
    trained(folder / "language" / f"b{ENDING}", {"value": [9.0, 1.5]}, head="nac", combine="sum")
    return folder


def run(*given: object) -> int:
    return predict.main([str(word) for word in given])


def test_the_number_after_each_word_of_the_best(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("language", "Five hundred and fifty-five", "--out", out) == 0
    text, err = capsys.readouterr()
    assert err == ""
    first, *lines = text.splitlines()
    assert first == (
        f"head=nac combine=sum, seed 7, validation mae 1.5 at step 1 ({out}/language/b{ENDING})"
    )
    assert [line.split()[0] for line in lines] == words(555)
    assert all(re.fullmatch(r"[a-z]+ +-?\d+\.\d\d", line) for line in lines)


def test_the_values_are_the_stored_networks(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text's last value is that of its words, and a shorter text's are the first of a longer."""
    found = []
    for text in ("nine", "nine hundred", "nine hundred and ten"):
        assert run("language", *text.split(), "--out", out, "head=nalu", "seed=0") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("head=nalu combine=recurrent, seed 0, ")
        found.append([float(line.split()[1]) for line in lines[1:]])
    assert found[0] == found[2][:1]
    assert found[1] == found[2][:2]
    assert len(set(found[2])) == 4


def test_a_checkpoint(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = out / "language" / f"a{ENDING}"
    assert run("language", "two", "--checkpoint", path) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("head=nalu combine=recurrent, seed 7, ")
    assert first.endswith(f"({path})")
    assert run("language", "two", "seed=0", "--checkpoint", path) == 0
    assert ", seed 0, " in capsys.readouterr().out


def test_numbers_of_the_test_set_are_drawn(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.png", "two.png"):
        assert run("language", "--out", out, "--figure", tmp_path / name, "--examples", 4) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[-1] == f"drawn: {tmp_path}/two.png"
    targets = [int(line.split()[1]) for line in text.splitlines() if line.split()[0] == "="]
    assert len(targets) == 8
    assert targets[:4] == targets[4:]
    unseen = split(generator("language", "shared", "split")).test
    assert set(targets) <= set(unseen.tolist())
    assert " ".join(words(targets[0])).split() == [
        line.split()[0] for line in text.splitlines()[1 : 1 + len(words(targets[0]))]
    ]
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    with Image.open(tmp_path / "one.png") as image:
        assert image.size[0] > 1000  # three panels side by side


@pytest.mark.parametrize("ending", ["pdf", "svg"])
def test_a_text_is_drawn(
    out: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"one.{ending}"
    assert run("language", "seven", "--out", out, "--figure", path) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("seven ")
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (["language", "fourty two"], ["unknown word 'fourty'. Did you mean 'forty'? Allowed: and"]),
        (["language"], ["text has no words; the vocabulary is zero, one, two"]),
        (["langauge", "two"], ["unknown task to ask 'langauge'. Did you mean 'language'"]),
        (["static", "two"], ["unknown task to ask 'static'. Did you mean 'mnist_a"]),
        ([], [f"name the task and a text: {COMMAND} five hundred and fifteen"]),
        (["515"], [f"515: write the number in words: {COMMAND} five hundred"]),
        (["language", "5", "and", "12"], ["5: write the number in", "12: write the number in"]),
        (["Forty", "two"], [f"name the task: {COMMAND} forty two"]),
        (["forty"], [f"name the task: {COMMAND} forty"]),
        (["language", "two", "--examples", "0"], ["--examples 0 must be 1 or more"]),
        (["language", "two", "--figure", "x.gif"], ["--figure x.gif must end in .png, .pdf"]),
        (
            ["language", "two", "--figur=x"],
            ["unknown option '--figur'. Did you mean '--figure'"],
        ),
        (["language", "two", "haed=nalu"], ["unknown key 'haed'. Did you mean 'head'?"]),
        (["language", "two", "head="], ["'head=': expected key=value"]),
        (
            ["language", "two", "head=dnc"],
            ["no model with head=dnc in ", "no model with head=dnc in the models that come"],
        ),
        (["language", "two", "--checkpoint", "none.pt"], ["none.pt: No such file or directory"]),
        (
            ["language", "fourty", "--examples", "0"],
            ["unknown word 'fourty'", "--examples 0 must be 1 or more"],
        ),
    ],
)
def test_mistakes(
    out: Path, given: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*given, "--out", out) == 2
    printed, err = capsys.readouterr()
    assert printed == ""
    assert len(err.splitlines()) == len(lines)
    for found, line in zip(err.splitlines(), lines, strict=True):
        shown = line.replace("PYTHON", invocation.interpreter())
        assert found.startswith(f"error: {shown}")


def test_an_unknown_word_lists_the_vocabulary(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("language", "one thousand", "--out", out) == 2
    line = capsys.readouterr().err
    assert "unknown word 'thousand'" in line
    assert tokenise(line.partition("Allowed: ")[2].replace(",", " ")) == sorted(VOCABULARY)


def test_none_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a fresh clone the shipped network answers, and it is a good one."""
    assert run("language", "five hundred and fifteen", "--out", tmp_path) == 0
    text, err = capsys.readouterr()
    first, second, *lines = text.splitlines()
    assert first.startswith(
        f"no stored model under {tmp_path}/: using the one that comes with nalu-ray: head=nalu "
    )
    assert second.startswith("trained by: python -m nalu_ray.tune language ")
    assert float(lines[-1].split()[1]) == pytest.approx(515, abs=5)
    assert err == ""


def test_a_stored_network_comes_first(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped one is used if no stored one has the fields, or by --shipped."""
    assert run("language", "two", "lr=0.02", "--out", out) == 0
    assert capsys.readouterr().out.startswith(f"no stored model with lr=0.02 under {out}/: using")
    assert run("language", "two", "--shipped", "--out", out) == 0
    assert capsys.readouterr().out.startswith("the model that comes with nalu-ray: head=nalu ")
    assert run("language", "two", "--shipped", "--checkpoint", "x") == 2
    assert "leave out --shipped" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "told"), [(120.0, False), (126.0, True), (math.nan, True)])
def test_an_error_near_the_best_constants_is_told(
    value: float, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best constant answer to the numbers 0 to 999 is off by about 250."""
    path = trained(tmp_path / "x.pt", {"value": [value, 999.0]})
    assert run("language", "two", "seed=0", "--checkpoint", path) == 0
    err = capsys.readouterr().err
    line = rf"warning: this network's validation mae is {value:.3g}; one constant answer to "
    assert bool(re.match(line + r"everything reaches 2\d\d\n$", err)) == told
    assert bool(err) == told


def test_a_model_of_another_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trained(tmp_path / "x.pt")
    saved = torch.load(path, weights_only=True)
    saved["setting"]["colour"] = "red"
    torch.save(saved, path)
    assert run("language", "two", "--checkpoint", path) == 2
    assert re.match(f"error: {path}: colour.*", capsys.readouterr().err)


def test_a_figure_that_cannot_be_written(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run("language", "two", "--out", out, "--figure", tmp_path / "file" / "x.png") == 2
    assert f"error: cannot write {tmp_path}/file/x.png: " in capsys.readouterr().err


def test_help() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nalu_ray.predict", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "predict language five hundred and fifteen" in done.stdout


def trained_on_images(name: str, out: Path) -> None:
    """A file of one seed's model after a step of training."""
    found = task(name)
    small = {"layer": "nac", "batch": 2, "length": 2, "steps": 1, "evaluations": 1}
    setting = found.setting_type.model_validate({**small, "test_images": 20})
    trial = found.start(setting, [5], torch.device("cpu"))
    trial.advance()
    (data,) = trial.files().values()
    path = out / name / f"a{ENDING}"
    path.parent.mkdir()
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["mnist_counting", "mnist_addition"])
def test_a_series_of_images(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained_on_images(name, tmp_path)
    drawn = tmp_path / "series.png"
    assert run(name, "--out", tmp_path, "--figure", drawn, "--examples", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("layer=nac, seed 5, ")
    outputs = 10 if name == "mnist_counting" else 1
    assert len(lines) == 1 + 2 * outputs + 1
    assert all(re.fullmatch(r" *\S+ +-?\d+\.\d\d  = \d+", line) for line in lines[1:-1])
    assert Image.open(drawn).width > 500
    assert run(name, "five", "--out", tmp_path) == 2
    assert f"five: {name} reads images, not words" in capsys.readouterr().err


def test_images_that_cannot_be_downloaded_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_on_images("mnist_counting", tmp_path)

    def fetch() -> None:
        raise mnist.DataError("tried: nothing\nBy hand: put the files there")

    monkeypatch.setattr(mnist, "fetch", fetch)
    assert run("mnist_counting", "--out", tmp_path) == 2
    assert "tried: nothing\nBy hand: put the files there" in capsys.readouterr().err
