"""The supervised loop: learning, divergence, resuming, rows."""

from __future__ import annotations

import io
import math
from typing import Any, ClassVar, get_args

import pytest
import torch
from torch import Tensor, nn

from nalu_ray import registry
from nalu_ray.results.specs import Selection
from nalu_ray.results.store.store import COMPLETED
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks import identity, static
from nalu_ray.training import best_networks, supervised
from nalu_ray.training.optimisers import OptimiserName
from nalu_ray.training.supervised import (
    SupervisedRun,
    SupervisedSetting,
    SupervisedTask,
    _next_stop,
)
from tests.runs import finish

CPU = torch.device("cpu")
every_optimiser = pytest.mark.parametrize("name", get_args(OptimiserName))


def test_nac_solves_addition_to_1e_5() -> None:
    setting = static.StaticSetting(
        layer="nac", op="add", inputs=10, section=3, steps=3000, lr=0.05, batch=32, test_size=200,
        schedule="cosine", evaluations=1,
    )  # fmt: skip
    rows = finish(static.TASK.start(setting, range(3), CPU))
    last = rows[(rows.step == 3000) & (rows.metric == "mse")]
    assert set(last.split) == {"interpolation", "extrapolation"}
    assert last.value.max() < 1e-5


class Fragile(SupervisedTask[SupervisedSetting]):
    """y = w x with w = 1; from step ``at`` on, seed 1's inputs are not finite."""

    name, title, section, setting_type = "fragile", "", "0", SupervisedSetting
    at = 5

    def __init__(self) -> None:
        self.calls = 0

    def build(self, setting: SupervisedSetting) -> nn.Module:
        return nn.Linear(1, 1)

    def sample(self, setting: SupervisedSetting, split: str, streams: Streams) -> Batch:
        x = torch.from_numpy(streams.uniform((4, 1)))
        if split == "train":
            if self.calls >= self.at and 1 in streams.seeds:
                x[streams.seeds.index(1)] = math.nan
            self.calls += 1
        return Batch((x,), x)


def test_a_diverged_seed_is_frozen_and_recorded_and_harms_no_other() -> None:
    setting = SupervisedSetting(steps=12, evaluations=12, lr=0.1)
    run = SupervisedRun(Fragile(), setting, range(3), CPU)
    for _ in range(5):
        run.advance()
    before = run.replicas.flat.detach().clone()
    rows = finish(run)
    final = rows[rows.metric == COMPLETED].set_index("seed")
    assert final.value.to_dict() == {0: 1.0, 1: 0.0, 2: 1.0}
    assert final.step.to_dict() == {0: 12, 1: 5, 2: 12}
    assert "step 5" in final.reason[1]
    assert torch.equal(run.replicas.flat[1], before[1])
    assert not torch.equal(run.replicas.flat[0], before[0])
    assert rows[(rows.seed == 1) & (rows.metric == "mse")].step.max() == 5
    assert rows[rows.metric == "mse"].value.notna().all()
    healthy = finish(SupervisedRun(Fragile(), setting, [0, 2], CPU))
    mine = rows[rows.seed != 1].reset_index(drop=True)
    assert mine.value.tolist() == healthy.value.tolist()


def test_a_seed_lost_by_the_very_last_update_did_not_complete() -> None:
    setting = SupervisedSetting(steps=3, evaluations=1)
    run = SupervisedRun(Fragile(), setting, [0, 2], CPU)
    run._train(2)
    with torch.no_grad():
        run.optimiser.state[run.replicas.flat]["exp_avg"][1] = math.inf
    rows = finish(run)
    final = rows[rows.metric == COMPLETED].set_index("seed")
    assert final.value.to_dict() == {0: 1.0, 2: 0.0}
    assert "step 3" in final.reason[2]


