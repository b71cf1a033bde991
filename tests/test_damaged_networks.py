"""predict and watch among damaged and hostile files: each is named, and the next best is taken."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from envs import World
from nalu_ray import predict, watch
from nalu_ray.registry import task
from nalu_ray.rl.agent.network import NetworkConfig
from nalu_ray.rl.agent.stored import Agent, build_network
from nalu_ray.training.best_networks import ENDING

Saved = dict[str, Any]
WORLD = World(size=3, cell_pixels=4, instructions=(3, 5), time_limit=8)
BAD, GOOD = "a", "b"


def as_bytes(saved: Saved) -> bytes:
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    return buffer.getvalue()


def model() -> Saved:
    """Two seeds' models after a step of training, with an error of 9."""
    language = task("language")
    small = {"hidden": 4, "embedding": 3, "registers": 2, "steps": 1, "evaluations": 1}
    setting = language.setting_type.model_validate(small)
    run = language.start(setting, [0, 7], torch.device("cpu"))
    run.advance()
    (data,) = run.files().values()
    saved: Saved = torch.load(io.BytesIO(data), weights_only=True)
    for about in saved["about"]:
        about["value"] = 9.0
    return saved


def agent() -> Saved:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build_network(NetworkConfig(vision=8, hidden=6), WORLD)
    data = Agent(network, WORLD, {"seed": 0, "exact": 0.25}).to_bytes()
    saved: Saved = torch.load(io.BytesIO(data), weights_only=True)
    return saved


MODEL, AGENT = model(), agent()


def better(**about: Any) -> Saved:
    """The model with an error of 1: it would be taken first."""
    return MODEL | {"about": [{**known, "value": 1.0, **about} for known in MODEL["about"]]}


def other_weights(saved: Saved, change: Callable[[torch.Tensor], Any]) -> Saved:
    name = next(name for name in saved["weights"] if "linear" in name or "lstm" in name)
    return saved | {"weights": {**saved["weights"], name: change(saved["weights"][name])}}


def without(saved: Saved, key: str) -> Saved:
    return {name: value for name, value in saved.items() if name != key}


def setting(**values: Any) -> Saved:
    return better() | {"setting": {**MODEL["setting"], **values}}


def bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * (1 << 26))
    return buffer.getvalue()


MODELS: dict[str, tuple[Saved | bytes | Callable[[Path], object], str]] = {
    "value": (better(value=10**400), "more than 64 bits"),
    "value text": (better(value="low"), "value"),
    "value tensor": (better(value=torch.ones(2)), "not a plain value"),
    "no seed": (
        better() | {"about": [without(known, "seed") for known in better()["about"]]}, "seed"
    ),
    "seed": (better(seed="one"), "seed"),
    "negative seed": (better(seed=-1), "seed"),
    "about": (better() | {"about": 3}, ""),
    "no about": (without(better(), "about"), "about"),
    "no weights": (without(better(), "weights"), "weights"),
    "shape": (other_weights(better(), lambda tensor: tensor[..., :1]), "of shape"),
    "complex": (other_weights(better(), lambda tensor: tensor.to(torch.complex64)), "complex64"),
    "no numbers": (other_weights(better(), lambda tensor: tensor.to("meta")), "without numbers"),
    "text": (other_weights(better(), lambda tensor: "abc"), "not a tensor"),
    "seeds": (other_weights(better(), lambda tensor: tensor[:1]), "for 2 seeds"),
    "missing": (better() | {"weights": {}}, "are missing"),
    "setting": (setting(colour="red"), "colour"),
    "size": (setting(hidden=10**6), "of shape"),
    "setting number": (setting(hidden=10**30), "64 bits"),
    "task": (better() | {"task": "static"}, "models of the task static, not of language"),
    "task of escapes": (better() | {"task": "\x1b[2J"}, "models of the task \\x1b[2J"),
    "bytes": (b"PK", "cannot be read as a model"),
    "empty": (b"", "cannot be read as a model"),
    "bomb": (bomb(), "it is compressed"),
    "pipe": (os.mkfifo, "a pipe"),
    "folder": (lambda path: path.mkdir(), "a folder"),
    "nothing": (lambda path: path.symlink_to("nowhere"), "a link to nothing"),
}  # fmt: skip


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else as_bytes(content))
    return path


