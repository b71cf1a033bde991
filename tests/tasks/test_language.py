"""Language to number: sets, networks by hand, what is refused, and that it learns."""

from __future__ import annotations

import itertools

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from nalu_ray import layers
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.language import TASK, LanguageTask
from nalu_ray.tasks.language.data import VOCABULARY, encode, words
from nalu_ray.tasks.language.network import LanguageNetwork, LanguageSetting
from nalu_ray.training.replicas import Replicas
from tests.runs import finish

SEEDS = (0, 5)
WAYS = list(itertools.product(["none", "nac", "nalu"], ["last", "sum", "recurrent"]))


def setting(**values: object) -> LanguageSetting:
    small = {"hidden": 5, "embedding": 4, "registers": 3}
    return LanguageSetting.model_validate({**small, **values})


def part(split: str, seeds: tuple[int, ...] = SEEDS, **values: object) -> Batch:
    return TASK.sample(setting(**values), split, Streams(TASK.name, seeds, split))


def network(**values: object) -> LanguageNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LanguageNetwork(setting(**values))


def said(batch: Batch, seed: int) -> list[list[str]]:
    tokens, lengths = (tensor[seed].tolist() for tensor in batch.inputs)
    rows = zip(tokens, lengths, strict=True)
    return [[VOCABULARY[token] for token in row[:length]] for row, length in rows]


# -- sets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("division", "copies"), [("fixed", 1), ("seed", 2)])
@pytest.mark.parametrize(("split", "size"), [("train", 169), ("validation", 200), ("test", 631)])
def test_inputs_say_what_the_targets_are(division: str, copies: int, split: str, size: int) -> None:
    batch = part(split, division=division)
    tokens, lengths = batch.inputs
    assert tokens.shape == (copies, size, 5)
    assert lengths.shape == (copies, size)
    assert batch.targets.shape == (2, size, 1)
    assert batch.shared == (division == "fixed")
    for seed in range(copies):
        numbers = batch.targets[seed].flatten().tolist()
        assert said(batch, seed) == [words(int(number)) for number in numbers]


@pytest.mark.parametrize("division", ["fixed", "seed"])
def test_the_parts_are_all_numbers_once(division: str) -> None:
    parts = [part(split, division=division).targets for split in TASK.splits]
    for seed in range(2):
        assert sorted(torch.cat([part[seed] for part in parts]).flatten().tolist()) == [
            *range(1000)
        ]


def test_one_division_for_all_seeds_or_one_each() -> None:
    fixed, own = (part("test", division=division).targets for division in ("fixed", "seed"))
    assert torch.equal(fixed[0], fixed[1])
    assert not torch.equal(own[0], own[1])
    assert torch.equal(own[1], part("test", (5,), division="seed").targets[0])
    assert torch.equal(fixed[1], part("test", (5,)).targets[0])


def test_every_step_is_over_the_whole_training_set() -> None:
    streams = Streams(TASK.name, SEEDS, "train")
    first, second = (TASK.sample(setting(), "train", streams) for _ in range(2))
    assert first.inputs[0].shape[1] == 169
    assert torch.equal(first.inputs[0], second.inputs[0])


# -- scores ------------------------------------------------------------------------------------


def test_metrics_are_each_seeds_own() -> None:
    target = torch.tensor([[[515.0], [3.0]]]).expand(2, -1, -1)
    prediction = torch.tensor([[[515.4], [1.0]], [[514.6], [3.0]]])
    found = TASK.metrics(setting(), "test", prediction, target)
    assert list(found) == ["mae", "mse", "exact"]  # the first is shown while running
    assert found["mae"].tolist() == pytest.approx([1.2, 0.2], rel=1e-4)
    assert found["mse"].tolist() == pytest.approx([2.08, 0.08], rel=1e-3)
    assert found["exact"].tolist() == [0.5, 1]