@every_optimiser
def test_a_frozen_seed_stays_put_and_the_others_go_on(name: OptimiserName) -> None:
    setting = SupervisedSetting(
        steps=12, evaluations=1, lr=0.1, optimiser=name, momentum=0.9 * (name == "sgd"),
        weight_decay=0.5,
    )  # fmt: skip
    run = SupervisedRun(Fragile(), setting, range(2), CPU)
    run._train(5)
    before = run.replicas.flat.detach().clone()
    run._train(6)
    assert run.diverged.tolist() == [-1, 5]
    run._train(12)
    assert torch.equal(run.replicas.flat[1], before[1])
    healthy = SupervisedRun(Fragile(), setting, [0], CPU)
    healthy._train(12)
    assert torch.equal(run.replicas.flat[0], healthy.replicas.flat[0])
    assert not torch.equal(run.replicas.flat[0], before[0])


def test_a_frozen_seed_is_not_kept_as_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures may still change where they have random numbers of their own."""
    setting = SupervisedSetting(steps=12, evaluations=4)
    rule = Selection(metric="late", split="interpolation")
    monkeypatch.setattr(Fragile, "keep", rule)
    run = SupervisedRun(Fragile(), setting, range(2), CPU)

    def falling(*_: Any) -> dict[str, Tensor]:
        return {"late": torch.full((2,), 100.0 - run.step)}

    monkeypatch.setattr(run.task, "metrics", falling)
    finish(run)
    assert run.keeper.steps.tolist() == [12, 3]
    assert run.keeper.values.tolist() == [88, 97]


def assert_alone_as_in_a_block(task: SupervisedTask[Any], setting: SupervisedSetting) -> None:
    block = finish(task.start(setting, [7, 1, 4, 9, 2], CPU))
    mine = block[block.seed == 4].reset_index(drop=True)
    for seeds in ([4], [4, 1]):
        fewer = finish(task.start(setting, seeds, CPU))
        assert fewer[fewer.seed == 4].reset_index(drop=True).equals(mine)


@pytest.mark.parametrize("layer", ["nac", "nalu", "nac_nalu", "relu", "crelu", "none"])
def test_a_seed_of_a_block_is_the_seed_alone_bit_for_bit(layer: str) -> None:
    setting = static.StaticSetting(layer=layer, op="div", steps=30, batch=16, test_size=64, clip=1)
    assert_alone_as_in_a_block(static.TASK, setting)


OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("identity", {"layer": "nalu", "test_limit": 20}),
    ("recurrent", {"layer": "nalu", "test_size": 8, "test_length": 11}),
    ("recurrent", {"layer": "gru", "hidden": 1, "test_size": 8, "test_length": 11}),
    ("language", {"head": "nalu", "combine": "recurrent"}),
    ("language", {"head": "nac", "combine": "recurrent", "division": "seed"}),
    ("language", {"head": "nalu", "combine": "sum", "registers": 2, "head_layers": 2}),
    ("program", {"layer": "nalu_lstm", "test_size": 16, "batch": 16}),
    ("program", {"layer": "lstm", "test_size": 16, "batch": 16}),
]


@pytest.mark.parametrize(("name", "values"), OTHERS)
def test_so_it_is_in_other_tasks(name: str, values: dict[str, Any]) -> None:
    task = registry.task(name)
    assert_alone_as_in_a_block(task, task.setting_type(steps=4, evaluations=1, **values))


class Flushed(Fragile):
    """Notes in training what a denormal number times one is."""

    at = 100

    def loss(self, setting: SupervisedSetting, prediction: Tensor, target: Tensor) -> Tensor:
        self.seen = float(torch.tensor([1e-40]) * 1.0)
        return super().loss(setting, prediction, target)


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="the processor cannot do it")
@pytest.mark.parametrize("asked", [True, False])
def test_a_task_may_take_denormal_numbers_for_zero(
    asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Flushed()
    monkeypatch.setattr(Flushed, "flush_denormals", asked)
    SupervisedRun(task, SupervisedSetting(steps=2, evaluations=1), [0], CPU).advance()
    assert (task.seen == 0) is asked
    assert float(torch.tensor([1e-40]) * 1.0) > 0  # other tasks of the process need them


class Steep(Fragile):
    """y = w x; from step 1 on, seed 1's gradient is about ``slope``."""

    name, slope = "steep", 1e20

    def loss(self, setting: SupervisedSetting, prediction: Tensor, target: Tensor) -> Tensor:
        slopes = torch.ones(len(prediction))
        if self.calls > 1:
            slopes[1] = self.slope
        return prediction.flatten(1).mean(1) * slopes

    def sample(self, setting: SupervisedSetting, split: str, streams: Streams) -> Batch:
        self.calls += split == "train"
        x = 0.5 + torch.from_numpy(streams.uniform((4, 1)))
        return Batch((x,), x)


