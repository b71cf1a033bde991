"""Rows of other code: counted by the plan, run anew when asked for, never lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nalu_ray import tune
from nalu_ray.results.store.store import Store
from nalu_ray.sweep import code_digest

LINE = "fake layer=a,b lr=1 seeds=3 --local"


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the source be of some digest."""

    def use(digest: str) -> None:
        monkeypatch.setattr(code_digest, "_digest", lambda roots: digest)

    return use


def call(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    result = tune.main(line.split())
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return result, out + err


def codes() -> dict[tuple[str, int], str]:
    rows = Store("results").load("fake").query("metric == 'completed'")
    keys = zip(rows["layer"], rows["seed"], strict=True)
    return dict(zip(keys, rows["code"], strict=True))


def test_rows_of_other_code_are_told_and_kept_unless_asked(
    fake: Any, code: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    code("one")
    assert call(f"{LINE} -q", capsys)[0] == 0
    assert "version of the code" not in call(f"{LINE} --dry-run", capsys)[1]
    code("two")
    told = "6 done before; 0 to do\nstored seeds: 6 from another version of the code (--rerun"
    assert told in call(f"{LINE} --dry-run", capsys)[1]
    assert call(LINE, capsys)[0] == 0
    assert set(codes().values()) == {"one"}


def test_rerun_runs_those_anew_and_no_others(
    fake: Any, code: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    code("one")
    call("fake layer=a lr=1 seeds=2 --local -q", capsys)
    code("two")
    call("fake layer=b lr=1 seeds=3 --local -q", capsys)
    status, text = call(f"{LINE} --rerun", capsys)
    assert status == 0
    told = "3 to do\nseeds rerun because they come from another version of the code: 2\n"
    assert told in text
    assert codes() == {(layer, seed): "two" for layer in "ab" for seed in range(3)}
    assert "6 done before; 0 to do" in call(f"{LINE} --rerun", capsys)[1]


def test_a_rerun_that_fails_leaves_the_rows_and_says_so(
    fake: Any,
    code: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code("one")
    call("fake layer=a lr=1 seeds=2 --local -q", capsys)
    before = Store("results").load("fake")
    code("two")

    def fail(*arguments: Any) -> None:
        raise ValueError("broken by the edit")

    with monkeypatch.context() as patch:
        patch.setattr(type(fake), "start", fail)
        status, text = call("fake layer=a lr=1 seeds=2 --local --rerun", capsys)
    assert status == 1
    assert "broken by the edit" in text
    assert (
        "failed: 2 seeds: not rerun: its rows still come from another version of the code" in text
    )
    assert Store("results").load("fake").equals(before)
    assert call("fake layer=a lr=1 seeds=2 --local --rerun -q", capsys)[0] == 0
    assert set(codes().values()) == {"two"}


def test_a_rerun_that_is_stopped_leaves_the_rows(
    fake: Any,
    code: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code("one")
    line = "fake layer=a,b lr=1 seeds=2 --local"
    call(f"{line} -q", capsys)
    before = Store("results").load("fake")
    code("two")
    start = type(fake).start

    def stop_at_a(task: Any, setting: Any, *arguments: Any) -> Any:
        if setting.layer == "a":  # the longer ones, of b, come first
            raise KeyboardInterrupt
        return start(task, setting, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(type(fake), "start", stop_at_a)
        assert call(f"{line} --rerun", capsys)[0] == 130
    assert codes() == {("b", 0): "two", ("b", 1): "two", ("a", 0): "one", ("a", 1): "one"}
    now = Store("results").load("fake")
    order = ["layer", "seed", "metric"]
    before, now = (rows.sort_values(order, ignore_index=True) for rows in (before, now))
    # the fake task's numbers depend on no code
    assert now.drop(columns="code").equals(before.drop(columns="code"))
    told = "2 to do\nseeds rerun because they come from another version of the code: 2"
    assert told in call(f"{line} --rerun", capsys)[1]


def test_failed_seeds_of_other_code_run_anew_too(
    fake: Any, code: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    code("one")
    line = "fake layer=a lr=1 seeds=3 wrong=diverge --local"
    assert call(f"{line} -q", capsys)[0] == 1
    code("two")
    assert "2 done before, 1 failed before" in call(f"{line} --dry-run", capsys)[1]
    text = call(f"{line} --dry-run --rerun-failed", capsys)[1]
    assert "2 done before; 1 to do\nstored seeds: 2 from another version of the code" in text
    told = (
        "0 done before; 3 to do\nseeds rerun because they come from another version of the code: 3"
    )
    assert told in call(f"{line} --dry-run --rerun", capsys)[1]