def test_what_is_not_finite_is_not_exact() -> None:
    broken = torch.tensor([[[torch.nan], [torch.inf], [3.0]]])
    found = TASK.metrics(setting(), "test", broken, torch.full((1, 3, 1), 3.0))
    assert found["exact"].tolist() == [pytest.approx(1 / 3)]


@pytest.mark.parametrize(("loss", "expected"), [("mae", [2, 3]), ("mse", [5, 9])])
def test_what_is_minimised(loss: str, expected: list[float]) -> None:
    prediction, target = torch.tensor([[[1.0], [3.0]], [[3.0], [3.0]]]), torch.zeros(2, 2, 1)
    assert TASK.loss(setting(loss=loss), prediction, target).tolist() == expected


def test_the_test_set_never_selects() -> None:
    rules = [TASK.keep, *(spec.selection for spec in (*TASK.tables, *TASK.figures))]
    assert {(rule.metric, rule.split, rule.step) for rule in rules} == {
        ("mae", "validation", "best")
    }


# -- networks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("head", "combine"), WAYS)
@pytest.mark.parametrize("head_layers", [1, 2, 3])
def test_each_row_is_read_to_its_own_end(head: str, combine: str, head_layers: int) -> None:
    net = network(head=head, combine=combine, head_layers=head_layers)
    rows = [words(number) for number in (7, 90, 581, 300, 42)]
    with torch.no_grad():
        together = net(*map(torch.from_numpy, encode(rows)))
        alone = [net(*map(torch.from_numpy, encode([row]))) for row in rows]
    torch.testing.assert_close(together, torch.cat(alone))
    assert together.shape == (5, 1)
    assert len(set(together.flatten().tolist())) == 5


@pytest.mark.parametrize(("head", "combine"), WAYS)
def test_after_each_word_is_what_the_words_up_to_there_give(head: str, combine: str) -> None:
    net = network(head=head, combine=combine)
    rows = [words(581), words(7), words(40)]
    tokens, lengths = map(torch.from_numpy, encode(rows))
    with torch.no_grad():
        found = net.after_each(tokens, lengths)
        assert found.shape == (3, 5, 1)
        for step in range(1, 6):
            stopped = lengths.clamp(max=step)
            torch.testing.assert_close(found[:, step - 1], net(tokens, stopped))


@pytest.mark.parametrize(("head", "combine"), WAYS)
def test_what_comes_after_a_row_does_not_matter(head: str, combine: str) -> None:
    net = network(head=head, combine=combine)
    tokens, lengths = (tensor[0] for tensor in part("train").inputs)
    padding = torch.arange(5) >= lengths[:, None]
    noisy = torch.where(padding, torch.randint(30, tokens.shape), tokens)
    assert (noisy != tokens).any()
    with torch.no_grad():
        torch.testing.assert_close(net(noisy, lengths), net(tokens, lengths))


@pytest.mark.parametrize(("head", "combine"), WAYS)
def test_a_row_without_words_gives_what_a_state_of_0_gives(head: str, combine: str) -> None:
    net = network(head=head, combine=combine)
    tokens, lengths = torch.tensor([[3, 28], [7, 9], [0, 0]]), torch.tensor([2, 0, 0])
    with torch.no_grad():
        found = net(tokens, lengths).flatten().tolist()
        expected = 0.0 if combine == "recurrent" else float(net.head(torch.zeros(1, 5)))
        assert found[1:] == pytest.approx([expected, expected])
        assert found[0] == pytest.approx(float(net(tokens[:1], lengths[:1])), rel=1e-5)


def test_the_lstm_is_that_of_its_embedded_words() -> None:
    net = network(head="none", combine="sum")
    tokens, lengths = map(torch.from_numpy, encode([words(581), words(90)]))
    with torch.no_grad():
        outputs, _ = net.lstm(net.embedding[tokens], lengths=lengths)
        summed = torch.stack([outputs[0].sum(0), outputs[1, 0]])
        torch.testing.assert_close(net(tokens, lengths), net.head(summed))
        last = network(head="none", combine="last")
        torch.testing.assert_close(last(tokens, lengths), last.head(outputs[:, -1]))


