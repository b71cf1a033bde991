"""Seeds that start afresh or are done early, and that all of it is state of each seed's own."""

from __future__ import annotations

import io
import math
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from nalu_ray.results.specs import Selection
from nalu_ray.results.store.rows import COMPLETED
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks import identity, parity, static
from nalu_ray.training import penalties, supervised
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.supervised import SupervisedRun
from nalu_ray.training.task_rules import RULES
from tests.runs import finish
from tests.training.toys import CPU, Adder, Attentive, Rounding, Sums, start, two

# -- redraw ----------------------------------------------------------------------------------------


def losses_into(run: SupervisedRun, rows: list[list[float]]) -> list[list[int]]:
    """Feeds losses, (steps, R), to a run's redraw; returns who started afresh after each step."""
    assert run.redraw is not None
    alive = torch.ones(len(run.seeds), dtype=torch.bool)
    return [
        run.redraw.after(step, torch.tensor(row), alive) for step, row in enumerate(rows, start=1)
    ]


def test_seeds_whose_loss_stays_high_start_afresh() -> None:
    run = start(Sums(), range(5), redraw="4:4:1:2")
    columns = [
        [5.0] * 8,  # stands still
        [9.0, 9.0, 9.0, 9.0, 5.0, 5.0, 5.0, 5.0],  # falls
        [0.9] * 8,  # is low
        [5.4, 5.4, 5.4, 5.4, 5.0, 6.0, 4.0, 5.0],  # falls by less than the deviation, 0.7
        [6.0, 6.0, 6.0, 6.0, 5.0, 6.0, 4.0, 5.0],  # by more
    ]
    when = losses_into(run, [list(row) for row in zip(*columns, strict=True)])
    assert when == [[]] * 7 + [[0, 3]]  # not before there are more than four losses


def test_a_record_begins_again_after_a_redraw() -> None:
    run = start(Sums(), [0], redraw="4:4:1:2")
    when = losses_into(run, [[5.0]] * 24)
    assert [step for step, stuck in enumerate(when, start=1) if stuck] == [8, 16, 24]


def test_halves_are_of_all_losses_since_the_last_redraw() -> None:
    run = start(Sums(), [0], redraw="4:8:1:2")
    # at step 12 the halves are of six losses: 3.0 and 2.75 with a deviation of 0.35
    assert losses_into(run, [[x] for x in (3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2.25, 2.25)])[-1] == [0]
    run = start(Sums(), [0], redraw="4:8:1:2")
    assert losses_into(run, [[x] for x in (4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3)])[-1] == []


def test_a_fresh_start_is_drawn_from_the_seeds_own_stream_and_has_no_moments() -> None:
    run = start(Sums(), [7, 1, 4], redraw="4:4:1:2")
    run._train(3)
    assert run.redraw is not None
    before = run.replicas.flat.detach().clone()
    state = run.optimiser.state[run.replicas.flat]
    moments = {name: state[name].clone() for name in ("exp_avg", "exp_avg_sq")}
    run.redraw._start_afresh(2)
    drawn = Streams("sums", [4], "redraw").uniform((8,), -2, 2)
    assert torch.equal(run.replicas.flat[2, :8], torch.from_numpy(drawn[0]))
    assert not run.replicas.flat[2, 8:].any()
    assert torch.equal(run.replicas.flat[:2], before[:2])
    for name, old in moments.items():
        assert not state[name][2].any()
        assert torch.equal(state[name][:2], old[:2])
        assert old[2, :8].all()


def test_the_loop_redraws_within_the_units_bounds_and_not_the_frozen() -> None:
    """No loss is above the bound, so all but the diverged seed are stuck."""
    run = start(Sums(two, at=3), range(3), lr=1e-4, redraw="4:2:-1:2")
    before = run.replicas.flat.detach().clone()
    run._train(4)
    assert run.diverged.tolist() == [-1, 3, -1]
    moved = (run.replicas.flat - before).abs().amax(1)
    assert moved[1] < 0.01 < moved[0]
    assert run.replicas.flat.abs().max() == 1