@pytest.mark.parametrize("slope", [1e20, -1e20])
@every_optimiser
def test_a_seed_whose_squared_gradient_overflows_does_not_stand_still(
    name: OptimiserName, slope: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clipped it goes on, as SGD does anyway; else it is marked."""
    monkeypatch.setattr(Steep, "slope", slope)
    for clip in (None, 1.0):
        setting = SupervisedSetting(steps=4, evaluations=1, lr=1e-9, optimiser=name, clip=clip)
        run = SupervisedRun(Steep(), setting, range(2), CPU)
        with torch.no_grad():
            run.replicas.flat.mul_(1e-6)  # steps are so small
        run._train(1)
        moves = []
        for step in range(2, 5):
            before = run.replicas.flat.detach().clone()
            run._train(step)
            moves.append((run.replicas.flat.detach() - before).abs().amax(1))
        lost = clip is None and name != "sgd"
        assert run.diverged.tolist() == [-1, 1 if lost else -1]
        assert all(bool(move[1] == 0) == lost for move in moves)
        assert all(move[0] > 0 for move in moves)
        assert run.replicas.flat.isfinite().all()


def test_wide_inputs_lose_no_seed_in_silence() -> None:
    """Products of a million have squared errors whose gradients are beyond 1e19."""
    setting = static.StaticSetting(
        layer="nalu", op="mul", train_range=(0.0, 1e6), test_range=(0.0, 1e7), steps=3,
        evaluations=1, test_size=8, batch=32, clip=1.0,
    )  # fmt: skip
    run = static.TASK.start(setting, range(40), CPU)
    before = run.replicas.flat.detach().clone()
    run._train(3)
    moved = (run.replicas.flat != before).any(1)
    assert torch.equal(moved, run.diverged < 0)
    assert moved.all()


class Counted(nn.Module):
    """w x, with a count of calls, their mean, and a constant that is no parameter to train."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(1, 1))
        self.constant = nn.Parameter(torch.rand(1), requires_grad=False)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.mean = self.mean + 0.1 * x.mean(0)
        self.modes.add(self.training)
        return x @ self.weight + self.constant

    modes: ClassVar[set[bool]] = set()


class Counts(Fragile):
    name = "counts"
    keep = Selection(metric="mse", split="interpolation", step="last")

    def build(self, setting: SupervisedSetting) -> nn.Module:
        return Counted()


@every_optimiser
def test_constants_stay_and_buffers_count_training_alone(name: OptimiserName) -> None:
    kept = []
    for evaluations, pause in ((1, False), (10, False), (10, True)):
        setting = SupervisedSetting(
            steps=20, evaluations=evaluations, lr=0.1, optimiser=name, weight_decay=0.5
        )
        run = SupervisedRun(Counts(), setting, [0, 2], CPU)
        constant = run.replicas.buffers["constant"].clone()
        while pause and run.step < 12:
            run.advance()
        if pause:
            buffer = io.BytesIO()
            torch.save(run.state_dict(), buffer)
            buffer.seek(0)
            run = SupervisedRun(Counts(), setting, [0, 2], CPU)
            run.load_state_dict(torch.load(buffer, weights_only=True))
        finish(run)
        assert run.replicas.buffers["calls"].tolist() == [20, 20]
        assert torch.equal(run.replicas.buffers["constant"], constant)
        assert run.replicas.module.training
        (data,) = run.files().values()
        kept.append([model.weights for model in best_networks.from_bytes(data)])
    for model in kept[0]:
        Counted().load_state_dict(model)
        assert model["calls"] == 20
    for others in kept[1:]:
        for model, other in zip(kept[0], others, strict=True):
            assert model.keys() == other.keys()
            assert all(torch.equal(model[key], other[key]) for key in model)


def test_networks_know_when_they_are_evaluated() -> None:
    run = SupervisedRun(Counts(), SupervisedSetting(steps=2, evaluations=1), [0], CPU)
    Counted.modes.clear()
    run._evaluate()
    assert Counted.modes == {False}
    Counted.modes.clear()
    run._train(1)
    assert Counted.modes == {True}


def test_buffers_of_a_frozen_seed_stay_finite() -> None:
    run = SupervisedRun(Counts(), SupervisedSetting(steps=12, evaluations=1), range(2), CPU)
    run._train(12)
    assert run.diverged.tolist() == [-1, 5]
    assert run.replicas.buffers["calls"].tolist() == [12, 5]
    assert run.replicas.buffers["mean"].isfinite().all()


@pytest.mark.parametrize("plan", ["constant", "cosine", "linear"])
@every_optimiser
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, plan: str) -> None:
    # Muon has no matrix to move in a NALU
    setting = static.StaticSetting(
        layer="relu" if name == "muon" else "nalu", op="mul", inputs=12, section=3, steps=40,
        batch=8, test_size=16, evaluations=4, optimiser=name, schedule=plan, clip=1.0,
        weight_decay=0.5,
    )  # fmt: skip
    whole = finish(static.TASK.start(setting, [3, 5], CPU))
    first = static.TASK.start(setting, [3, 5], CPU)
    first.advance()
    first.advance()
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second = static.TASK.start(setting, [3, 5], CPU)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    resumed = finish(second)
    assert resumed.equals(whole)