@pytest.mark.parametrize("head_layers", [1, 2])
def test_a_recurrent_head_remembers_what_it_gave(head_layers: int) -> None:
    """[h_t, y_{t-1}] -> y_t, the registers' sum the result."""
    net = network(head="nac", head_layers=head_layers)
    tokens, lengths = map(torch.from_numpy, encode([words(581)]))
    with torch.no_grad():
        outputs, _ = net.lstm(net.embedding[tokens])
        y = torch.zeros(1, 3)
        assert isinstance(net.head, layers.Cell)
        for h in outputs.unbind(1):
            y = net.head.unit(torch.cat([net.values(h), y], -1))
        torch.testing.assert_close(net(tokens, lengths), y.sum(1, keepdim=True))


@pytest.mark.parametrize("head", layers.names())
@pytest.mark.parametrize("combine", ["last", "sum", "recurrent"])
def test_any_unit_is_a_head(head: str, combine: str) -> None:
    # a network of two kinds has a layer of each
    pair = head in layers.pair_names()
    least = 2 if pair else 1
    if combine == "recurrent" and head not in ("none", *layers.cell_names()):
        refusal = f"'{head}' is a pair of units" if pair else f"head={head} is not a unit"
        with pytest.raises(ValidationError, match=refusal):
            setting(head=head, combine=combine)
        return
    chosen = setting(head=head, combine=combine, head_layers=least)
    TASK.check(chosen)
    batch = part("train")
    replicas = Replicas(lambda: LanguageNetwork(chosen), SEEDS)
    found: Tensor = replicas(*batch.inputs, shared=batch.shared)
    assert found.shape == batch.targets.shape
    loss = TASK.loss(chosen, found, batch.targets)
    (gradient,) = torch.autograd.grad(loss.sum(), replicas.flat)
    # a product over 32 inputs and reciprocals of an LSTM's outputs is beyond float32
    assert gradient.isfinite().all() or (combine, head) == ("recurrent", "nmru")


def test_a_recurrent_head_may_start_as_a_memory() -> None:
    unit = network(memory_init=10.0).head.unit
    torch.testing.assert_close(unit.weight[:, 5:], torch.eye(3), atol=1e-3, rtol=0)
    assert (unit.weight[:, :5].abs() < 0.5).all()


def test_the_lstm_starts_as_asked() -> None:
    lstm = network(forget_init=-4.0, recurrent_init=0.0).lstm
    size = lstm.out_features
    assert (lstm.bias[size : 2 * size] == -4).all()
    assert (lstm.weight_h == 0).all()


def test_the_penalty_is_what_the_forget_gates_let_through() -> None:
    made = network(forget_init=-4.0)
    with torch.no_grad():
        made.embedding.zero_()
    hidden = made.lstm.out_features
    (value,) = made.penalty().values()
    torch.testing.assert_close(value, torch.tensor(-4.0).sigmoid())
    with torch.no_grad():  # one unit keeps everything after one word
        made.embedding[3, 0] = 1.0
        made.lstm.weight_x[hidden, 0] = 104.0
        made.lstm.weight_x[:hidden], made.lstm.weight_x[2 * hidden :] = 7.0, 7.0
        made.lstm.weight_x[hidden + 1 : 2 * hidden] = 0
    (value,) = made.penalty().values()
    share = 1 / (hidden * len(VOCABULARY))
    torch.testing.assert_close(value, torch.tensor(-4.0).sigmoid() * (1 - share) + share)
    assert setting(penalty="memory:1").penalty == "memory:1"
    TASK.check(setting(penalty="memory:1"))


