"""Which preset rows say they are of, and what of it was changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from nalu_ray import registry, tune
from nalu_ray.results.output.captions import captions
from nalu_ray.results.output.save import Stored
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.deviations import changes, members
from nalu_ray.sweep.presets import expand, sweep_of
from nalu_ray.task import Task


def of(task: Task[Any], preset: str, **words: list[Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Changes by the values of the task's axes."""
    points = expand(sweep_of(task).presets[preset], task.setting_type, words)
    found = changes(task, preset, points)
    return {
        tuple(str(getattr(point.setting, axis)) for axis in task.axes): found[point.setting.id]
        for point in points
    }


@pytest.mark.parametrize("name", registry.names())
def test_a_preset_as_it_is_changes_nothing(name: str) -> None:
    task = registry.task(name)
    known = members(task)
    assert {"smoke", "laptop", "paper"} <= set(known)
    for preset in ("smoke", "laptop"):
        assert not any(of(task, preset).values())
        assert len(known[preset]) == len(set(known[preset]))
    assert not set(known["smoke"]) & {*known["laptop"], *known["paper"]}


def test_changes_are_what_differs_from_the_preset_on_the_same_axes() -> None:
    static = registry.task("static")
    found = of(static, "laptop", layer=["nac", "relu"], op=["add"], steps=[10_000], hidden=[4])
    assert found == {("nac", "add"): {"hidden": 4}, ("relu", "add"): {"hidden": 4, "steps": 10_000}}
    # a layer that the preset does not run has its recipe all the same
    assert of(static, "laptop", layer=["prelu"], op=["mul"]) == {("prelu", "mul"): {}}
    # of several learning rates of the preset, the nearest
    assert of(static, "paper", layer=["relu"], op=["mul"], lr=[0.01]) == {("relu", "mul"): {}}
    (one,) = of(static, "paper", layer=["relu"], op=["mul"], lr=[0.5], batch=[7]).values()
    assert one == {"lr": 0.5, "batch": 7}


def test_the_rows_of_a_command_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "results")
    common = ["static", "op=add", "--local", "--out", out]
    assert tune.main([*common, "--preset", "smoke", "layer=nac,nalu"]) == 0
    plan, *_, ran, rows, last = capsys.readouterr().out.splitlines()
    assert "smoke: 2 settings, 4 seeds" in plan
    assert (ran, last) == ("4 of 4 seeds ran", "everything works; these are not results")
    report = f"python -m nalu_ray.report static --out {out}"
    told = "a report marks them as smoke runs, not results"
    assert rows == f"rows: {out}/static; {told}: {report}"
    assert not Path(out, "report").exists()
    quick = ["layer=nac", "steps=40", "batch=16", "test_size=20", "seeds=2", "evaluations=2"]
    assert tune.main([*common, *quick]) == 0
    frame = Store(out).load("static")
    settings = frame.drop_duplicates("setting_id").set_index("preset")
    assert sorted(settings.index) == ["laptop", "smoke", "smoke"]
    assert frame["preset"].notna().all()
    changed = json.loads(settings.loc["laptop", "changes"])
    assert changed == {"batch": 16, "evaluations": 2, "steps": 40, "test_size": 20}
    assert set(settings.loc["smoke", "changes"]) == {"{}"}
    text = " ".join(capsys.readouterr().out.split())
    assert "Preset: laptop with batch=16 evaluations=2 steps=40 test_size=20." in text
    assert "The recipes of NAC, NALU and NAC+NALU were chosen among several" in text
    assert "Preset: smoke" not in text
    assert "Also stored, not shown: smoke. Show all: python -m nalu_ray.report static" in text
    names = {path.name for path in Path(out, "report", "static").iterdir()}
    assert "static_laptop_batch_16_evaluations_2_steps_40_test_size_20.md" in names
    assert "static_smoke.md" in names  # files are of all that is stored
    # seeds that fail say it too: every ending writes through the same function
    assert Store(out).specs("static").presets["smoke"]  # type: ignore[union-attr]


def test_a_file_of_ones_own_is_compared_with_the_shipped_preset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = str(tmp_path / "results"), tmp_path / "mine.yaml"
    words = ["static", "layer=nac", "op=add", "--preset", "smoke", "seeds=1"]
    assert tune.main([*words, "batch=8", "--print-config"]) == 0
    file.write_text(capsys.readouterr().out)
    assert tune.main(["static", "--config", str(file), "--local", "--out", out]) == 0
    frame = Store(out).load("static")
    assert set(frame["preset"]) == {"smoke"}
    assert set(frame["changes"]) == {'{"batch": 8}'}


MINE = """
task: static
presets:
  mine:
    axes: {layer: [none], op: [add]}
    set: {steps: 6, evaluations: 2, batch: 4, test_size: 8, lr: 0.05}
    seeds: 2
"""


def test_what_is_changed_beside_or_in_a_file_of_ones_own_is_said(tmp_path: Path) -> None:
    out, file = str(tmp_path / "results"), tmp_path / "mine.yaml"
    for steps, words in ((6, []), (6, ["steps=8"]), (10, [])):
        file.write_text(MINE.replace("steps: 6", f"steps: {steps}"))
        command = ["static", "--config", str(file), *words, "--local", "-q", "--out", out]
        assert tune.main(command) == 0
    frame = Store(out).load("static").drop_duplicates("setting_id").set_index("steps")
    assert dict(frame["changes"]) == {6: "{}", 8: '{"steps": 8}', 10: "{}"}
    stored = Stored.load(Store(out), "static")
    assert stored is not None
    texts = [captions(table)[0] for table in stored.tables if table.spec.name == "static"]
    assert [text.partition("Preset: ")[2] for text in texts] == [
        "mine (its cells are selected among steps=6, 10).",
        "mine with steps=8.",
    ]
