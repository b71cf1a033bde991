"""What is stored stays of use: ids of settings, and rows that an earlier version wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import Field

from nalu_ray import registry, tune
from nalu_ray.results.store.store import Store
from nalu_ray.task import Setting, added, values_before

DATA = Path(__file__).parent / "data"
IDS = [json.loads(line) for line in (DATA / "preset_ids.jsonl").read_text().splitlines()]
FOLDER = DATA / "results_0_1"


@pytest.mark.parametrize("known", IDS, ids=lambda known: f"{known['task']}-{known['preset']}")
def test_settings_of_earlier_presets_keep_their_ids(known: dict[str, Any]) -> None:
    # presets may change; a setting that was once stored is found by the same id
    setting_type = registry.task(known["task"]).setting_type
    for sid, values in known["ids"].items():
        assert setting_type.model_validate(values).id == sid, values


@pytest.mark.parametrize("name", ["identity", "static"])
def test_rows_of_version_0_1_are_read_as_they_were(name: str) -> None:
    store = Store(str(FOLDER))
    assert name in store.tasks()
    rows, setting_type = store.load(name), registry.task(name).setting_type
    assert not rows.empty
    assert rows["code"].isna().all()
    for manifest in store.manifests(name):
        spec = manifest["spec"]
        setting = setting_type.model_validate(spec["setting"])
        assert setting.id == spec["setting_id"]
        seeds = rows.loc[rows["setting_id"] == setting.id, "seed"]
        assert set(seeds) == set(spec["seeds"])
        assert all(store.outcomes(name)[setting.id, seed].ok for seed in seeds)


def test_what_version_0_1_stored_is_done_and_its_code_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(FOLDER, tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    command = ["static", "layer=nac", "op=add,mul", "seeds=2", "steps=20", "evaluations=2"]
    command += ["batch=4", "test_size=4", "--dry-run"]
    assert tune.main(command) == 0
    out = capsys.readouterr().out
    assert "4 done before; 0 to do" in out
    assert "stored seeds: 4 from an unknown version of the code (--rerun reruns them)" in out


# -- a field that a later version adds -------------------------------------------------------------


class Before(Setting):
    lr: float = Field(0.1, description="learning rate")


class After(Before):
    noise: float = added("0.3.0", 0.0, ge=0, description="of the inputs")
    shape: tuple[int, int] = added("0.3.0", (1, 2), description="of the inputs")


def test_an_added_field_at_its_default_leaves_the_id() -> None:
    assert After(lr=0.5).id == Before(lr=0.5).id
    assert After(lr=0.5, noise=0, shape=[1, 2]).id == Before(lr=0.5).id
    others = [After(lr=0.5, noise=0.1), After(lr=0.5, shape=(2, 1)), After(lr=0.2)]
    assert len({Before(lr=0.5).id, *(other.id for other in others)}) == 4
    assert values_before(After) == {"noise": 0.0, "shape": [1, 2]}
    assert values_before(Before) == {}


def test_the_rules_of_an_added_field_hold() -> None:
    with pytest.raises(ValueError, match="noise"):
        After(noise=-1)
    assert After.model_fields["noise"].description == "of the inputs"


def test_a_field_added_to_a_task_leaves_nothing_to_redo(
    fake: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(line: str) -> str:
        assert tune.main(line.split()) == 0
        return capsys.readouterr().out

    call("fake layer=a lr=1 seeds=3 --local -q")

    class Later(fake.setting_type):  # type: ignore[misc, name-defined]
        noise: float = added("0.3.0", 0.5, description="of the inputs")

    monkeypatch.setattr(type(fake), "setting_type", Later)
    assert "3 seeds; 3 done before; 0 to do" in call("fake layer=a lr=1 seeds=3 --dry-run")
    call("fake layer=a lr=1 seeds=3,4 noise=0.5,0.1 --local -q")
    rows = Store("results").load("fake")
    final = rows[rows["metric"] == "completed"]
    told = final.groupby("noise")["seed"].apply(sorted).to_dict()
    assert told == {0.1: [3, 4], 0.5: [0, 1, 2, 3, 4]}
    assert final.groupby("noise")["setting_id"].nunique().to_dict() == {0.1: 1, 0.5: 1}
    assert not rows["noise"].isna().any()
    assert isinstance(rows["noise"].dtype, type(pd.Series([0.5]).dtype))
