"""Keeping each seed's best parameters, and the files that hold them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.errors import ConfigError
from nalu_ray.results.analysis.selection import runs_of
from nalu_ray.results.specs import Selection
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.static import StaticSetting, StaticTask
from nalu_ray.training import best_networks
from nalu_ray.training.best_networks import ENDING, Keeper, ModelError
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask

CPU = torch.device("cpu")
RULE = Selection(metric="mae", split="validation")
INF, NAN = float("inf"), float("nan")


def seen(rule: Selection, *rounds: list[float]) -> Keeper:
    """A keeper that saw each seed's metric; the parameters are the number of the step."""
    keeper = Keeper(rule, torch.zeros(len(rounds[0]), 2))
    for step, values in enumerate(rounds):
        figures = {"mae": torch.tensor(values), "mse": -torch.tensor(values)}
        flat, all_are = torch.full((len(values), 2), float(step)), torch.tensor(True)
        wrong = {name: -value for name, value in figures.items()}
        keeper.see(10 * step, "train", wrong, flat + 50, all_are)
        keeper.see(10 * step, "validation", figures, flat, all_are)
    return keeper


def test_each_seed_keeps_its_lowest_the_first_of_equals() -> None:
    keeper = seen(RULE, [5, 1, NAN, 7], [4, 2, 8, 7], [6, 0.5, NAN, 7])
    assert keeper.values.tolist() == [4, 0.5, 8, 7]
    assert keeper.steps.tolist() == [10, 20, 10, 0]
    assert keeper.flat.tolist() == [[1, 1], [2, 2], [1, 1], [0, 0]]


def test_the_last_that_is_finite() -> None:
    keeper = seen(RULE.model_copy(update={"step": "last"}), [5, 1, 3], [4, 2, NAN], [6, 3, INF])
    assert keeper.values.tolist() == [6, 3, 3]
    assert keeper.steps.tolist() == [20, 20, 0]
    assert keeper.flat[:, 0].tolist() == [2, 2, 0]


@pytest.mark.parametrize("step", ["best", "last"])
def test_a_seed_that_is_not_alive_keeps_what_it_has(step: str) -> None:
    keeper = Keeper(RULE.model_copy(update={"step": step}), torch.zeros(2, 1))
    keeper.see(
        1, "validation", {"mae": torch.tensor([5.0, 5])}, torch.ones(2, 1), torch.ones(2) > 0
    )
    one = torch.tensor([True, False])
    keeper.see(2, "validation", {"mae": torch.tensor([4.0, 4])}, torch.full((2, 1), 2.0), one)
    assert keeper.values.tolist() == [4, 5]
    assert keeper.steps.tolist() == [2, 1]
    assert keeper.flat.tolist() == [[2], [1]]


def test_a_metric_that_is_not_measured_is_named() -> None:
    keeper = Keeper(RULE, torch.zeros(1, 2))
    with pytest.raises(ValueError, match=r"kept by validation mae, but validation has mse"):
        keeper.see(1, "validation", {"mse": torch.ones(1)}, torch.ones(1, 2), torch.ones(1) > 0)


def test_figures_of_the_parameters_select_the_step_and_the_network_that_is_kept() -> None:
    """The sparsity error of three evaluations, which is lowest at the second."""
    rule = Selection(metric="sparsity_error", split="weights")

    class Kept(StaticTask):
        keep = rule

        errors = iter((0.4, 0.1, 0.3))

        def measure(self, setting: StaticSetting, replicas: Replicas) -> dict[str, Tensor]:
            return {"sparsity_error": torch.full((1,), next(self.errors))}

    setting = StaticSetting(layer="nau", steps=2, evaluations=2, batch=4, test_size=4, inputs=20)
    run = SupervisedRun(Kept(), setting, [0], CPU)
    while (progress := run.advance()).step < progress.steps:
        if run.step == 1:
            after_one = run.replicas.flat.detach().clone()
    assert run.keeper.steps.tolist() == [1]
    assert run.keeper.values.tolist() == pytest.approx([0.1])
    assert torch.equal(run.keeper.flat, after_one)
    assert not torch.equal(run.keeper.flat, run.replicas.flat)
    rows = run.rows().assign(task="static", setting_id="a")
    assert runs_of(rows, rule)["step"].tolist() == [1]


