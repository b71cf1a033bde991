"""The networks that come with the package."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from nalu_ray import trained
from nalu_ray.errors import ConfigError
from nalu_ray.rl.agent import choice, stored
from nalu_ray.training import best_networks

ROOT = Path(__file__).resolve().parents[1]
MOST = 5_000_000  # bytes of all files


def read(data: bytes, name: str) -> list[dict[str, object]]:
    return [stored.about(data, name)]


def test_files_and_index_agree() -> None:
    listed = {entry.file: entry for entry in trained.index()}
    present = {
        path.relative_to(trained.folder()).as_posix(): path.read_bytes()
        for path in trained.folder().rglob("*.pt")
    }
    assert listed.keys() == present.keys()
    for name, data in present.items():
        assert listed[name].sha256 == hashlib.sha256(data).hexdigest()
        assert name.startswith(f"{listed[name].task}/")
    assert sum(map(len, present.values())) < MOST


@pytest.mark.parametrize("entry", trained.index(), ids=lambda entry: entry.file)
def test_each_is_one_network_in_the_format_of_runs(entry: trained.Shipped) -> None:
    data = (trained.folder() / entry.file).read_bytes()
    if entry.file.endswith(choice.ENDING):
        agent = stored.Agent.from_bytes(data)
        assert entry.scores["interpolation exact"] == pytest.approx(agent.about["exact"], abs=0.02)
    else:
        (model,) = best_networks.from_bytes(data)
        assert model.task == entry.task
        about = model.about
        score = entry.scores[f"{about['split']} {about['metric']}"]
        assert score == pytest.approx(about["value"], abs=1e-5)


@pytest.mark.parametrize("task", ["gridworld", "language"])
def test_tasks_with_a_command_have_one(task: str) -> None:
    assert any(entry.task == task for entry in trained.index())


def test_the_wheel_includes_them() -> None:
    """The build backend's own list; tests/test_package.py builds the wheel."""
    included = WheelBuilder(str(ROOT)).recurse_included_files()
    names = {file.distribution_path for file in included}
    wanted = {trained.INDEX, *(entry.file for entry in trained.index())}
    assert {f"nalu_ray/trained/{name}" for name in wanted} <= names


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package's networks, which it uses instead."""
    folder = tmp_path / "trained"
    shutil.copytree(trained.folder(), folder)
    monkeypatch.setattr(trained, "folder", lambda: folder)
    return folder


def test_the_order_of_the_index_decides(copy: Path) -> None:
    first = next(entry for entry in trained.index() if entry.task == "gridworld")
    entry, data = trained.pick("gridworld", "agent", {}, read)
    assert entry == first
    assert data == (copy / first.file).read_bytes()


def test_another_file_is_refused(copy: Path) -> None:
    entry, data = trained.pick("gridworld", "agent", {}, read)
    (copy / entry.file).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ConfigError, match=r"not the file in index\.json: reinstall nalu-ray"):
        trained.pick("gridworld", "agent", {}, read)
    (copy / entry.file).unlink()
    with pytest.raises(ConfigError, match="No such file or directory: reinstall nalu-ray"):
        trained.pick("gridworld", "agent", {}, read)


def test_a_task_without_any() -> None:
    with pytest.raises(trained.NoneShippedError, match="no model of static comes with nalu-ray"):
        trained.pick("static", "model", {}, read)


@pytest.mark.parametrize("entry", trained.index(), ids=lambda entry: entry.file)
def test_the_documents_list_each(entry: trained.Shipped) -> None:
    text = (ROOT / "docs" / "using.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| `{re.escape(entry.file)}` \| (.*) \|$", text, re.MULTILINE)
    summary, command, told = line.split(" | ")
    assert summary == entry.summary
    assert command == f"`{entry.command.removeprefix('python -m nalu_ray.')}`"
    assert "test" in told  # the first line of `watch` and `predict` has a score of validation
    scores, shares = entry.scores, re.findall(r"([\d.]+)% at (?:T = )?([\d to]*\d)", told)
    known: dict[str, float] = {}
    if entry.task == "gridworld":
        test = {name.split()[-1]: value for name, value in scores.items()}  # by T
        test["5 to 12"] = scores["interpolation exact"]
        known = {at: float(share) for share, at in shares}
        assert {*known} == {"5 to 12", "15", "19", "30", "60"}
        assert known == {at: round(100 * test[at], 1) for at in known}
    elif entry.task == "language":
        assert told.endswith(
            f": error {scores['test mae']:.2f}, {100 * scores['test exact']:.1f}% exact"
        )
    else:
        errors = re.findall(r"([\d.]+) at (\d+)", told)
        assert [at for _, at in errors] == ["10", "100", "1000"]
        for error, at in errors:
            assert float(error) == float(f"{scores[f'test mae_{at}']:.3g}")