def test_settings_of_the_head_reach_it() -> None:
    chosen = {"weight_init": 0.25, "gate_init": -1.5, "options": {"epsilon": 1e-3}}
    for combine in ("sum", "recurrent"):
        unit = network(combine=combine, **chosen).head
        parameters = dict(unit.named_parameters())
        found = {name.rpartition(".")[2]: value for name, value in parameters.items()}
        assert set(found["W_hat"].flatten().tolist()) == {0.25}
        assert set(found["G"].flatten().tolist()) == {-1.5}
        assert {m.epsilon for m in unit.modules() if isinstance(m, layers.NALU)} == {1e-3}


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"head": "nalo"}, "Did you mean 'nalu'"),
        ({"combine": "mean"}, "combine"),
        ({"division": "none"}, "division"),
        ({"registers": 0}, "registers\n.*greater than or equal to 1"),
        ({"head_layers": 0}, "head_layers\n.*greater than or equal to 1"),
        ({"loss": "mape"}, "loss"),
        ({"shared_inputs": True}, "division=fixed shares inputs here"),
        ({"head": "relu"}, "head=relu is not a unit, which combine=recurrent needs"),
    ],
)
def test_impossible_settings(values: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        setting(**values)


def test_options_of_the_head_are_checked_before_any_run() -> None:
    with pytest.raises(TypeError, match="no option 'slots'"):
        TASK.check(setting(options={"slots": 16}))


def test_a_head_of_too_few_layers_is_named_as_the_user_knows_it() -> None:
    with pytest.raises(ValueError, match="head_layers must be at least 2: head=nac_nalu is a pair"):
        setting(head="nac_nalu", head_layers=1, combine="last")
    TASK.check(setting(head="nac_nalu", head_layers=2, combine="last"))


@pytest.mark.parametrize("division", ["fixed", "seed"])
def test_examples_are_of_the_seeds_own_test_set(division: str) -> None:
    chosen = setting(division=division)
    seen = [TASK.unseen(chosen, seed, 700) for seed in SEEDS]
    for seed, found in zip(SEEDS, seen, strict=True):
        test = part("test", (seed,), division=division)
        assert {value for _, value in found} == set(test.targets.flatten().tolist())
        assert all(words(int(value)) == list(text) for text, value in found)
        assert [value for _, value in found[:9]] == [
            value for _, value in TASK.unseen(chosen, seed, 9)
        ]
    assert [value for _, value in seen[0]] != [value for _, value in seen[1]]


# -- learning ----------------------------------------------------------------------------------


class TwentyWords(LanguageTask):
    """The numbers 0 to 19 alone, a word each."""

    splits = ("train",)
    keep = None

    def sample(self, setting: LanguageSetting, split: str, streams: Streams) -> Batch:
        batch = super().sample(setting, split, streams)
        tokens, lengths = batch.inputs
        return Batch((tokens[:, :20, :1], lengths[:, :20]), batch.targets[:, :20], batch.shared)


@pytest.mark.parametrize(("head", "combine"), [("none", "sum"), ("nalu", "recurrent")])
def test_twenty_words_are_learned(head: str, combine: str) -> None:
    chosen = setting(
        head=head, combine=combine, hidden=16, embedding=8, registers=8, steps=400, lr=0.03,
        loss="mae", schedule="cosine", lr_end=0.0, evaluations=1,
    )  # fmt: skip
    run = TwentyWords().start(chosen, [0, 1], torch.device("cpu"))
    rows = finish(run)
    last = rows[rows.step == 400].set_index("metric").value
    assert (last["mae"] < 0.2).all()
    assert (last["exact"] == 1).all()


@pytest.mark.parametrize("head", ["sum", "rnn_identity"])
def test_a_control_reads_as_a_recurrent_head_alone(head: str) -> None:
    made = LanguageNetwork(LanguageSetting(head=head, combine="recurrent", registers=3))
    assert made.head.out_features == 3
    for values in ({"combine": "sum"}, {"combine": "recurrent", "head_layers": 2}):
        with pytest.raises(ValueError, match=f"head={head} is a cell"):
            LanguageSetting(head=head, **values)