def test_pauses_between_evaluations_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = static.StaticSetting(
        layer="nac", op="add", steps=6, batch=8, test_size=16, evaluations=2
    )
    whole = finish(static.TASK.start(setting, [3, 5], CPU))
    monkeypatch.setattr(supervised, "PAUSE_SECONDS", 0.0)
    run = static.TASK.start(setting, [3, 5], CPU)
    seen = [run.advance() for _ in range(4)]
    assert [progress.step for progress in seen] == [1, 2, 3, 4]
    assert [bool(progress.shown) for progress in seen] == [False, False, True, False]
    other = static.TASK.start(setting, [3, 5], CPU)
    other.load_state_dict(run.state_dict())
    assert finish(other).equals(whole)


def test_a_seed_is_lost_at_the_same_step_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = SupervisedSetting(steps=12, evaluations=1, lr=0.1)
    whole = finish(SupervisedRun(Fragile(), setting, range(3), CPU))
    monkeypatch.setattr(supervised, "PAUSE_SECONDS", 0.0)
    assert finish(SupervisedRun(Fragile(), setting, range(3), CPU)).equals(whole)


def test_every_seed_is_scored_at_the_start_and_at_even_steps() -> None:
    setting = identity.IdentitySetting(layer="relu", steps=10, evaluations=4, test_limit=20)
    rows = finish(identity.TASK.start(setting, [0, 1], CPU))
    mse = rows[(rows.metric == "mse") & (rows.seed == 1) & (rows.split == "interpolation")]
    assert mse.step.tolist() == [0, 3, 5, 8, 10]
    curve = rows[(rows.metric == "absolute_error") & (rows.seed == 1)]
    assert curve.x.tolist() == list(range(-20, 21))
    assert (curve.step == 10).all()


def test_stops_are_strictly_increasing_and_end_at_the_last_step() -> None:
    for steps, evaluations in ((10, 4), (3, 20), (1, 1), (7, 7)):
        stops, step = [], 0
        while step < steps:
            step = _next_stop(step, steps, evaluations)
            stops.append(step)
        assert stops == sorted(set(stops))
        assert stops[-1] == steps
        assert len(stops) <= evaluations


def test_loss_is_one_number_a_seed() -> None:
    prediction, target = torch.tensor([[[1.0], [3.0]], [[0.0], [0.0]]]), torch.zeros(1, 2, 1)
    setting = static.StaticSetting()
    loss: Tensor = static.TASK.loss(setting, prediction, target)
    assert loss.tolist() == [5.0, 0.0]
    found = static.TASK.metrics(setting, "interpolation", prediction, target)
    assert found["mse"].tolist() == [5.0, 0.0]