def test_a_redraw_projects_the_fresh_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed's redraw must not shrink the others' weights a second time."""

    class Shrinking(Adder):
        def projected(self) -> dict[str, Tensor]:
            return {"W": 0.5 * self.W}

    run, plain = (
        start(Sums(lambda: two(Shrinking, Adder)), range(3), redraw=rule)
        for rule in ("4:2:-1:2", None)
    )
    assert run.redraw is not None
    monkeypatch.setattr(run.redraw, "_is_stuck", lambda rule, index, _: index != 1)
    run._train(4)
    plain._train(4)
    assert torch.equal(run.replicas.flat[1], plain.replicas.flat[1])
    drawn = torch.from_numpy(Streams("sums", range(3), "redraw").uniform((8,), -2, 2))
    limited = drawn[:, :6].clamp(-1, 1).unflatten(1, (2, 3))
    assert torch.equal(run.replicas.parameters()["0.W"][[0, 2]], 0.5 * limited[[0, 2]])


# -- early end -------------------------------------------------------------------------------------


class Scores(Sums):
    """Metrics as a test gives them: {split: for each seed, its value at evaluations 0, 1, ...}."""

    splits = ("extrapolation", "interpolation")

    def __init__(self, values: dict[str, list[list[float]]]) -> None:
        super().__init__()
        self.values, self.seen = values, dict.fromkeys(values, -1)

    def metrics(self, setting: Any, split: str, prediction: Tensor, target: Tensor) -> Any:
        self.seen[split] += 1
        values = self.values[split]
        places = [min(self.seen[split], len(of_seed) - 1) for of_seed in values]
        return {
            "mse": torch.tensor([of[place] for of, place in zip(values, places, strict=True)]),
            "other": torch.zeros(len(values)),
        }

    def curves(self, setting: Any, split: str, batch: Batch, prediction: Tensor) -> Any:
        return {"curve": (torch.arange(2.0), prediction[:, :2, 0])}


def test_a_seed_below_the_bound_is_done_and_the_others_go_on() -> None:
    values = {
        "extrapolation": [[0.0] * 9, [0.0] * 9, [9.0] * 9],
        "interpolation": [[9, 9, 9, 9, 9], [9, 0.1, 9, 9, 9], [9, 9, 0.3, 0.2, 9]],
    }
    run = start(Scores(values), range(3), steps=12, evaluations=4, stop=0.3)
    run.advance()
    at_three = run.replicas.flat.detach().clone()
    rows = finish(run)
    final = rows[rows.metric == COMPLETED].set_index("seed")
    assert final.step.to_dict() == {0: 12, 1: 3, 2: 9}
    assert (final.outcome == "completed").all()
    assert (final.value == 1).all()
    assert torch.equal(run.replicas.flat[1], at_three[1])
    assert not torch.equal(run.replicas.flat[0], at_three[0])
    mse = rows[(rows.metric == "mse") & (rows.split == "interpolation")]
    assert mse.groupby("seed").step.max().to_dict() == {0: 12, 1: 3, 2: 9}
    measured = rows[rows.split == "weights"]
    assert measured.groupby("seed").step.max().to_dict() == {0: 12, 1: 3, 2: 9}
    curves = rows[rows.metric == "curve"]
    assert curves.groupby("seed").step.agg(["min", "max"]).values.tolist() == [
        [12, 12],
        [3, 3],
        [9, 9],
    ]


def test_a_task_may_name_the_metric_that_ends_a_seed() -> None:
    class Accurate(Scores):
        stop_metric = "other"

    values = {"extrapolation": [[0.0]] * 2, "interpolation": [[9.0]] * 2}
    run = start(Accurate(values), stop=0.3)
    run._evaluate()
    assert run.done.tolist() == [0, 0]
    assert parity.TASK.stop_metric == "cross_entropy"  # the first is the accuracy


def test_a_run_ends_with_its_last_seed() -> None:
    """Two seeds are done at step 6, and the third diverges after it."""
    values = {"extrapolation": [[9.0]] * 3, "interpolation": [[9, 9, 0.1], [9.0], [9, 9, 0.1]]}
    task = Scores(values)
    task.at = 7
    run = start(task, range(3), steps=12, evaluations=4, stop=0.3)
    seen = [run.advance() for _ in range(3)]
    assert [progress.step for progress in seen] == [3, 6, 12]
    assert run.step == 8
    rows = run.rows()
    final = rows[rows.metric == COMPLETED].set_index("seed")
    assert final.step.to_dict() == {0: 6, 1: 7, 2: 6}
    assert final.outcome.to_dict() == {0: "completed", 1: "diverged", 2: "completed"}
    curves = rows[rows.metric == "curve"]
    assert curves.groupby("seed").step.max().to_dict() == {0: 6, 2: 6}


def test_done_seeds_are_kept_at_their_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scores, "keep", Selection(step="last"))
    values = {"extrapolation": [[9.0]] * 2, "interpolation": [[9, 0.1, 0.0], [9, 8, 7, 6, 5]]}
    run = start(Scores(values), range(2), steps=12, evaluations=4, stop=0.3)
    finish(run)
    assert run.keeper.steps.tolist() == [3, 12]


def test_only_interpolation_or_validation_may_end_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sums, "splits", ("train", "extrapolation", "test"))
    with pytest.raises(
        ValueError, match=r"^stop: the task sums has no split interpolation or vali"
    ):
        Sums().check(SupervisedSetting(stop=0.1))
    Sums().check(SupervisedSetting())
    monkeypatch.setattr(Sums, "splits", ("test", "validation"))
    assert Sums().stopping_split() == "validation"


def test_curves_at_the_end_are_of_the_last_parameters() -> None:
    setting = identity.IdentitySetting(
        layer="relu", steps=4, evaluations=2, test_limit=20, stop=1e9
    )
    rows = finish(identity.TASK.start(setting, [0, 1], CPU))
    assert (rows[rows.metric == COMPLETED].step == 0).all()
    curve = rows[(rows.metric == "absolute_error") & (rows.seed == 1)]
    assert curve.x.tolist() == list(range(-20, 21))
    assert (curve.step == 0).all()


# -- rules of a task's own ---------------------------------------------------------------------


class Ruled(Sums):
    """Halves the first W at every third step, redraws at step 5, ends a seed by its weights."""

    def after_step(self, setting: Any, step: int, replicas: Any) -> dict[str, Tensor]:
        W = replicas.parameters()["0.W"]
        return {"0.W": 0.5 * W} if step % 3 == 0 else {}

    def stuck(self, setting: Any, step: int, loss: Tensor, replicas: Any) -> Tensor | None:
        return loss > 0.02 if step == 5 else None

    def stop(self, setting: Any, step: int, split: str, figures: Any) -> Tensor | None:
        return figures["sparsity_error"] > 0.48 if split == "weights" and step > 6 else None


def test_a_task_writes_parameters_back_after_a_step_and_within_the_bounds() -> None:
    seen = []

    class Doubling(Sums):
        def after_step(self, setting: Any, step: int, replicas: Any) -> dict[str, Tensor]:
            seen.append(step)
            return {"1.W": 10 * replicas.parameters()["1.W"]}

    run, plain = start(Doubling(at=1), range(3)), start(Sums(at=1), range(3))
    for each in (run, plain):
        each._train(1)
    wanted = (10 * plain.replicas.parameters()["1.W"]).clamp(-1, 1)
    assert torch.equal(run.replicas.parameters()["1.W"], wanted)
    assert torch.equal(run.replicas.parameters()["0.W"], plain.replicas.parameters()["0.W"])
    before = run.replicas.flat.detach().clone()
    run._train(2)  # seed 1 diverges here, and stays as it was
    assert seen == [1, 2]
    assert run.diverged.tolist() == [-1, 1, -1]
    assert torch.equal(run.replicas.flat[1], before[1])


def test_a_task_may_exchange_parameters_after_a_step() -> None:
    """The values are views of the parameters that are written."""

    class Exchanging(Sums):
        def after_step(self, setting: Any, step: int, replicas: Any) -> dict[str, Tensor]:
            of = replicas.parameters()
            return {"0.W": of["1.W"], "1.W": of["2.W"].mT, "2.W": of["0.W"]}

    def make() -> torch.nn.Module:
        return torch.nn.Sequential(*(Adder(3, 3) for _ in range(3)), Adder(3, 1))

    run, plain = start(Exchanging(make)), start(Sums(make))
    for each in (run, plain):
        each._train(1)
    now, before = run.replicas.parameters(), plain.replicas.parameters()
    assert torch.equal(now["0.W"], before["1.W"])
    assert torch.equal(now["1.W"], before["2.W"].mT)
    assert torch.equal(now["2.W"], before["0.W"])


def test_a_task_says_which_seeds_start_afresh() -> None:
    class Second(Sums):
        def stuck(self, setting: Any, step: int, loss: Tensor, replicas: Any) -> Tensor | None:
            return torch.tensor([False, True, True]) if step == 2 else None

    run, plain = start(Second(at=1), [7, 1, 4]), start(Sums(at=1), [7, 1, 4])
    for each in (run, plain):
        each._train(2)
    assert torch.equal(run.replicas.flat[:2], plain.replicas.flat[:2])  # seed 1 has diverged
    init = int(Streams("sums", [4], "redraw").generators[0].integers(2**63))
    torch.manual_seed(init)
    assert torch.equal(run.replicas.parameters()["0.W"][2], two().get_parameter("0.W"))
    moments = run.optimiser.state[run.replicas.flat]["exp_avg"]
    assert moments[0].any()
    assert not moments[2].any()
    ranged = start(Second(), [7, 1, 4], redraw="100:5:1:2")  # the rule says from where
    ranged._train(2)
    drawn = torch.from_numpy(Streams("sums", [4], "redraw").uniform((6,), -2, 2))
    wanted = drawn[0].clamp(-1, 1).unflatten(0, (2, 3))
    assert torch.equal(ranged.replicas.parameters()["0.W"][2], wanted)


def test_a_network_that_is_initialised_anew_has_its_buffers_anew() -> None:
    class Counting(Adder):
        """Draws a buffer, and adds up the magnitudes of its training inputs in another."""

        def __init__(self, in_features: int, out_features: int) -> None:
            super().__init__(in_features, out_features)
            self.fixed = torch.nn.Parameter(torch.rand(2), requires_grad=False)
            self.register_buffer("drawn", torch.rand(out_features))
            self.register_buffer("sum", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                self.sum = self.sum + x.abs().sum()
            return super().forward(x) * self.drawn

    class First(Sums):
        def stuck(self, setting: Any, step: int, loss: Tensor, replicas: Any) -> Tensor | None:
            return torch.tensor([False, True, False]) if step == 2 else None

    def make() -> torch.nn.Module:
        return two(Counting, Adder)

    run, plain = start(First(make), [7, 1, 4]), start(Sums(make), [7, 1, 4])
    for each in (run, plain):
        each._train(2)
    torch.manual_seed(int(Streams("sums", [1], "redraw").generators[0].integers(2**63)))
    fresh = make().state_dict()
    assert {*fresh} == {"0.W", "1.W", "0.fixed", "0.drawn", "0.sum"}
    state, others = run.replicas.state(), plain.replicas.state()
    for name, value in fresh.items():
        assert torch.equal(state[name][1], value), name
        assert torch.equal(state[name][[0, 2]], others[name][[0, 2]]), name
    assert others["0.sum"].all()


@pytest.mark.parametrize(
    ("at", "then"), [(1, [8, 12]), (2, [8, 12]), (3, [8, 12]), (4, [8, 12]), (5, [4, 12])]
)
def test_the_rule_counts_from_the_check_after_a_start_that_the_task_chose(
    at: int, then: list[int]
) -> None:
    class Early(Sums):
        def stuck(self, setting: Any, step: int, loss: Tensor, replicas: Any) -> Tensor | None:
            return torch.tensor([True, False]) if step == at else None

    run = start(Early(), redraw="4:3:1:2")
    when = losses_into(run, [[5.0, 0.5]] * 12)  # seed 0 stands still
    assert [step for step, stuck in enumerate(when, start=1) if stuck] == sorted([at, *then])
    assert all(stuck in ([], [0]) for stuck in when)


def test_a_task_may_choose_beside_a_rule_that_needs_no_losses() -> None:
    class Always(Sums):
        def stuck(self, setting: Any, step: int, loss: Tensor, replicas: Any) -> Tensor | None:
            return torch.tensor([True, False]) if step % 4 == 1 else None

    rows = finish(start(Always(), redraw="4:0:1:2"))
    assert (rows[rows.metric == COMPLETED].outcome == "completed").all()


def test_a_task_says_which_seeds_are_done() -> None:
    class Third(Sums):
        def stop(self, setting: Any, step: int, split: str, figures: Any) -> Tensor | None:
            return torch.tensor([False, step > 3]) if split == "extrapolation" else None

    run = start(Third(), steps=12, evaluations=4, stop=1e9)  # the field counts no more
    rows = finish(run)
    assert rows[rows.metric == COMPLETED].step.tolist() == [12, 6]


def test_rules_of_a_task_are_each_seeds_own_and_go_on_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds = [7, 1, 4, 9, 2]
    run = start(Ruled(), seeds, steps=40, evaluations=8)
    block = finish(run)
    assert (run.done >= 0).any()
    assert (run.done < 0).any()
    for name in ("after_step", "stuck"):  # each has an effect
        less = start(type("Less", (Ruled,), {name: getattr(Sums, name)})(), seeds, steps=40)
        finish(less)
        assert not torch.equal(less.replicas.flat, run.replicas.flat)
    for alone in ([4], [7, 1]):
        fewer = finish(start(Ruled(), alone, steps=40, evaluations=8))
        for seed in alone:
            pd.testing.assert_frame_equal(
                of_seed(fewer, seed), of_seed(block, seed), check_exact=True
            )
    monkeypatch.setattr(supervised, "PAUSE_SECONDS", 0.0)
    first = start(Ruled(), seeds, steps=40, evaluations=8)
    for _ in range(7):
        first.advance()
    second = start(Ruled(), seeds, steps=40, evaluations=8)
    second.load_state_dict(first.state_dict())
    pd.testing.assert_frame_equal(finish(second), block, check_exact=True)
    harmed = finish(start(Ruled(at=4), seeds, steps=40, evaluations=8))
    for seed in (7, 4, 9, 2):
        pd.testing.assert_frame_equal(of_seed(harmed, seed), of_seed(block, seed), check_exact=True)


@pytest.mark.parametrize(
    ("method", "result", "message"),
    [
        (
            "after_step",
            {"2.W": torch.zeros(2, 1, 2)},
            "'2.W' is no trained parameter; there is 0.W",
        ),
        (
            "after_step",
            {"1.W": torch.zeros(2)},
            r"1\.W must be a tensor of shape \(2, 1, 2\), got a tensor of float32 of shape \(2,\)$",
        ),
        ("after_step", {"1.W": 0.5}, r"1\.W must be a tensor of shape \(2, 1, 2\), got 0\.5$"),
        (
            "after_step",
            None,
            r"after_step returned None; it must return tensors by the parameter's name, or \{\} to",
        ),
        *[
            (rule, result, rf"{rule} returned {was}; it must return None or a tensor of bool of ")
            for rule in ("stuck", "stop")
            for result, was in (
                (True, "True"),
                (torch.tensor(True), r"a tensor of bool of shape \(\)"),
                (torch.tensor([True, False, True]), r"a tensor of bool of shape \(3,\)"),
                (torch.tensor([[True], [False]]), r"a tensor of bool of shape \(2, 1\)"),
                (torch.ones(2), r"a tensor of float32 of shape \(2,\)"),
                (torch.ones(2, dtype=torch.long), r"a tensor of int64 of shape \(2,\)"),
            )
        ],
    ],
)
def test_an_unfit_rule_is_named_before_a_run(method: str, result: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        type("Unfit", (Sums,), {method: lambda self, *_: result})().check(SupervisedSetting())


@pytest.mark.parametrize("rule", sorted({*RULES} - {"penalties"}))  # asked for its names each time
def test_a_rule_is_tried_with_each_setting(rule: str) -> None:
    def fast_only(self: Any, setting: SupervisedSetting, *given: Any) -> Any:
        if setting.lr < 0.1:
            raise RuntimeError("too slow")
        return getattr(Sums, rule)(self, setting, *given)

    task = type("Fast", (Sums,), {rule: fast_only})()
    task.check(SupervisedSetting(lr=0.2))
    for _ in range(2):
        with pytest.raises(TypeError, match="too slow"):
            task.check(SupervisedSetting(lr=0.02))
    task.check(SupervisedSetting(lr=0.3))


def test_a_rule_counts_for_its_own_class_alone() -> None:
    for result, fit in ((None, False), ({}, True), (None, False)):
        task = type("Mended", (Sums,), {"after_step": lambda *_, result=result: result})()
        if fit:
            task.check(SupervisedSetting())
        else:
            with pytest.raises(TypeError, match="after_step returned None"):
                task.check(SupervisedSetting())


@pytest.mark.parametrize("rule", ["stuck", "stop"])
def test_an_unfit_rule_of_a_single_step_is_named_in_the_run(rule: str) -> None:
    """A choice of shape () would count for all seeds: a block would not be its seeds alone."""

    def choose(self: Any, setting: Any, step: int, *_: Any) -> Tensor | None:
        return torch.tensor(True) if step == 6 else None

    task = type("Late", (Sums,), {rule: choose})()
    task.check(SupervisedSetting(steps=12))
    with pytest.raises(
        TypeError,
        match=rf"{rule} returned a tensor of bool of shape \(\); it .* per seed: here \(3,\)$",
    ):
        finish(start(task, range(3)))


def test_stop_is_tried_with_the_metrics_that_a_training_batch_has() -> None:
    seen = set()

    class Long(Sums):
        def metrics(self, setting: Any, split: str, prediction: Tensor, target: Tensor) -> Any:
            if split == "extrapolation":  # as one that groups a whole evaluation set
                prediction = prediction.unflatten(1, (1000, -1))
            return super().metrics(setting, split, prediction, target)

        def stop(self, setting: Any, step: int, split: str, figures: Any) -> Tensor | None:
            seen.update((split, step, name) for name in figures)
            return torch.tensor([True, False])

    Long().check(SupervisedSetting(steps=7))
    assert seen == {
        (split, step, name)
        for split, name in (("interpolation", "mse"), ("weights", "sparsity_error"))
        for step in (0, 7)
    }


# -- each seed's own, and all of it state ----------------------------------------------------------


EVERYTHING: dict[str, Any] = {
    "penalty": "sparsity:0.5:linear:3:9;inputs:0.1;l1@*:1e-3:growth:2:3:1;l2@1.*:0.1:below:0.2:2",
    "lr_factor": "1.*:0.3",
    "phases": "3|*;2|1.*",
    "clip_value": 0.3,
    "clip": 0.5,
    "redraw": "4:3:0.05:1",
    "stop": 0.21,
}


def make() -> Any:
    return two(Rounding, Attentive)


@pytest.mark.parametrize("name", ["adam", "rmsprop", "sgd", "muon"])
def test_a_seed_of_a_block_is_the_seed_alone_bit_for_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "adam":  # also where operations are recorded
        monkeypatch.setattr(penalties, "PLAIN_CALLS", 5)
    fields = {**EVERYTHING, "optimiser": name, "steps": 40, "evaluations": 8}
    block = finish(start(Sums(make), [7, 1, 4, 9, 2], **fields))
    for seeds in ([4], [7, 1]):
        fewer = finish(start(Sums(make), seeds, **fields))
        for seed in seeds:
            mine = of_seed(fewer, seed)
            pd.testing.assert_frame_equal(mine, of_seed(block, seed), check_exact=True)
    assert set(block[block.split == "weights"].metric) == {"sparsity_error"}


def of_seed(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    return rows[rows.seed == seed].reset_index(drop=True)


def test_the_fields_had_an_effect() -> None:
    """Else the tests around this one would show little."""
    fields = {**EVERYTHING, "steps": 40, "evaluations": 8}
    run = start(Sums(make), [7, 1, 4, 9, 2], **fields)
    finish(run)
    assert run.redraw is not None
    assert any(run.redraw._since)
    assert (run.done >= 0).any()
    assert (run.done < 0).any()
    for field in ("penalty", "lr_factor", "phases", "clip_value"):
        other = start(Sums(make), [7, 1, 4, 9, 2], **{**fields, field: None})
        finish(other)
        assert not torch.equal(other.replicas.flat, run.replicas.flat)


def test_so_it_is_in_the_static_task() -> None:
    setting = static.StaticSetting(
        layer="nac_nalu", op="mul", steps=30, batch=16, test_size=16, evaluations=3, clip=1,
        penalty="sparsity:1:linear:5:20;l1@*.G:1e-3", phases="3|*hat;1|*.G", redraw="6:6:0:1",
    )  # fmt: skip
    block = finish(static.TASK.start(setting, [7, 1, 4], CPU))
    alone = finish(static.TASK.start(setting, [4], CPU))
    pd.testing.assert_frame_equal(of_seed(alone, 4), of_seed(block, 4), check_exact=True)


@pytest.mark.parametrize(
    ("name", "pauses"),
    [
        ("adam", 1),
        ("adam", 6),
        ("adam", 13),
        ("adam", 27),
        ("rmsprop", 6),
        ("sgd", 13),
        ("muon", 6),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    name: str, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a ramp, of a phase, of a record of losses."""
    monkeypatch.setattr(supervised, "PAUSE_SECONDS", 0.0)
    if (name, pauses) == ("adam", 13):  # recorded in one of the runs before the other
        monkeypatch.setattr(penalties, "PLAIN_CALLS", 5)
    fields = {**EVERYTHING, "optimiser": name, "steps": 40, "evaluations": 8}
    whole = finish(start(Sums(make), [3, 5, 4], **fields))
    first = start(Sums(make), [3, 5, 4], **fields)
    for _ in range(pauses):
        first.advance()
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second = start(Sums(make), [3, 5, 4], **fields)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    pd.testing.assert_frame_equal(finish(second), whole, check_exact=True)