def test_what_is_kept_does_not_change_with_what_is_trained() -> None:
    keeper, flat = Keeper(RULE, torch.zeros(1, 2)), torch.ones(1, 2)
    alive = torch.tensor([True])
    keeper.see(3, "validation", {"mae": torch.tensor([1.0])}, flat, alive)
    state = keeper.state_dict()
    flat.mul_(5)
    keeper.see(4, "validation", {"mae": torch.tensor([0.5])}, flat, alive)
    other = Keeper(RULE, flat)
    other.load_state_dict(state)
    assert (other.flat.tolist(), other.values.tolist(), other.steps.tolist()) == (
        [[1, 1]],
        [1],
        [3],
    )


class Slope(nn.Linear):
    """w x, with a small w."""

    def __init__(self) -> None:
        super().__init__(1, 1, bias=False)
        nn.init.uniform_(self.weight, 0.0, 0.1)


class Remembering(Slope):
    """Its buffers are the number of its calls, and w at the last of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("before", torch.zeros(1, 1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        self.before = self.weight.detach().clone()
        return super().forward(x)


class Wandering(SupervisedTask[SupervisedSetting]):
    """y = w: each step takes w further up, past the target 1 of the validation set."""

    name, title, section, setting_type = "wandering", "", "0", SupervisedSetting
    splits = ("validation",)
    keep = RULE
    network: ClassVar[type[nn.Module]] = Slope

    def build(self, setting: SupervisedSetting) -> nn.Module:
        return self.network()

    def sample(self, setting: SupervisedSetting, split: str, streams: Streams) -> Batch:
        ones = torch.ones(len(streams.seeds), 1, 1)
        return Batch((ones,), ones if split == "validation" else 9 * ones)

    def metrics(
        self, setting: SupervisedSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        return {"mae": (prediction - target).abs().flatten(1).mean(1)}


SETTING = SupervisedSetting(steps=12, lr=0.2, evaluations=12, optimiser="adam")


def wandered(seeds: list[int], until: int = 12) -> SupervisedRun:
    run = SupervisedRun(Wandering(), SETTING, seeds, CPU)
    while run.step < until:
        run.advance()
    return run


def test_a_run_keeps_its_best_and_not_its_last() -> None:
    run = wandered([0, 4])
    (name,) = run.files()
    assert name.endswith(ENDING)
    found = best_networks.from_bytes(run.files()[name])
    rows = run.rows()
    for model, seed in zip(found, [0, 4], strict=True):
        errors = rows[(rows.seed == seed) & (rows.metric == "mae")].set_index("step").value
        value = model.about["value"]
        assert model.about == {
            "seed": seed, "step": errors.idxmin(), "split": "validation", "metric": "mae",
            "value": errors.min(),
        }  # fmt: skip
        assert 0 < errors.idxmin() < 12
        assert abs(float(model.weights["weight"]) - 1) == pytest.approx(value, abs=1e-6)
        assert model.weights["weight"].shape == (1, 1)
        assert (model.task, model.setting) == ("wandering", SETTING.model_dump(mode="json"))


def test_buffers_are_kept_as_they_were_at_the_step_that_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Wandering, "network", Remembering)
    run = wandered([0, 4])
    assert run.replicas.buffers["calls"].tolist() == [12, 12]
    (data,) = run.files().values()
    for index, model in enumerate(best_networks.from_bytes(data)):
        step = model.about["step"]
        assert 0 < step < 12
        assert model.weights["calls"] == step
        assert not torch.equal(model.weights["before"], model.weights["weight"])
        # whole: nothing is missing, and all of it is of one step
        Remembering().load_state_dict(model.weights)
        then = wandered([0, 4], step).replicas.replica(index)
        assert then.keys() == model.weights.keys()
        for name, value in then.items():
            assert torch.equal(model.weights[name], value), name
            assert model.weights[name].dtype is value.dtype


@pytest.mark.parametrize("network", [Slope, Remembering])
@pytest.mark.parametrize("at", [3, 9])  # before and after the best
def test_a_resumed_run_keeps_the_same(
    at: int, network: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wandering, "network", network)
    buffer = io.BytesIO()
    torch.save(wandered([0, 4], at).state_dict(), buffer)
    buffer.seek(0)
    second = SupervisedRun(Wandering(), SETTING, [0, 4], CPU)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    while second.step < SETTING.steps:
        second.advance()
    assert second.files() == wandered([0, 4]).files()


def test_a_task_that_keeps_nothing_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wandering, "keep", None)
    assert wandered([0], 2).files() == {}


# -- files -------------------------------------------------------------------------------------


def store(out: Path, name: str, **about: Any) -> Path:
    path = out / "wandering" / f"{name}{ENDING}"
    path.parent.mkdir(parents=True, exist_ok=True)
    (data,) = wandered([0, 4], 1).files().values()
    saved = torch.load(io.BytesIO(data), weights_only=True)
    for key, value in about.items():
        for known, changed in zip(saved["about"], value, strict=True):
            known[key] = changed
    torch.save(saved, path)
    return path


def test_the_best_seed_of_the_best_file(tmp_path: Path) -> None:
    store(tmp_path, "a", value=[0.5, INF])
    path = store(tmp_path, "b", value=[NAN, 0.25])
    found, model = best_networks.best(str(tmp_path), "wandering", {})
    assert (found, model.about["seed"]) == (str(path), 4)
    one = best_networks.from_bytes(path.read_bytes())[1]
    assert torch.equal(model.weights["weight"], one.weights["weight"])
    assert best_networks.best(str(tmp_path), "wandering", {"seed": "0"})[1].about["value"] == 0.5
    assert best_networks.load(str(path), "wandering", {"seed": "4", "lr": "0.2"}).about["seed"] == 4
    with pytest.raises(ConfigError, match=r"no model with lr=0.1 in .* there is lr: 0\.2"):
        best_networks.load(str(path), "wandering", {"lr": "0.1"})


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere: No such file"):
        best_networks.load(str(tmp_path / "nowhere"), "wandering", {})
    other = store(tmp_path, "a")
    with pytest.raises(ModelError, match="models of the task wandering, not of language"):
        best_networks.load(str(other), "language", {})
    path = tmp_path / "x"
    for saved, why in {
        b"nothing": "x: cannot be read as a model: ",
        saved_as({"format": "other"}): "x: not written by nalu_ray as a model",
        saved_as({"format": best_networks.FORMAT}): "x: cannot be read as a model: 'about'",
        saved_as({"format": best_networks.FORMAT, "about": [{}], "weights": {"w": torch.ones(0)},
                  "task": "t", "setting": {}}): "x: cannot be read as a model: weights w: ",
    }.items():  # fmt: skip
        path.write_bytes(saved)
        with pytest.raises(ModelError, match=why):
            best_networks.load(str(path), "wandering", {})


def test_what_is_said_if_no_network_can_be_used(tmp_path: Path) -> None:
    def refuse(model: best_networks.Model) -> None:
        raise ModelError("too old")

    def refused(wanted: dict[str, str]) -> list[str]:
        with pytest.raises(ConfigError) as error:
            best_networks.best(str(tmp_path), "wandering", wanted, refuse)
        return error.value.messages

    folder = tmp_path / "wandering"
    (data,) = wandered([0], 1).files().values()
    folder.mkdir()
    (folder / f"a{ENDING}").write_bytes(data)
    assert refused({}) == [f"the only model in {folder} cannot be used"]
    store(tmp_path, "b")
    assert refused({}) == [f"none of the 3 models in {folder} can be used"]
    assert refused({"seed": "0"}) == [f"none of the 2 models in {folder} that match can be used"]
    assert refused({"seed": "4"}) == [f"the only model in {folder} that matches cannot be used"]


def saved_as(values: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(values, buffer)
    return buffer.getvalue()
