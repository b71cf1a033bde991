"""Memory of what is trained, counted before anything is."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from nalu_ray import registry, tune
from nalu_ray.command import execution
from nalu_ray.sweep.block_size import need
from nalu_ray.sweep.machine import GIB, WORKER_BYTES, Capacity, Node
from nalu_ray.sweep.presets import Point
from nalu_ray.tasks.static import TASK, StaticSetting

PARAMETERS = 1_000_000 * 100 + 1_000_000 + 1_000_000 + 1  # two affine layers


def bytes_of(seeds: int = 1, **values: object) -> int:
    point = Point(setting=StaticSetting.model_validate(values), seeds=tuple(range(seeds)))
    return need(TASK, point, seeds) - WORKER_BYTES


def test_parameters_gradients_and_moments_count() -> None:
    one = bytes_of(layer="relu", hidden=1_000_000)
    assert one > 4 * PARAMETERS * 4  # themselves, gradients and Adam's two moments
    assert bytes_of(layer="relu", hidden=1_000_000, optimiser="sgd") < one
    assert bytes_of(layer="relu", hidden=1_000_000, optimiser="muon") > one
    assert bytes_of(10, layer="relu", hidden=1_000_000) == 10 * one
    for field in ({"penalty": "l1@*:1"}, {"lr_factor": "*:0.1"}, {"phases": "1|*"}):
        assert bytes_of(layer="relu", hidden=1_000_000, **field) > one
    # W_hat, M_hat and G
    assert TASK.trained(StaticSetting(layer="nalu", hidden=1000), 1) == pytest.approx(
        3 * TASK.trained(StaticSetting(layer="relu", hidden=1000), 1), rel=0.02
    )


def test_what_hidden_units_make_of_each_example_counts() -> None:
    few, many = (bytes_of(layer="nac", hidden=100_000, test_size=size) for size in (10, 1000))
    assert many - few > 4 * 990 * 100_000


def test_networks_as_the_presets_have_them_take_next_to_nothing() -> None:
    assert bytes_of(100, layer="nalu") < 0.5 * GIB


def test_what_fits_nowhere_is_refused_with_the_arithmetic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = "static layer=relu op=add hidden=1000000000 seeds=1 --dry-run"
    assert tune.main(line.split()) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "GiB (the largest node has" in told


# what takes time alone: steps, and sequences that are read piece by piece
IN_TIME = {"steps", "warmup", "evaluations", "time_limit", "test_time_limit", "test_length"}
SIZES = [
    (name, field)
    for name in registry.names()
    for field, info in registry.task(name).setting_type.model_fields.items()
    if field not in IN_TIME
    if field == "pool" or (isinstance(info.default, int) and not isinstance(info.default, bool))
]


@pytest.mark.parametrize(("name", "field"), SIZES)
def test_any_size_is_counted_or_refused(
    name: str, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused(f"{name} --preset smoke {field}=1000000000", capsys)


@pytest.mark.parametrize(
    "line",
    [
        "gridworld variant=lstm hidden=1000000",
        "gridworld variant=nac_core bank=1000000000",
        "gridworld algorithm=impala envs=1000000000",
        "gridworld test_episodes=1000000000000",
        "identity layer=relu lr=0.01 figure_limit=1000000000000",
        "identity layer=relu lr=0.01 hidden_layers=30000",
        "comparison layer=relu op=less hidden_layers=1000000",
        "language head=nalu head_layers=100000000",
        "mnist_counting layer=nac length=1000000000 pool=32",
        "mnist_counting layer=lstm hidden=1000000000",
        "program layer=dnc options=slots:1000000000",
        "program layer=dnc options=slots:4096",
        "recurrent layer=dnc options=slots:1000000000",
    ],
)
def test_what_is_too_large_is_not_built(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_refused(line, capsys)


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        execution, "this_machine", lambda gpus: Capacity("this machine", (Node(2, 0, 8 * GIB),))
    )


class Work(TorchDispatchMode):
    """Counts the modules that are made, tensor operations, and the bytes of the largest result."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.modules = self.operations = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.device.type != "meta":
            self.largest = max(self.largest, result.nbytes)
        return result


def check_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    work, init = Work(), nn.Module.__init__

    def made(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        work.modules += 1
        init(self, *args, **kwargs)

    with mock.patch.object(nn.Module, "__init__", made), work:
        code = tune.main(f"{line} seeds=1 --dry-run".split())
    err = capsys.readouterr().err
    assert code == 2
    assert "GiB (the largest node has" in err or "=" in err or "overflow" in err
    assert "allocate" not in err
    assert not err.rstrip().endswith(":")
    # at most 473, 52,000 and 10 MB
    assert work.modules < 1000
    assert work.operations < 200_000
    assert work.largest < 2**26


def test_a_gridworlds_size_counts_in_every_process() -> None:
    task = registry.task("gridworld")

    def need(**values: object) -> int:
        setting = task.setting_type.model_validate(values)
        return task.memory(setting, 1) + task.trained(setting, 1)

    few = need(hidden=2000, runners=1)
    for more in ({"runners": 2}, {"envs": 6400}, {"test_episodes": 40_000}, {"hidden": 4000}):
        assert need(**{"hidden": 2000, "runners": 1, **more}) > few + 2**24
    setting = task.setting_type()
    assert task.parameters(setting) == 86_998
    assert need() < 1.6 * GIB