@pytest.mark.parametrize("kind", MODELS)
def test_predict_takes_the_next_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    content, why = MODELS[kind]
    bad = put(tmp_path / "language" / f"{BAD}{ENDING}", content)
    good = put(tmp_path / "language" / f"{GOOD}{ENDING}", MODEL)
    assert predict.main(["language", "two", "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("head=nalu ")
    assert out.splitlines()[0].endswith(f"({good})")
    lines = err.splitlines()
    # a file whose values are well, but not its weights, has two seeds to be tried
    assert 1 <= len(lines) <= 2
    for line in lines:
        assert line.startswith(f"warning: skipped {bad}: ")
        assert why in line
        assert line.isprintable()


@pytest.mark.parametrize("kind", MODELS)
def test_a_checkpoint_of_predict_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    content, why = MODELS[kind]
    bad = put(tmp_path / "x.pt", content)
    assert predict.main(["language", "two", "--checkpoint", str(bad)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"error: {bad}: ")
    assert kind == "nothing" or why in line
    assert line.isprintable()


def test_where_none_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "language" / f"a{ENDING}", MODELS["shape"][0])
    words = ["language", "two", "--out", str(tmp_path)]
    assert predict.main(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith(
        f"no stored model under {tmp_path}/: using the one that comes with nalu-ray"
    )
    assert err.startswith(f"warning: skipped {tmp_path}/language/a{ENDING}: ")
    assert predict.main([*words, "head=dnc"]) == 2
    error = capsys.readouterr().err.splitlines()[0]
    assert error.startswith("error: no model with head=dnc in ")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that gives EIO")
def test_a_disk_that_cannot_be_read_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "language" / f"b{ENDING}", MODEL)
    bad = put(tmp_path / "language" / f"a{ENDING}", lambda path: path.symlink_to("/proc/self/mem"))
    assert predict.main(["language", "two", "--out", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith(f"error: cannot read {bad}: Input/output error")


def better_agent(**about: Any) -> Saved:
    return AGENT | {"about": {"seed": 0, "exact": 1.0, **about}}


AGENTS: dict[str, tuple[Any, str]] = {
    "exact": (better_agent(exact=10**400), "more than 64 bits"),
    "tensor": (better_agent(step=torch.ones(3)), "not a plain value"),
    "shape": (other_weights(better_agent(), lambda tensor: tensor[:, :1]), "of shape"),
    "complex": (
        other_weights(better_agent(), lambda tensor: tensor.to(torch.complex64)), "complex64"
    ),
    "text": (other_weights(better_agent(), lambda tensor: "abc"), "cannot be read as an agent"),
    "weights": (better_agent() | {"weights": [1]}, "cannot be read as an agent"),
    "network": (better_agent() | {"network": {"hidden": 10**6, "vision": 8}}, "of shape"),
    "world": (better_agent() | {"world": {"size": 10**6}}, "size=1000000"),
    "about": (better_agent() | {"about": 3}, "cannot be read as an agent"),
    "bytes": (b"PK", "cannot be read as an agent"),
    "bomb": (bomb(), "it is compressed"),
    "pipe": (os.mkfifo, "a pipe"),
}  # fmt: skip


@pytest.mark.parametrize("kind", AGENTS)
def test_watch_takes_the_next_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    content, why = AGENTS[kind]
    bad = put(tmp_path / "gridworld" / f"{BAD}.agent.pt", content)
    good = put(tmp_path / "gridworld" / f"{GOOD}.agent.pt", AGENT)
    words = ["gridworld", "--t", "3", "--episodes", "1", "--out", str(tmp_path)]
    assert watch.main(words) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].endswith(
        f"(seed 0), 25.0% exact arrivals there in validation ({good})"
    )
    line, doubt = err.splitlines()
    assert doubt.startswith("warning: this agent reached 25% exact arrivals")
    assert line.startswith(f"warning: skipped {bad}: ")
    assert why in line


def test_what_is_known_is_printed_without_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "gridworld" / "a.agent.pt", better_agent(variant="\x1b]0;owned\x07"))
    words = ["gridworld", "--t", "3", "--episodes", "1", "--out", str(tmp_path)]
    assert watch.main(words) == 0
    out = capsys.readouterr().out
    assert "\\x1b]0;owned\\x07, trained on" in out
    assert "\x1b" not in out
