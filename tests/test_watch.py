"""python -m nalu_ray.watch."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from rich.console import Console

from envs import World
from nalu_ray import watch
from nalu_ray.input import invocation
from nalu_ray.rl.agent.description import doubts
from nalu_ray.rl.agent.network import NetworkConfig
from nalu_ray.rl.agent.stored import Agent, build_network

ROOT = Path(__file__).resolve().parents[1]
WORLD = World(size=3, cell_pixels=4, instructions=(3, 5), time_limit=8)


def stored(path: Path, **about: Any) -> Path:
    """An untrained agent, all of whose probabilities are about 1/5."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build_network(NetworkConfig(vision=8, hidden=6), WORLD)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Agent(network, WORLD, about).to_bytes())
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    stored(tmp_path / "gridworld" / "a.agent.pt", variant="lstm", seed=0, exact=0.5)
    stored(tmp_path / "gridworld" / "b.agent.pt", variant="nac_core", seed=3, exact=0.25)
    return tmp_path


def run(*words: object) -> int:
    return watch.main([str(word) for word in words])


def episodes(text: str) -> list[list[str]]:
    """The lines of each episode."""
    lines = [line for line in text.splitlines() if line.startswith("episode ")]
    numbers = sorted({line.split()[1] for line in lines})
    return [[line for line in lines if line.split()[1] == number] for number in numbers]


