"""docs/rows: the rows that are kept name no machine and make the tables of the documents."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import nalu_ray as nr
from nalu_ray.errors import ConfigError
from nalu_ray.results.output.formats import markdown
from nalu_ray.results.output.save import Stored
from nalu_ray.results.store.store import Store

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
KEPT = sorted(path for path in (DOCS / "rows").glob("*") if path.is_dir())
MARKER = "<!-- table: identity identity laptop -->"


def _load(name: str) -> ModuleType:
    path = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference, wiring = _load("reference"), _load("wiring")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rows of two short settings, two blocks of seeds in one of them."""
    out = tmp_path_factory.mktemp("swept") / "results"
    fields: dict[str, Any] = {"steps": 40, "evaluations": 4, "out": str(out), "quiet": True}
    nr.run("identity", layer=["relu", "tanh"], seeds=2, **fields)
    nr.run("identity", layer="relu", seeds=4, **fields)
    return out


@pytest.fixture
def laptop(swept: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Ids of these settings by layer, which are the laptop preset here."""
    rows = Store(str(swept)).load("identity").drop_duplicates("setting_id")
    ids = dict(zip(rows["layer"], rows["setting_id"], strict=True))
    monkeypatch.setattr(reference, "members", lambda task: {"laptop": tuple(ids.values())})
    return ids


def kept(docs: Path) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    store = Store(str(docs / "rows"))
    return store.load("identity"), store.manifests("identity")


def shown(out: Path) -> list[str]:
    """Returns the tables of a results folder, as the report prints them."""
    stored = Stored.load(Store(str(out)), "identity")
    assert stored is not None
    return [markdown(table, brief=True) for table in stored.tables]


def test_the_rows_of_tables_are_kept_and_make_the_same_tables(
    swept: Path, laptop: dict[str, str], tmp_path: Path
) -> None:
    said = reference.add(swept, "identity", tmp_path / "rows")
    assert said.startswith("identity: 6 seeds of 2 settings, ")
    made = reference.tables("identity", tmp_path / "rows")
    (table,) = shown(swept)
    ((name, text),) = made.items()
    assert name.startswith("identity identity laptop")  # and the changed steps
    assert table in text
    assert re.search(r"Measured by nalu-ray [\d.]+, torch \S+ on .*: 3 trials", text)
    rows, manifests = kept(tmp_path)
    everything = Store(str(swept)).load("identity")
    assert len(rows) < len(everything) / 10  # no curves, one step
    assert {m["spec"]["setting_id"] for m in manifests} == set(laptop.values())
    seconds = [m["seconds"] for m in Store(str(swept)).manifests("identity")]
    assert sorted(m["seconds"] for m in manifests) == sorted(seconds)


def test_nothing_that_is_kept_names_a_machine(
    swept: Path, laptop: dict[str, str], tmp_path: Path
) -> None:
    frame = Store(str(swept)).load("identity").head(3)
    ends = ["diverged", "failed", None]
    reasons = ["diverged at step 7", "OSError: on host7 (traceback: /home/me/x.txt)", None]
    public = reference.public_rows(frame.assign(outcome=ends, reason=reasons))
    assert public["reason"].tolist()[:2] == ["diverged at step 7", "OSError"]
    assert public["reason"].isna().tolist() == [False, False, True]
    reference.add(swept, "identity", tmp_path / "rows")
    for path in (tmp_path / "rows" / "identity").iterdir():
        data = path.read_bytes()
        assert str(swept).encode() not in data
        assert str(tmp_path).encode() not in data
    _, manifests = kept(tmp_path)
    assert "results" not in json.dumps(manifests)  # the folder of the command line
    for name in ("out", "command", "label"):
        assert not any(name in manifest["spec"] for manifest in manifests)


def test_seeds_are_added_and_what_no_preset_has_is_dropped(
    swept: Path, laptop: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows"
    part = tmp_path / "part" / "identity"
    shutil.copytree(swept / "identity", part)
    for path in part.glob(f"{laptop['tanh']}*"):
        path.unlink()
    reference.add(part.parent, "identity", rows)
    assert set(kept(tmp_path)[0]["layer"]) == {"relu"}
    reference.add(swept, "identity", rows)
    frame, manifests = kept(tmp_path)
    assert frame.groupby("layer")["seed"].nunique().to_dict() == {"relu": 4, "tanh": 2}
    assert len(manifests) == 3
    monkeypatch.setattr(reference, "members", lambda task: {"laptop": (laptop["relu"],)})
    assert "1 settings of no preset" in reference.add(swept, "identity", rows)
    assert set(kept(tmp_path)[0]["layer"]) == {"relu"}


def test_a_document_is_compared_and_written(
    swept: Path, laptop: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--docs", str(tmp_path)]
    assert reference.main(["add", "identity", "--from", str(swept), *words]) == 0
    (name,) = reference.tables("identity", tmp_path / "rows")
    page = tmp_path / "page.md"
    other = "<!-- table: static static laptop -->\nnot stored\n<!-- /table -->\n"
    page.write_text(f"before\n<!-- table: {name} -->\n<!-- /table -->\nafter\n{other}", "utf-8")
    verdicts = tmp_path / "verdicts.md"
    verdicts.write_text("<!-- table: reproduction -->\n<!-- /table -->\n", "utf-8")
    assert reference.main(["check", *words]) == 1
    assert "page.md" in capsys.readouterr().out
    assert reference.main(["write", *words]) == 0
    text = page.read_text("utf-8")
    assert shown(swept)[0] in text
    assert text.startswith("before\n")
    assert text.endswith(f"\nafter\n{other}")
    (line,) = re.findall(r"^\| \[5\].*$", verdicts.read_text("utf-8"), re.MULTILINE)
    judged = [int(count) for count in line.strip("|").split("|")[1:]]
    assert sum(judged[:-1]) == 4  # of Table 5: two errors of two layers; the others were not run
    assert reference.main(["check", *words]) == 0
    page.write_text(text.replace("| ReLU | ", "| ReLU | 1", 1), "utf-8")
    assert reference.main(["check", *words]) == 1


def test_wrong_words(
    swept: Path, laptop: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--docs", str(tmp_path)]
    assert reference.main(["add", "--from", str(swept), *words]) == 2
    assert "stored in" in capsys.readouterr().err
    assert reference.main(["add", "identiti", "--from", str(swept), *words]) == 2
    assert "identity" in capsys.readouterr().err
    assert reference.main(["add", "identity", "--from", str(swept), *words]) == 0
    (tmp_path / "page.md").write_text(f"{MARKER}\n<!-- /table -->\n", "utf-8")
    assert reference.main(["check", *words]) == 2  # these rows have other steps
    assert "identity identity laptop" in capsys.readouterr().err


def test_rows_that_make_other_tables_are_not_kept(
    swept: Path, laptop: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {"interpolation", "extrapolation"}
    monkeypatch.setattr(
        reference, "thinned", lambda frame, specs: frame[~frame["split"].isin(first)]
    )
    with pytest.raises(ConfigError, match="tables read rows"):
        reference.add(swept, "identity", tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


# -- the repository's own --------------------------------------------------------------------------


def test_the_documents_show_the_tables_of_the_rows() -> None:
    assert reference.refresh(DOCS, write=False) == [], "run: python benchmarks/reference.py write"


def test_every_marker_is_closed_and_names_a_task() -> None:
    for path in DOCS.rglob("*.md"):
        text = path.read_text("utf-8")
        assert text.count("<!-- table: ") == len(list(reference.blocks(text))), path.name


def test_kept_rows_are_small_and_name_no_machine() -> None:
    for folder in KEPT:
        assert sum(path.stat().st_size for path in folder.iterdir()) < 1e6, folder.name
        for path in folder.glob("*.json"):
            data = json.loads(path.read_text("utf-8"))
            for manifest in data.get("trials", {"": data}).values():
                assert reference.public(manifest) == manifest
        for path in folder.glob("*.parquet"):
            reasons = pq.read_table(path, columns=["reason"])["reason"].to_pylist()
            assert not any("/" in reason for reason in reasons if reason)


@pytest.mark.parametrize(("metric", "times"), [("reward", [19]), ("time", [19, 25])])
def test_the_confirmation_is_of_the_kept_curves(metric: str, times: list[int]) -> None:
    text = (DOCS / "gridworld.md").read_text()
    seeds = wiring.curves(str(DOCS / "gridworld_confirmation.csv"))
    assert seeds.groupby(["algorithm", "variant", "T"]).size().eq(10).all()
    table = wiring.differences(seeds, "lstm_nac", "lstm", metric, times)
    assert len(table) == 2 * len(times)
    for line in table.itertuples(index=False):
        assert "| " + " | ".join(map(str, line)) + " |" in text


def test_a_lost_seed_has_no_reward_and_a_completed_one_has_curves(tmp_path: Path) -> None:
    rows = {"algorithm": "a3c", "variant": "lstm", "split": "greedy", "metric": "reward", "x": 19.0}
    kept = pd.DataFrame([{**rows, "seed": 0, "value": 0.5}, *_ends({0: 1.0, 1: 0.0})])
    assert wiring.of_seeds(kept).set_index("seed")["reward"].to_dict() == {0: 0.5, 1: 0.0}
    with pytest.raises(SystemExit, match="completed seeds without curves"):
        wiring.of_seeds(pd.concat([kept, pd.DataFrame(_ends({2: 1.0}))]))


def _ends(seeds: dict[int, float]) -> list[dict[str, Any]]:
    key = {"algorithm": "a3c", "variant": "lstm", "metric": "completed", "split": "train"}
    return [{**key, "seed": seed, "value": value} for seed, value in seeds.items()]


def test_seeds_that_another_preset_asked_for_are_among_those_measured() -> None:
    """As a preset that has the settings of another, and more seeds, has its seeds, too."""
    spec = [("one", "few", [0, 1]), ("one", "all", [2, 3]), ("other", "few", [0])]
    manifests = [
        {"spec": {"setting_id": sid, "preset": preset, "seeds": seeds}}
        for sid, preset, seeds in spec
    ]
    table: Any = SimpleNamespace(sweep=SimpleNamespace(preset="all"))
    assert reference._of_preset(manifests, table) == manifests[:2]
    table.sweep.preset = "few"
    assert reference._of_preset(manifests, table) == manifests
