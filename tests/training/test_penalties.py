"""Penalties: their values and gradients, their schedules, and what terms may name."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from nalu_ray import layers, tune
from nalu_ray.layers.cells.unit_cell import UnitCell
from nalu_ray.tasks import recurrent, static
from nalu_ray.training import penalties as training_penalties
from nalu_ray.training import penalty_terms
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.penalties import Penalties
from nalu_ray.training.replicas import Replicas
from tests.training.toys import CPU, Adder, Attentive, Sums, start, two

SEEDS = [3, 4, 5]


def distances(weight: Any) -> Any:
    return np.minimum(np.abs(weight), np.abs(1 - np.abs(weight)))


def slopes(weight: Any) -> Any:
    """Of the distances' sum."""
    return np.sign(weight) * np.where(np.abs(weight) < 0.5, 1, np.sign(np.abs(weight) - 1))


def penalised(text: str, replicas: Replicas, **hook: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Values and gradients of terms alone."""
    penalties = Penalties(penalty_terms.parse(text), replicas, **hook)
    penalties.watch(0)
    total, gradient = penalties.gradient(0, 0 * replicas.flat.sum(1))
    return total, replicas.parameters(gradient)


def doubles(replicas: Replicas) -> dict[str, Any]:
    return {name: value.detach().double().numpy() for name, value in replicas.parameters().items()}


# -- values and gradients --------------------------------------------------------------------------


def test_a_bare_name_is_the_sum_over_units_and_a_path_is_one() -> None:
    replicas = Replicas(two, SEEDS)
    with torch.no_grad():
        replicas.flat.mul_(3)  # on both sides of 1/2 and of 1
    weights = doubles(replicas)
    parts = {name: distances(value).mean((1, 2)) for name, value in weights.items()}
    for text, names in (
        ("sparsity:10", ["0.W", "1.W"]),
        ("0.sparsity:10", ["0.W"]),
        ("1.*:10", ["1.W"]),
        ("[01].sparsity:10", ["0.W", "1.W"]),
    ):
        total, gradient = penalised(text, replicas)
        expected = 10 * sum(parts[name] for name in names)
        np.testing.assert_allclose(total.detach(), expected, rtol=1e-6)
        for name, value in weights.items():
            size = value[0].size
            slope = 10 * slopes(value) / size if name in names else np.zeros_like(value)
            np.testing.assert_allclose(gradient[name], slope, rtol=1e-6, atol=1e-9)


def test_norms_are_of_the_parameters_that_match() -> None:
    replicas = Replicas(lambda: layers.build("nalu", 5, 3, 2), SEEDS)
    weights = doubles(replicas)
    total, gradient = penalised("l1@*.W_hat:0.5;l2@1.*:2", replicas)
    expected = 0.5 * sum(np.abs(weights[f"{i}.W_hat"]).sum((1, 2)) for i in (0, 1))
    for name in ("W_hat", "M_hat", "G"):
        expected = expected + 2 * np.square(weights[f"1.{name}"]).sum((1, 2))
    np.testing.assert_allclose(total.detach(), expected, rtol=1e-6)
    for name, value in weights.items():
        slope = 0.5 * np.sign(value) * name.endswith("W_hat") + 4 * value * (name[0] == "1")
        np.testing.assert_allclose(gradient[name], slope, rtol=1e-6)


def test_a_nac_is_penalised_and_measured_by_its_weight() -> None:
    replicas = Replicas(lambda: layers.build("nac", 5, 3, 2), SEEDS)
    with torch.no_grad():
        replicas.flat.mul_(8)
    weights = doubles(replicas)
    sizes = [
        distances(np.tanh(weights[f"{i}.W_hat"]) / (1 + np.exp(-weights[f"{i}.M_hat"])))
        for i in (0, 1)
    ]
    total, _ = penalised("sparsity:1", replicas)
    np.testing.assert_allclose(total.detach(), sum(s.mean((1, 2)) for s in sizes), rtol=1e-5)
    setting = static.StaticSetting(layer="nac", inputs=12, section=3, steps=1, test_size=4)
    run = static.TASK.start(setting, SEEDS, CPU)
    found = run.task.measure(setting, replicas)
    assert list(found) == ["sparsity_error"]
    expected = np.max([s.max((1, 2)) for s in sizes], axis=0)
    np.testing.assert_allclose(found["sparsity_error"].detach(), expected, rtol=1e-5)


def test_a_penalty_of_inputs_reaches_the_layer_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_penalties, "PLAIN_CALLS", 1)
    replicas = Replicas(lambda: two(Adder, Attentive), SEEDS)
    penalties = Penalties(penalty_terms.parse("inputs:3;sparsity:2"), replicas)
    x, y = torch.randn(3, 6, 3), torch.randn(3, 6, 1)
    for _ in range(3):  # plainly, as recorded, and repeated
        penalties.watch(0)
        loss = (replicas(x) - y).square().flatten(1).mean(1)
        total, gradient = penalties.gradient(0, loss)
        for k in range(3):
            module = two(Adder, Attentive)
            module.load_state_dict(replicas.replica(k))
            hidden = module[0](x[k])
            alone = (module[1](hidden) - y[k]).square().mean()
            of_second = module[1].penalty(hidden)
            sparsity = module[0].penalty()["sparsity"] + of_second["sparsity"]
            alone = alone + 3 * of_second["inputs"] + 2 * sparsity
            expected = torch.autograd.grad(alone, list(module.parameters()))
            torch.testing.assert_close(total[k], alone)
            for name, slope in zip(("0.W", "1.W"), expected, strict=True):
                torch.testing.assert_close(replicas.parameters(gradient)[name][k], slope)
        with torch.no_grad():
            replicas.flat.sub_(0.1 * gradient)


def test_inputs_of_every_step_of_a_cell_count_also_in_a_part_of_a_network() -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = UnitCell(2, 3, Attentive)

    replicas, x = Replicas(Reader, SEEDS), torch.randn(3, 4, 5, 2)
    penalties = Penalties(penalty_terms.parse("cell.unit.inputs:1"), replicas)
    penalties.watch(0)
    outputs = [replicas.part("cell", part)[0] for part in (x[:, :3], x[:, 3:])]
    total, _ = penalties.gradient(0, outputs[0].sum((1, 2, 3)) * 0)
    for k in range(3):
        h = [
            torch.cat([torch.zeros(n, 1, 3), y[k][:, :-1]], 1)
            for n, y in zip((3, 1), outputs, strict=True)
        ]
        inputs = torch.cat([x[k], torch.cat(h)], -1).reshape(-1, 5).double().detach().numpy()
        weight = doubles(replicas)["cell.unit.W"][k]
        expected = ((1 - np.abs(weight)) * np.square(inputs.mean(0))).mean()
        np.testing.assert_allclose(total[k].detach(), expected, rtol=1e-5)


def test_inputs_are_kept_only_where_a_term_needs_them() -> None:
    replicas = Replicas(lambda: two(Attentive, Attentive), SEEDS)
    for text, step, kept in (
        ("sparsity:1", 0, []),
        ("1.inputs:1", 0, ["1"]),
        ("inputs:1:linear:5:9", 5, []),
        ("inputs:1:linear:5:9", 6, ["0", "1"]),
    ):
        penalties = Penalties(penalty_terms.parse(text), replicas)
        penalties.watch(step)
        replicas(torch.randn(3, 4, 3))
        assert [path for path, parts in replicas._watched.items() if parts] == kept
    with replicas.evaluating():
        replicas.watch(["0"])
        replicas(torch.randn(3, 4, 3))
    assert not replicas._watched["0"]


def test_a_task_may_have_penalties_of_its_own() -> None:
    class Task(Sums):
        def penalties(self, setting: SupervisedSetting, replicas: Replicas) -> dict[str, Tensor]:
            first = replicas.parameters()["0.W"]
            return {"large": first.square().sum((1, 2)), "sparsity": first[:, 0, 0]}

        def measure(self, setting: SupervisedSetting, replicas: Replicas) -> dict[str, Tensor]:
            return super().measure(setting, replicas) | {"first": replicas.flat[:, 0]}

    task = Task()
    task.check(SupervisedSetting(penalty="large:1;sparsity:1"))
    with pytest.raises(ValueError, match=r"unknown penalty 'huge'.* large"):
        task.check(SupervisedSetting(penalty="huge:1"))
    run = start(task, penalty="large:5;sparsity:2")
    weights = doubles(run.replicas)
    loss = 0 * run.replicas.flat.sum(1)
    total, gradient = run.penalties.gradient(0, loss)
    sizes = sum(distances(value).mean((1, 2)) for value in weights.values())
    expected = 5 * np.square(weights["0.W"]).sum((1, 2)) + 2 * (sizes + weights["0.W"][:, 0, 0])
    np.testing.assert_allclose(total.detach(), expected, rtol=1e-5)
    slope = 10 * weights["0.W"] + 2 * slopes(weights["0.W"]) / 6
    slope[:, 0, 0] += 2
    np.testing.assert_allclose(run.replicas.parameters(gradient)["0.W"], slope, rtol=1e-5)
    run._evaluate()
    rows = run.rows()
    assert set(rows[rows.split == "weights"].metric) == {"sparsity_error", "first"}


# -- schedules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        ("", {0: 4, 99: 4}),
        (":constant", {0: 4, 99: 4}),
        (":linear:10:20", {0: 0, 10: 0, 11: 0.4, 15: 2, 20: 4, 21: 4, 10**9: 4}),
        (":growth:10:5:50", {0: 4, 4: 4, 5: 40, 9: 40, 10: 50, 10**9: 50}),
        (":growth:0.5:5:3", {0: 3, 4: 3, 5: 2, 10: 1}),
        (":below:0.5:7", {0: 0, 6: 0, 7: 4, 99: 4}),
    ],
)
def test_a_schedule_at_its_corners(schedule: str, values: dict[int, float]) -> None:
    (term,) = penalty_terms.parse(f"sparsity:4{schedule}")
    assert {step: term.schedule.at(step, 4.0) for step in values} == pytest.approx(values)


@pytest.mark.parametrize(
    ("penalty", "idle"),
    [
        ("sparsity:1:linear:100:200", ["sparsity:1:linear:100:200"]),
        ("sparsity:1:linear:99:200", []),
        ("sparsity:1:below:0.5:100;l1@*:1e-9:growth:10:1000:1e-7", ["sparsity:1:below:0.5:100"]),
        (None, []),
    ],
)
def test_a_penalty_that_begins_after_the_last_step_is_remarked(
    penalty: str | None, idle: list[str]
) -> None:
    setting = SupervisedSetting(steps=100, penalty=penalty)
    assert setting.remarks() == [
        f"penalty={term}: has no effect, as it begins at step 100 of 100" for term in idle
    ]


def test_a_seed_is_penalised_while_its_own_loss_is_below_a_bound() -> None:
    replicas = Replicas(two, SEEDS)
    penalties = Penalties(penalty_terms.parse("l1@*:1:below:0.5:7;l1@0.W:1"), replicas)
    both = replicas.flat.abs().sum(1)
    first = replicas.parameters()["0.W"].abs().sum((1, 2))
    for step, counted in ((6, [0, 0, 0]), (7, [1, 0, 0])):
        loss = torch.tensor([0.4, 0.5, 0.6]) + 0 * replicas.flat.sum(1)
        total, gradient = penalties.gradient(step, loss)
        torch.testing.assert_close(total, loss + first + both * torch.tensor(counted))
        assert gradient[1].any()
        assert bool(replicas.parameters(gradient)["1.W"][0].any()) == bool(counted[0])
        assert not replicas.parameters(gradient)["1.W"][1:].any()


def test_the_loop_follows_a_schedule() -> None:
    """A step of SGD before the ramp, one on it and one after."""
    text = "l1@*:0.5:linear:1:3"
    run, plain = (start(Sums(), [0], optimiser="sgd", penalty=p) for p in (text, None))
    for step, coefficient in ((0, 0.0), (1, 0.0), (2, 0.25), (3, 0.5), (4, 0.5)):
        plain.replicas.load(run.replicas.flat.detach(), {})
        before = run.replicas.flat.detach().clone()
        run._train(step + 1)
        plain._train(step + 1)
        expected = plain.replicas.flat - 0.1 * coefficient * before.sign()
        bounded = expected.clamp(-1, 1)
        torch.testing.assert_close(run.replicas.flat, bounded, rtol=1e-5, atol=1e-6)


# -- what is written -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (" sparsity:10.0 ; 0.gate:1e-2:constant ;", "sparsity:10;0.gate:0.01"),
        (["sparsity:1", "l1@*.W:1e-7:growth:10:10000:1e-5"],
         "sparsity:1;l1@*.W:1e-07:growth:10:10000:1e-05"),
        ("sparsity:10:linear:1000000:2000000", "sparsity:10:linear:1000000:2000000"),
        ("sparsity : 10;gate:-0.0", "sparsity:10;gate:0"),
        (" ; ", None),
        ("none", None),
        ("", None),
        (None, None),
    ],
)  # fmt: skip
def test_equal_penalties_are_equal_settings(given: Any, written: str | None) -> None:
    setting = SupervisedSetting(penalty=given)
    assert setting.penalty == written
    assert SupervisedSetting(penalty=written).id == setting.id
    assert (setting.id == SupervisedSetting().id) == (written is None)


@pytest.mark.parametrize(
    ("penalty", "words"),
    [
        ("sparsity", "write name:coefficient[:schedule[:arguments]]"),
        ("sparsity:", "'' is not a number"),
        ("sparsity:1_0", "'1_0' is not a number"),
        ("sparsity:nan", "'nan' is not a number"),
        ("sparsity:true", "'true' is not a number"),
        ("sparsity:-1", "the coefficient must be at least 0"),
        (
            "sparsity:1:lin:1:2",
            "unknown schedule 'lin'. Did you mean 'linear'? Allowed: below, con",
        ),
        ("sparsity:1:linear:1", "write the schedule as linear:from_step:to_step"),
        ("sparsity:1:constant:1", "write the schedule as constant"),
        ("sparsity:1:linear:2:2", "from_step must be below to_step"),
        ("sparsity:1:linear:-1:2", "from_step: Input should be greater than or equal to 0"),
        ("sparsity:1:linear:0.5:2", "'0.5' is not a whole number"),
        ("sparsity:1:growth:0:5:1", "factor: Input should be greater than 0"),
        ("sparsity:1:growth:2:0:1", "every: Input should be greater than or equal to 1"),
        ("sparsity:1;sparsity:1.0", "'sparsity:1' is written twice"),
        (3, "Input should be a valid string"),
    ],
)
def test_a_term_that_cannot_be_read_is_named(penalty: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SupervisedSetting(penalty=penalty)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("penalty", "words"),
    [
        (
            "sparcity:1",
            "unknown penalty 'sparcity'. Did you mean 'sparsity'? Allowed: 0.sparsity, 1",
        ),
        ("2.sparsity:1", "unknown penalty '2.sparsity'. Did you mean '"),
        (
            "gate:1",
            "Allowed: 0.sparsity, 1.sparsity, sparsity; over parameters there are l1@PATTERN",
        ),
        ("l1@*.Q:1", "penalty: '*.Q' matches no parameter; there are 0.W, 1.W"),
        ("l3@*:1", "unknown norm 'l3'. Did you mean 'l2'? Allowed: l1, l2"),
    ],
)
def test_a_term_that_stands_for_nothing_is_named(penalty: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^penalty: ") as caught:
        Sums().check(SupervisedSetting(penalty=penalty))
    assert words in str(caught.value)
    with pytest.raises(ValueError, match="no unit of this network has any; over parameters"):
        Sums(lambda: nn.Linear(3, 1)).check(SupervisedSetting(penalty="sparsity:1"))


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("penalty=sparcity:1", "penalty: unknown penalty 'sparcity'. Did you mean 'sparsity'?"),
        ("penalty=sparsity:1:lin:1:2", "penalty='sparsity:1:lin:1:2': unknown schedule 'lin'"),
        ("lr_factor=*.Q:0.1", "lr_factor: '*.Q' matches no parameter; there are 0.W_hat"),
        ("phases=2|*.W_hat;1|*.Q", "phases: '*.Q' matches no parameter"),
        ("redraw=3:1:1:1", "redraw='3:1:1:1': every"),
        ("stop=-1", "stop='-1': Input should be greater than 0"),
    ],
)
def test_a_command_names_what_is_wrong_before_anything_runs(
    word: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    line = ["static", "--preset", "smoke", "layer=nac", "op=add", "--out", str(tmp_path)]
    assert tune.main([*line, word, "--local"]) == 2
    seen = capsys.readouterr().err
    assert words in seen
    assert "Traceback" not in seen


# -- found by the rehearsal ------------------------------------------------------------------------


class Wrong(Adder):
    """A unit whose penalty is what a test gives."""

    def __init__(self, value: Any) -> None:
        super().__init__(3, 1)
        self.value = value

    def penalty(self) -> Any:
        return self.value(self)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda unit: unit.W.sum(), "must be a dict of scalar tensors, got Tensor"),
        (lambda unit: {"sparsity": unit.W}, r"sparsity must be a scalar tensor, got \[1, 3\]"),
        (lambda unit: {"sparsity": 0.5}, "sparsity must be a scalar tensor, got float"),
        (lambda unit: {"sparsity": unit.V.sum()}, "has no attribute 'V'"),
        (lambda unit: unit.double_("one\nline"), "has no attribute 'double_'$"),
    ],
)
def test_a_penalty_that_cannot_be_taken_is_named(value: Any, words: str) -> None:
    with pytest.raises(TypeError, match=rf"^penalty of the network \(Wrong\): .*{words}"):
        Sums(lambda: Wrong(value)).check(SupervisedSetting(penalty="sparsity:1"))
    if words.endswith("'V'"):
        Sums(lambda: Wrong(value)).check(SupervisedSetting())  # nobody asks for it


def test_a_penalty_that_decides_by_values_is_found_before_a_run() -> None:
    def penalty(unit: Adder) -> dict[str, Tensor]:
        return {"sparsity": unit.W.sum() if unit.W.is_meta or unit.W.sum() > 0 else -unit.W.sum()}

    with pytest.raises(
        TypeError,
        match=r"of seeds: its penalty\(\) or a gradient branches on .*: use torch\.where$",
    ):
        Sums(lambda: Wrong(penalty)).check(SupervisedSetting(penalty="sparsity:1"))


def test_a_penalty_that_draws_random_numbers_is_named() -> None:
    task = Sums(lambda: Wrong(lambda unit: {"sparsity": torch.rand_like(unit.W).sum()}))
    with pytest.raises(
        TypeError, match=r"seeds: its penalty\(\) or a gradient draws random numbers"
    ):
        task.check(SupervisedSetting(penalty="sparsity:1"))


def test_a_penalty_that_two_calls_do_not_agree_on_is_found_before_a_run() -> None:
    counts = itertools.count(1)
    task = Sums(lambda: Wrong(lambda unit: {"sparsity": next(counts) * unit.W.sum()}))
    with pytest.raises(TypeError, match=r"two calls of a penalty differ: it must depend on"):
        task.check(SupervisedSetting(penalty="sparsity:1"))


def test_a_penalty_of_constants_is_named() -> None:
    class Fixed(Adder):
        def __init__(self, in_features: int, out_features: int) -> None:
            super().__init__(in_features, out_features)
            self.V = nn.Parameter(torch.ones(2), requires_grad=False)

        def penalty(self) -> dict[str, Tensor]:
            return super().penalty() | {"fixed": self.V.sum()}

    task = Sums(lambda: two(Fixed, Adder))
    task.check(SupervisedSetting(penalty="sparsity:1"))
    for penalty in ("fixed:1", "sparsity:1;fixed:1"):
        with pytest.raises(TypeError, match=r"penalty fixed depends on no trained parameter$"):
            task.check(SupervisedSetting(penalty=penalty))


def test_a_unit_without_parameters_may_penalise_its_inputs() -> None:
    class Passing(nn.Module):
        in_features = 2

        def forward(self, x: Tensor) -> Tensor:
            return x

        def penalty(self, inputs: Tensor) -> dict[str, Tensor]:
            return {"size": inputs.square().sum()}

    def network() -> nn.Module:
        return nn.Sequential(Adder(3, 2), Passing(), Adder(2, 1))

    Sums(network).check(SupervisedSetting(penalty="size:1"))
    replicas, x = Replicas(network, SEEDS), torch.randn(3, 4, 3)
    penalties = Penalties(penalty_terms.parse("size:1"), replicas)
    penalties.watch(0)
    replicas(x)
    total, _ = penalties.gradient(0, 0 * replicas.flat.sum(1))
    hidden = np.einsum("rnf,rof->rno", x.double(), doubles(replicas)["0.W"])
    np.testing.assert_allclose(total.detach(), np.square(hidden).sum((1, 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (lambda unit: {"m": unit.W}, r"m must be a scalar tensor, got \[2, 3\]"),
        (lambda unit: None, "must be a dict of scalar tensors, got NoneType"),
        (lambda unit: {"m": 1 / 0}, "division by zero"),
    ],
)
def test_a_measure_that_cannot_be_taken_is_named(figures: Any, words: str) -> None:
    class Measured(Adder):
        measure = figures

    with pytest.raises(TypeError, match=rf"measure of 0 \(Measured\): {words}$"):
        Sums(lambda: two(Measured, Adder)).check(SupervisedSetting())


def test_a_unit_of_a_recurrent_task_is_penalised() -> None:
    setting = recurrent.TASK.setting_type(layer="nac", penalty="sparsity:1", steps=2, test_size=4)
    recurrent.TASK.check(setting)
    assert "sparsity_error" in set(run_rows(setting).metric)


def run_rows(setting: Any) -> Any:
    run = recurrent.TASK.start(setting, [0], CPU)
    run._evaluate()
    return run.rows()
