"""Trials that find no place: what is asked, what is free and who has it are told."""

from __future__ import annotations

import re
import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from nalu_ray import tune
from nalu_ray.sweep.dispatch import TrialSpec
from nalu_ray.sweep.ray import waiting
from nalu_ray.task import Setting


def spec() -> TrialSpec:
    return TrialSpec(
        task="fake",
        setting=Setting(),
        setting_id="0",
        seeds=(0,),
        label="x",
        steps=1,
        out="results",
    )


def test_it_is_told_after_half_a_minute_without_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "describe", lambda waits: f"waiting: {waits.label}")
    now, told = [0.0], list[str]()
    look = waiting.Waiting(told.append, lambda: now[0])
    for at, running, waits in [
        (0, False, spec()),
        (29, False, spec()),
        (29.5, True, spec()),  # one runs: from here anew
        (31, False, spec()),
        (59, False, spec()),
        (59.2, False, None),  # nothing waits
        (89, False, spec()),
    ]:
        now[0] = at
        look.look(running, waits)
    assert told == []
    now[0] = 89.5
    look.look(False, spec())
    assert told == ["waiting: x"]
    now[0] = 100
    look.look(False, spec())
    assert len(told) == 1


def test_amounts() -> None:
    there = {"CPU": 2.0, "GPU": 0.0, "memory": 3 * 2**30, "node:10.0.0.1": 1.0}
    assert waiting.amounts(there) == "2 CPU, 3.00 GiB memory"
    assert waiting.amounts({"memory": 2**29}, there) == "0 CPU, 0.50 GiB memory"
    assert waiting.amounts({}) == "nothing"


def test_without_a_dashboard_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(**options: Any) -> None:
        raise ConnectionError("no dashboard")

    context = SimpleNamespace(gcs_address="10.0.0.1:6379")
    monkeypatch.setattr(waiting.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(waiting.state, "list_placement_groups", unreachable)
    assert waiting.holders() == ["unknown (ConnectionError)"]


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_a_cluster_that_somebody_fills(
    cluster: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    @ray.remote(num_cpus=2)
    class Holder:
        def ready(self) -> bool:
            return True

    holder: Any = Holder.remote()
    assert ray.get(holder.ready.remote(), timeout=200)
    describe = waiting.describe

    def and_release(waits: TrialSpec) -> str:
        text = describe(waits)
        ray.kill(holder)
        return text

    monkeypatch.setattr(waiting, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(waiting, "describe", and_release)
    code = tune.main(shlex.split(f"fake layer=a lr=1 seeds=1 --address {cluster}"))
    text = capsys.readouterr().out
    assert code == 0
    line, *_ = [line for line in text.splitlines() if line.startswith("waiting for resources: ")]
    job = ray.get_runtime_context().get_job_id()
    assert re.search(r"needs 1 CPU, 0\.\d+ GiB memory; free: 0 CPU, 2 GPU, 8\.00 GiB memory", line)
    # on a busy machine Ray's state service may not answer in time
    known = rf"2 CPU by {job} \(this process\)|unknown \(\w+\)"
    assert re.search(rf"8\.00 GiB memory; held by jobs: ({known})$", line)
