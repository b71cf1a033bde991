"""The device of a trial: none that is missing in silence, and none that is broken for the next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from nalu_ray.results.store.store import Store
from nalu_ray.sweep import device
from nalu_ray.sweep.dispatch import NodeError, TrialSpec
from nalu_ray.sweep.local import run_local
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, make_plan
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.ray import worker
from nalu_ray.sweep.ray.nodes import missing_gpus
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.stopping import StoppedError
from nalu_ray.sweep.trial import Trial
from nalu_ray.training import replicas

pytestmark = pytest.mark.usefixtures("fake")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(device.REHEARSE, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def spec(**values: Any) -> TrialSpec:
    from nalu_ray import registry

    setting = registry.task("fake").setting_type(**values.pop("setting", {}))
    given = {"gpus": 0.5, "seeds": (0, 1), **values}
    return TrialSpec(
        task="fake", setting=setting, setting_id=setting.id, label="fake a seeds 0-1",
        steps=setting.steps, out="results", **given,
    )  # fmt: skip


def fails(error: type[Exception], text: str = "") -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error(text)

    return fail


def test_a_trial_that_reserved_no_gpu_trains_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device.device_of(spec(gpus=0)) == torch.device("cpu")
    assert device.device_of(spec()) == torch.device("cuda")


def test_a_trial_that_finds_no_gpu_ends_the_sweep_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(NodeError) as caught:
        list(Trial(spec()))
    text = str(caught.value)
    assert "fake a seeds 0-1 reserved 0.5 of it, but torch" in text
    assert "finds no CUDA device there" in text
    assert "CUDA_VISIBLE_DEVICES 1" in text
    assert Store("results").outcomes("fake") == {}  # not the seeds' fault


def test_a_cluster_can_be_rehearsed_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(device.REHEARSE, "1")
    *_, last = Trial(spec())
    assert (last.done, last.failed) == (True, {})


def test_numbers_are_those_of_float32_and_rows_say_so() -> None:
    with device.kept_settings():
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
        *_, last = Trial(spec(gpus=0))
        assert not torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_tf32
    assert last.done
    (path,) = Path("results/fake").glob("*.json")
    manifest = json.loads(path.read_text())
    assert manifest["numerics"] == {"tf32": False, "deterministic": False, "device": "cpu"}


def test_deterministic_operations_are_a_process_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(device.CUBLAS, "")
    monkeypatch.delenv(device.CUBLAS)
    with device.kept_settings():
        assert device.set_numerics(True) == {"tf32": False, "deterministic": True}
        assert torch.are_deterministic_algorithms_enabled()
        assert device.os.environ[device.CUBLAS] == ":4096:8"
        device.set_numerics(False)
        assert not torch.are_deterministic_algorithms_enabled()
        device.set_numerics(True)
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_deterministic_trial_may_follow_another_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nalu_ray import registry

    kind = registry.task("identity").setting_type
    first, later = (
        spec().model_copy(update={"setting": kind(deterministic=on)}) for on in (False, True)
    )
    monkeypatch.setenv(device.CUBLAS, "")
    monkeypatch.delenv(device.CUBLAS)
    device.prepare_cublas([first, later.model_copy(update={"gpus": 0.0})])
    assert device.CUBLAS not in device.os.environ
    device.prepare_cublas([first, later])
    assert device.os.environ[device.CUBLAS] == ":4096:8"


def test_a_deterministic_trial_computes_so_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from nalu_ray import registry

    monkeypatch.setenv(device.CUBLAS, "")
    task, seen = registry.task("identity"), []
    setting = task.setting_type(layer="none", steps=2, evaluations=1, batch=4, deterministic=True)
    start = type(task).start
    monkeypatch.setattr(
        type(task),
        "start",
        lambda *args, **more: (
            seen.append(torch.are_deterministic_algorithms_enabled()),
            start(*args, **more),
        )[1],
    )
    trial = TrialSpec(
        task="identity", setting=setting, setting_id=setting.id, label="identity none", steps=2,
        out="results", gpus=0, seeds=(0,),
    )  # fmt: skip
    with device.kept_settings():
        *_, last = Trial(trial)
    assert (last.done, last.failed, seen) == (True, {}, [True])
    (path,) = Path("results/identity").glob("*.json")
    numerics = json.loads(path.read_text())["numerics"]
    assert numerics == {"tf32": False, "deterministic": True, "device": "cpu"}


@pytest.mark.parametrize(
    ("gpus", "deterministic", "gpus_of_node", "fresh"),
    [(1, True, 1, True), (1, False, 1, False), (1, False, 2, True), (0, True, 2, False)],
)
def test_a_gpu_that_must_be_fresh_gets_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, gpus: int, deterministic: bool, gpus_of_node: int, fresh: bool
) -> None:
    """cuBLAS decides once per process, and a process sees only the GPUs of its first trial."""
    monkeypatch.setattr(worker, "_gpus_here", lambda: float(gpus_of_node))
    chosen = worker._task_of({"gpus": gpus, "setting": {"deterministic": deterministic}})
    assert chosen is (worker.run_trial_afresh if fresh else worker.run_trial)


def test_cublas_is_prepared_before_the_first_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[int] = []
    monkeypatch.setattr(device, "prepare_cublas", lambda specs: prepared.append(len(specs)))
    plan = local_plan()
    with Board(Console(quiet=True), plan, True) as board, pytest.raises(StoppedError):
        run_local(plan, board, Store("results"))  # the first trial finds no GPU
    assert prepared == [2]


def test_cuda_is_lost_after_an_error_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not device.is_lost()  # not in use
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    lasting = fails(RuntimeError, "CUDA error: device-side assert triggered")
    monkeypatch.setattr(torch.cuda, "synchronize", lasting)
    assert device.is_lost()
    monkeypatch.setattr(torch.cuda, "synchronize", fails(torch.cuda.OutOfMemoryError))
    assert not device.is_lost()
    monkeypatch.setattr(torch.cuda, "empty_cache", lasting)
    device.free(spec())  # the report of the failure is more important


def local_plan(**setting: Any) -> Any:
    from nalu_ray import registry

    task = registry.task("fake")
    points = [Point(setting=task.setting_type(lr=lr, **setting), seeds=(0,)) for lr in (1, 2)]
    machine = Capacity("test", (Node(1, 1, 8 * GIB),))
    return make_plan(task, points, {}, Job("results", Resources(gpus_per_trial=1), 1.0), machine)


def test_no_trial_follows_one_that_broke_cuda_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(device.REHEARSE, "1")
    monkeypatch.setattr(device, "is_lost", lambda: True)
    plan = local_plan()
    with Board(Console(quiet=True), plan, True) as board, pytest.raises(StoppedError) as caught:
        run_local(plan, board, Store("results"))
    assert "left CUDA unusable in this process" in str(caught.value)
    assert len(Store("results").outcomes("fake")) == 1


def test_without_a_gpu_no_local_trial_starts() -> None:
    plan = local_plan()
    with Board(Console(quiet=True), plan, True) as board, pytest.raises(StoppedError) as caught:
        run_local(plan, board, Store("results"))
    assert "finds no CUDA device" in str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "wrong", "ends"), [(0.5, "raise", True), (0.5, "no", False), (0, "raise", False)]
)
def test_a_trial_that_fails_on_a_gpu_takes_its_process_with_it(
    gpus: float, wrong: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(device.REHEARSE, "1")
    reports, code = [], None
    try:
        reports += worker.trial(spec(gpus=gpus, setting={"wrong": wrong}).plain(), 60, 0)
    except SystemExit as error:
        code = error.code
    assert (code == 0) == ends
    assert len(Store("results").outcomes("fake")) == 2


def test_the_last_report_comes_before_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(device.REHEARSE, "1")
    reports = worker.trial(spec(setting={"wrong": "raise"}).plain(), 60, 0)
    seen = []
    with pytest.raises(SystemExit):
        seen.extend(reports)
    assert seen[-1].done
    assert set(seen[-1].failed) == {0, 1}


def test_nodes_whose_gpus_torch_does_not_find() -> None:
    lines = missing_gpus([("a", 2.0, 2), ("b", 2.0, 8), ("c", 2.0, 1), ("d", 1.0, "it died")])
    assert [line[:7] for line in lines] == ["node c ", "node d:"]
    assert "declares 2 GPUs to Ray, but torch finds 1 there" in lines[0]
    assert "it died" in lines[1]


def test_a_gpu_s_generator_is_saved_once_per_block(monkeypatch: pytest.MonkeyPatch) -> None:
    forks: list[list[int]] = []
    fork = torch.random.fork_rng

    def counted(devices: list[int]) -> Any:
        forks.append(list(devices))
        return fork(devices=[])

    monkeypatch.setattr(torch.random, "fork_rng", counted)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    before = torch.get_rng_state()
    block = replicas.Replicas(lambda: torch.nn.Linear(2, 1), range(5))
    assert forks == [[3]]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    assert torch.equal(block.replica(4)["weight"], torch.nn.Linear(2, 1).weight)