def test_a_diverged_seed_harms_no_other() -> None:
    fields = {**EVERYTHING, "steps": 40, "evaluations": 8}
    rows = finish(start(Sums(make, at=5), range(3), **fields))
    final = rows[rows.metric == COMPLETED].set_index("seed")
    assert final.outcome[1] == "diverged"
    assert final.step[1] == 5
    healthy = finish(start(Sums(make), [0, 2], **fields))
    for seed in (0, 2):
        pd.testing.assert_frame_equal(of_seed(rows, seed), of_seed(healthy, seed), check_exact=True)


def test_a_penalty_that_is_not_finite_freezes_its_seed_alone() -> None:
    class Sharp(Adder):
        def penalty(self) -> dict[str, Tensor]:
            return {"sharp": (1 / (self.W - 0.25)).square().sum()}

    run = start(Sums(lambda: two(Sharp, Adder)), range(3), penalty="sharp:1e-6", clip_value=0.1)
    with torch.no_grad():
        run.replicas.parameters()["0.W"][1, 0, 0] = 0.25
    before = run.replicas.flat.detach().clone()
    run._train(2)
    assert run.diverged.tolist() == [-1, 0, -1]
    assert torch.equal(run.replicas.flat[1], before[1])
    assert math.isfinite(float(run.replicas.flat.detach().sum()))
    assert not torch.equal(run.replicas.flat[0], before[0])