def test_a_line_for_each_step(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("gridworld", "--t", 6, "--out", out, "--sampled") == 0
    text, err = capsys.readouterr()
    assert (
        err
        == "warning: this agent reached 50% exact arrivals on trained T (3 to 5) in validation\n"
    )
    assert "\x1b" not in text
    assert text.splitlines()[0] == (
        "lstm, trained on T = 3 to 5 (seed 0), 50.0% exact arrivals there in validation "
        f"({out}/gridworld/a.agent.pt)"
    )
    found = episodes(text)
    assert len(found) == 3
    for lines in found:
        times = [int(t) for line in lines for t in re.findall(r"t=(\d+)", line)]
        assert times == list(range(len(lines)))
        assert all("T=6" in line for line in lines)
        assert all(re.search(r"(up|down|left|right|pass) \(0\.\d\d\)$", x) for x in lines[:-1])
        end = re.search(r"(exact|early by \d+|late by \d+|never)( \(target \d away\))?$", lines[-1])
        assert end
        # 12 = 2 T, above the world's 8
        assert end[1] != "never" or times[-1] == 12
    assert re.fullmatch(r"3 episodes: (\d \w+(, )?)+", text.splitlines()[-1])


def test_the_same_again_by_seed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for words in (["--seed", 0], ["--seed", 0], ["--seed", 1], ["--sampled"]):
        assert run("gridworld", "--t", 6, "--out", out, *words) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


def test_the_time_limit(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An untrained agent runs against one wall forever."""
    for words, last in (([], 8), (["--time-limit", 5], 5), (["--time-limit", 30], 30)):
        assert run("gridworld", "--t", 3, "--episodes", 5, "--out", out, *words) == 0
        ends = [lines[-1] for lines in episodes(capsys.readouterr().out)]
        assert any(line.endswith("never") or "never (" in line for line in ends)
        assert all(f"t={last} " in line for line in ends if "never" in line)


def test_words_choose_the_agent(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("gridworld", "variant=nac_core", "--t", 3, "--out", out, "seed=3") == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("nac_core, ")
    assert first.endswith(f"({out}/gridworld/b.agent.pt)")


def test_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path / "mine.pt")
    assert run("gridworld", "--t", 3, "--checkpoint", path, "--episodes", 1) == 0
    text, err = capsys.readouterr()
    assert text.startswith(f"an agent whose training is unknown ({path})\n")
    assert err == ""
    assert text.splitlines()[-1].startswith("1 episode: 1 ")


def test_a_gif(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gridworld", "--t", 6, "--out", out, "--seed", 2, "--episodes", 2]
    assert run(*words) == 0
    lines = sum(map(len, episodes(capsys.readouterr().out)))
    for name in ("one.gif", "two.gif"):
        assert run(*words, "--save", tmp_path / name) == 0
    assert capsys.readouterr().out.endswith(f"saved {tmp_path}/two.gif: {lines} pictures\n")
    with Image.open(tmp_path / "one.gif") as image:
        assert (image.format, image.n_frames, image.size) == ("GIF", lines, (240, 284))
    assert (tmp_path / "one.gif").read_bytes() == (tmp_path / "two.gif").read_bytes()


def test_in_a_terminal(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []
    # its own `time`: other threads sleep too
    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=slept.append))
    screen = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(watch, "Console", lambda **_: screen)
    words = ["gridworld", "--t", 4, "--out", out, "--episodes", 2, "--fps", 10]
    assert run(*words) == 0
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    assert "\x1b[" in shown
    for text in ("episode 1 of 2", "episode 2 of 2", "remaining 4", "pass  ", "░"):
        assert text in shown
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 episodes: ")
    assert slept.count(1.5) == 2
    assert set(slept) == {0.1, 1.5}
    assert run(*words, "--plain") == 0
    assert sum(map(len, episodes(capsys.readouterr().out))) == len(slept)


def test_who_has_seen_enough(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "_plain", stop)
    assert run("gridworld", "--t", 4, "--out", out) == 130


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gridwold", "--t", 3], "unknown task to watch 'gridwold'. Did you mean 'gridworld'?"),
        (["--t", 3], "-m nalu_ray.watch gridworld --t 19"),
        (["gridworld"], "--t is missing"),
        (["gridworld", "--t", 0], "--t 0: must be 1 or more"),
        (["gridworld", "--t", "five"], "--t: 'five': a whole number is needed"),
        (["gridworld", "--t", 9, "--time-limit", 8], "--time-limit 8: must be 9 (T) or more"),
        (["gridworld", "--t", 3, "--episodes", 0], "--episodes 0: must be 1 or more"),
        (["gridworld", "--t", 3, "--seed", -1], "--seed -1: must be 0 or more"),
        (["gridworld", "--t", 3, "--fps", 0], "--fps 0: must be 0.1 to 50"),
        (["gridworld", "--t", 3, "--fps", "nan"], "--fps nan: must be 0.1 to 50"),
        (["gridworld", "--t", 3, "--sve", "a"], "unknown option '--sve'. Did you mean '--save'?"),
        (["gridworld", "--t", 3, "--save", "a.png"], "a.png: an animation's name ends in .gif"),
        (["gridworld", "--t", 3, "variant"], "'variant': expected key=value"),
        (["gridworld", "--t", 3, "varient=x"], "unknown key 'varient'. Did you mean 'variant'?"),
        (["gridworld", "--t", 3, "variant=x"], "no agent with variant=x in "),
        (["gridworld", "--t", 3, "variant=x"], "in the agents that come with nalu-ray; there is"),
        (["gridworld", "--t", 3, "variant=x", "--shipped"], "in the agents that come with"),
        (["gridworld", "--t", 3, "--shipped", "--checkpoint", "a"], "leave out --shipped"),
        (["gridworld", "--t", 3, "--checkpoint", "none.pt"], "none.pt: No such file"),
        (
            ["gridworld", "--t", 3, "seed=0", "--checkpoint", "a"],
            "--checkpoint already names the agent",
        ),
        (["gridworld", "--t", 3, "--out", "nowhere://x"], "cannot be used as a results folder"),
    ],
)
def test_wrong_usage(
    out: Path, words: list[object], says: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(out)
    given = words if "--out" in words else [*words, "--out", out]
    assert run(*given) == 2
    text, err = capsys.readouterr()
    assert text == ""
    assert all(line.startswith("error: ") for line in err.splitlines())
    assert says in err


def test_every_mistake_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("world", "--t", 0, "--episodes", 0, "--save", "a.txt") == 2
    assert capsys.readouterr().err.count("error: ") == 4


def test_a_file_that_is_no_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.pt"
    bad.write_bytes(b"no agent")
    assert run("gridworld", "--t", 3, "--checkpoint", bad) == 2
    assert capsys.readouterr().err == (
        f"error: {bad}: cannot be read as an agent: "
        "it is cut off, or holds more than plain values\n"
    )


def test_a_bad_file_among_the_stored_is_named(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "gridworld" / "bad.agent.pt").write_bytes(b"no agent")
    assert run("gridworld", "--t", 3, "--out", out) == 0
    assert capsys.readouterr().err.startswith(f"warning: skipped {out}/gridworld/bad.agent.pt: ")


# -- agents that come with the package -------------------------------------------------------------


def test_nothing_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a fresh clone the shipped agent plays; it waits far longer than in training."""
    assert run("gridworld", "--t", 60, "--out", tmp_path) == 0
    text, err = capsys.readouterr()
    first, second, *_ = text.splitlines()
    assert first.startswith(
        f"no stored agent under {tmp_path}/: using the one that comes with nalu-ray: nac_core, "
    )
    assert second.startswith("trained by: python -m nalu_ray.tune gridworld ")
    assert text.splitlines()[-1] == "3 episodes: 3 exact"
    assert err == ""
    assert not list(tmp_path.iterdir())


def test_the_command_that_trained_it_works_where_nothing_is_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert run("gridworld", "--t", 5, "--episodes", 1, "--out", tmp_path) == 0
    _, line, *_ = capsys.readouterr().out.splitlines()
    command = shlex.split(line.removeprefix("trained by: "))
    assert command[0] == invocation.interpreter() != "python"
    assert command[1:4] == ["-m", "nalu_ray.tune", "gridworld"]


def test_a_stored_agent_comes_first(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped one is used if no stored one has the fields, or by --shipped."""
    found = {}
    for words in ("", "seed=0 algorithm=impala", "--shipped"):
        assert run("gridworld", *words.split(), "--t", 3, "--out", out) == 0
        found[words] = capsys.readouterr().out.splitlines()[0]
    assert found[""].startswith("lstm, ")
    assert found["seed=0 algorithm=impala"].startswith(
        f"no stored agent with seed=0 algorithm=impala under {out}/: using the one that comes"
    )
    assert found["--shipped"].startswith("the agent that comes with nalu-ray: nac_core, ")


def test_bad_scores_are_told(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent.load(out / "gridworld" / "a.agent.pt")
    lines = "this agent reached {} exact arrivals {}"
    for exact, scores, told in [
        (0.0, {}, [lines.format("0%", "on trained T (3 to 5) in validation")]),
        (float("nan"), {}, [lines.format("nan%", "on trained T (3 to 5) in validation")]),
        (0.9, {}, []),
        (
            0.9,
            {"far exact 60": 0.25, "greedy exact 61": 0.0},
            [lines.format("25%", "at T = 60 in its test")],
        ),
        (
            0.9,
            {"far exact 50": 0.25, "far exact 70": 1.0},
            [lines.format("25%", "at T = 50 in its test")],
        ),
        (0.9, {"greedy exact 60": 0.95, "far exact 30": 0.0}, []),
    ]:
        agent.about["exact"] = exact
        assert list(doubts(agent, scores, 60)) == told


def test_a_place_that_cannot_be_written(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    target = tmp_path / "file" / "a.gif"
    assert run("gridworld", "--t", 3, "--out", out, "--save", target) == 2
    assert f"error: cannot write {target}: " in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    text = capsys.readouterr().out
    for action in watch._parser()._actions:
        for name in action.option_strings:
            assert name in text


def test_no_ray_is_needed(out: Path) -> None:
    code = (
        "import sys; from nalu_ray.watch import main; "
        f"assert main(['gridworld', '--t', '3', '--out', {str(out)!r}]) == 0; "
        "print({'ray', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["set()"], done.stderr
