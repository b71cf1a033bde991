"""Rows know the code that made them; what other code ran again to its end supersedes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nalu_ray.results.store.store import Outcome, Store


def put(store: Store, code: str | None, seeds: dict[int, float], reason: str | None = None) -> None:
    table = []
    for seed, value in seeds.items():
        base = {"seed": seed, "step": 9, "split": "train", "reason": None}
        table.append({**base, "metric": "mse", "value": value})
        done = {"metric": "completed", "value": float(reason is None), "reason": reason}
        table.append({**base, **done})
    key = {"task": "static", "setting_id": "a", "code": code}
    store.write({"layer": "nac"}, key, pd.DataFrame(table), {})


def shown(store: Store) -> dict[int, tuple[float, str | None]]:
    rows = store.load("static").query("metric == 'mse'")
    codes = [None if pd.isna(code) else code for code in rows["code"]]
    return dict(zip(rows["seed"], zip(rows["value"], codes, strict=True), strict=True))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def test_a_row_and_its_outcome_have_the_code(store: Store) -> None:
    put(store, "one", {0: 1.0})
    put(store, None, {1: 2.0})
    assert shown(store) == {0: (1.0, "one"), 1: (2.0, None)}
    assert store.outcomes("static") == {
        ("a", 0): Outcome("a", 0, "completed", None, "one"),
        ("a", 1): Outcome("a", 1, "completed", None, None),
    }


def test_of_one_code_the_first_written_counts(store: Store) -> None:
    put(store, "one", {0: 1.0})
    put(store, "one", {0: 2.0})
    assert shown(store) == {0: (1.0, "one")}


@pytest.mark.parametrize("before", ["one", None])
def test_what_other_code_ran_again_supersedes_its_seeds_only(
    store: Store, before: str | None
) -> None:
    put(store, before, {0: 1.0, 1: 1.5})
    put(store, "two", {1: 2.5})
    assert shown(store) == {0: (1.0, before), 1: (2.5, "two")}


def test_code_that_comes_back_finds_its_own_rows(store: Store) -> None:
    for code, value in (("one", 1.0), ("two", 2.0), ("one", 1.0)):
        put(store, code, {0: value})
    assert shown(store) == {0: (1.0, "one")}


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        ("ValueError: no", (1.0, "one")),  # it did not come to its end: the old rows stay
        ("diverged: loss not finite at step 3", (2.0, "two")),  # it did, and that is the result
    ],
)
def test_a_seed_that_fails_anew_leaves_the_old_rows(
    store: Store, reason: str, left: tuple[float, str]
) -> None:
    put(store, "one", {0: 1.0})
    put(store, "two", {0: 2.0}, reason)
    assert shown(store) == {0: left}


def test_of_failures_the_last_counts_whatever_the_code(store: Store) -> None:
    put(store, "one", {0: 1.0}, "diverged: at step 3")
    put(store, "one", {0: 1.0}, "ValueError: later")
    assert store.outcomes("static")["a", 0].reason == "ValueError: later"
    put(store, "two", {0: 1.0}, "ValueError: last")
    assert store.outcomes("static")["a", 0].reason == "ValueError: last"


def test_a_setting_has_no_field_of_that_name(store: Store) -> None:
    key = {"task": "static", "setting_id": "a"}
    with pytest.raises(ValueError, match="cannot be called code"):
        store.write({"code": 1}, key, pd.DataFrame(), {})


def test_code_is_no_field_that_tells_settings_apart(store: Store) -> None:
    from nalu_ray.results.analysis.axes import setting_labels

    settings: Any = pd.DataFrame({"setting_id": ["a", "b"], "code": ["x", "y"], "lr": [1, 1]})
    assert setting_labels(settings, []) == {"a": "", "b": ""}


def test_a_network_of_superseded_rows_is_no_longer_the_best(store: Store, tmp_path: Path) -> None:
    from nalu_ray.results.store.networks import Kind, best

    def read(data: bytes, name: str) -> list[dict[str, Any]]:
        return [{"seed": seed, "score": float(data)} for seed in (0, 1)]

    kind = Kind("thing", ".thing", read, ValueError, lambda about: about["score"])

    def put_with(code: str, seeds: dict[int, float], score: float) -> None:
        before = {path.stem for path in tmp_path.glob("static/*.parquet")}
        put(store, code, seeds)
        (name,) = {path.stem for path in tmp_path.glob("static/*.parquet")} - before
        (tmp_path / "static" / f"{name}-s.thing").write_text(str(score))

    put_with("one", {0: 1.0, 1: 1.0}, 9.0)
    put_with("two", {0: 1.0}, 5.0)

    def chosen(**wanted: str) -> float:
        return float(
            best(str(tmp_path), "static", kind, wanted, lambda found: found).about["score"]
        )

    assert (chosen(seed="0"), chosen(seed="1")) == (5.0, 9.0)
