"""Sequential MNIST: targets after every digit, sets, the reference, R_z, scores by length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.data import mnist
from nalu_ray.layers.cells.unit_cell import _cells
from nalu_ray.results.publication import read
from nalu_ray.seeding import Streams
from nalu_ray.sweep.presets import expand, load_sweep
from nalu_ray.sweep.resources import PRESETS
from nalu_ray.task import Batch
from nalu_ray.tasks.sequential_mnist import TASK
from nalu_ray.tasks.sequential_mnist.data import LENGTHS, answers, by_length
from nalu_ray.tasks.sequential_mnist.network import (
    DigitNumber,
    SequentialSetting,
    TrueAccumulator,
    _built,
)
from nalu_ray.tasks.sequential_mnist.tables import MODELS, PUBLISHED
from nalu_ray.training.penalty_terms import parse
from nalu_ray.training.replicas import Replicas

SEEDS = (0, 3)
every_operation = pytest.mark.parametrize("op", ["sum", "product"])


def setting(**values: Any) -> SequentialSetting:
    small = {"batch": 6, "test_images": 40, "test_series": 5, "pool": 8}
    return SequentialSetting(**{**small, **values})


def drawn(split: str, **values: Any) -> Batch:
    return TASK.sample(setting(**values), split, Streams(TASK.name, SEEDS, split))


# -- targets and sets --------------------------------------------------------------------------


def test_answers_follow_every_digit() -> None:
    labels = torch.tensor([[3, 0, 9], [2, 7, 1]])
    assert answers("sum", labels)[..., 0].tolist() == [[3, 3, 12], [2, 9, 10]]
    assert answers("product", labels)[..., 0].tolist() == [[3, 0, 0], [2, 14, 14]]
    nines = answers("product", torch.full((1, 20), 9))
    assert nines[0, -1, 0].item() == pytest.approx(9.0**20, rel=1e-7)


@every_operation
def test_training_targets_are_those_of_the_images(op: str) -> None:
    batch = drawn("train", op=op, batch=50, pool=30)
    images, index = batch.inputs
    assert batch.targets.shape == (2, 50, 10 if op == "sum" else 2, 1)
    known = mnist.part("train")
    for seed in range(2):
        places = [int((known.images == image).flatten(1).all(1).nonzero()[0]) for image in
                  images[seed, :2]]  # fmt: skip
        for place, label in enumerate(known.labels[places].tolist()):
            first = index[seed, :, 0] == place
            assert (batch.targets[seed, first, 0, 0] == label).all()
            assert label > 0 or op == "sum"
    if op == "product":
        assert (batch.targets > 0).all()


class Reads(nn.Module):
    """A convnet that knows each image of an evaluation set by its pixels."""

    def __init__(self, part: mnist.Digits) -> None:
        super().__init__()
        pairs = zip(part.images, part.labels.tolist(), strict=True)
        self.labels = {image.numpy().tobytes(): float(label) for image, label in pairs}

    def forward(self, images: Tensor) -> Tensor:
        return torch.tensor([[self.labels[image.numpy().tobytes()]] for image in images])


class Parts:
    """As :class:`Replicas` of a convnet that makes no mistake and the reference's accumulator."""

    def __init__(self, chosen: SequentialSetting, split: str) -> None:
        self.reads, self.cell = Reads(mnist.part(split)), TrueAccumulator(chosen.op)

    def part(self, name: str, *inputs: Tensor, shared: bool = False) -> Any:
        if name == "convnet":
            return self.reads(inputs[0][0])[None].expand(len(SEEDS), -1, -1)
        features, *state = inputs
        states = [s.flatten(0, 1) for s in state]
        outputs, (after,) = self.cell(features.flatten(0, 1), tuple(states) or None)
        count = features.shape[:2]
        return outputs[:, -1].unflatten(0, count), (after.unflatten(0, count),)


@every_operation
@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_network_without_mistakes_is_right_after_every_length(op: str, split: str) -> None:
    chosen = setting(op=op, length=3)
    batch = drawn(split, op=op, length=3)
    streams = Streams(TASK.name, SEEDS, split)
    network: Any = Parts(chosen, split)
    found = TASK.predict(network, chosen, split, batch, streams)
    torch.testing.assert_close(found, batch.targets, rtol=1e-5, atol=0)
    figures = TASK.metrics(chosen, split, batch.targets, batch.targets)
    if split == "test":
        assert list(figures) == ["accuracy", *(f"mse_{length}" for length in LENGTHS[chosen.op])]
        assert figures.pop("accuracy").tolist() == [1, 1]
    assert all(value.tolist() == [0, 0] for value in figures.values())


@every_operation
def test_the_test_set_has_each_image_alone_and_long_series(op: str) -> None:
    single, index = drawn("test", op=op).inputs
    labels = mnist.part("test").labels[:40]
    known = labels if op == "sum" else labels[labels > 0]
    longest = 1000 if op == "sum" else 20
    assert single[1, :, 0].tolist() == list(range(len(known)))
    assert index.shape == (2, 5, longest)
    assert not torch.equal(index[0], index[1])
    parts = by_length(setting(op=op), drawn("test", op=op).targets)
    assert parts[1][0, :, 0].tolist() == known.tolist()
    whole = known[index[1, 2]].double()
    expected = whole.sum() if op == "sum" else whole.prod()
    assert parts[longest][1, 2, 0].item() == pytest.approx(expected.item(), rel=1e-6)
    ten = known[index[0, 4, :10]].double()
    expected = ten.sum() if op == "sum" else ten.prod()
    assert parts[10][0, 4, 0].item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("layer", ["exact", "nau", "lstm"])
def test_reading_embedded_images_equals_reading_images(layer: str) -> None:
    chosen, batch = setting(layer=layer), drawn("validation")
    network = Replicas(lambda: TASK.build(chosen), SEEDS)
    index = batch.inputs[0][:, :6]
    streams = Streams(TASK.name, SEEDS, "validation")
    few = Batch((index,), batch.targets[:, :6])
    with torch.no_grad():
        found = TASK.predict(network, chosen, "validation", few, streams)
        direct = network(mnist.part("validation").images[index])
    assert found.shape == (2, 6, 10, 1)
    torch.testing.assert_close(found, direct, rtol=1e-4, atol=1e-4)


def test_errors_are_by_length_and_of_large_products_finite() -> None:
    chosen = setting(op="product")
    target = drawn("test", op="product").targets
    prediction = target.clone()
    parts = list(by_length(chosen, prediction).values())
    parts[1][1] += 3
    parts[-1][0] *= 2
    prediction = torch.cat(parts, 1)
    figures = TASK.metrics(chosen, "test", prediction, target)
    assert figures["mse_2"].tolist() == [0, 9]
    squares = by_length(chosen, target)[20][0].double().square().mean()
    assert figures["mse_20"][0].item() == pytest.approx(squares.item())
    assert figures["mse_20"].isfinite().all()


@pytest.mark.parametrize("op", ["sum", "product"])
def test_the_best_constant_has_an_error_at_each_length(op: Any) -> None:
    chosen, batch = setting(op=op), drawn("test", op=op)
    found = TASK.references(chosen, "test", batch, Streams("s", [0, 1], "test"))
    parts = by_length(chosen, batch.targets.double())
    for length, final in parts.items():
        spread = (final - final.mean(1, keepdim=True)).square().mean((1, 2))
        torch.testing.assert_close(found[f"constant_mse_{length}"], spread)
    names = {f"constant_{m.metric}" for m in TASK.tables[1].measures.values()}
    assert {name for name in names if "mse" in name and op == "sum"} <= set(found)


# -- networks and settings ---------------------------------------------------------------------


def test_the_convnet_has_the_published_layers() -> None:
    sizes = {name: tuple(p.shape) for name, p in DigitNumber().named_parameters()}
    weights = [shape for name, shape in sizes.items() if name.endswith("weight")]
    assert weights == [(20, 1, 5, 5), (50, 20, 5, 5), (500, 800), (1, 500)]
    with torch.no_grad():
        assert DigitNumber()(torch.zeros(3, 28, 28, dtype=torch.uint8)).shape == (3, 1)


def test_rz_is_a_term_of_the_penalty_and_only_so() -> None:
    plain, sparse = setting(rz=True), setting(rz=True, penalty="sparsity:10:linear:5:9")
    assert plain.penalty == "inputs:1"
    assert [(term.name, term.coefficient) for term in parse(sparse.penalty or "")] == [
        ("sparsity", 10), ("inputs", 1),
    ]  # fmt: skip
    for one in (plain, sparse, setting(rz=True, penalty="inputs:0.5")):
        assert SequentialSetting.model_validate(one.model_dump(mode="json")).id == one.id
    assert setting(rz=True, penalty="inputs:0.5").penalty == "inputs:0.5"
    with pytest.raises(ValueError, match="rz must be true"):
        setting(penalty="inputs:1")


@pytest.mark.parametrize(("op", "layer"), [("sum", "nau"), ("sum", "nac"), ("product", "nmu")])
def test_rz_reaches_the_unit_and_is_refused_without_one(op: str, layer: str) -> None:
    TASK.check(setting(op=op, layer=layer, rz=True, length=2))
    with pytest.raises(ValueError, match="no unit of this network has any"):
        TASK.check(setting(op=op, layer="lstm", rz=True, length=2))


def test_rz_moves_a_weight_that_ignores_its_input() -> None:
    """R_z of a NAU is the mean of (1 - |W|) z^2: its gradient is -sign(W) z^2 / 2."""
    chosen = setting(layer="nau", rz=True, length=2)
    run = TASK.start(chosen, [0], torch.device("cpu"))
    batch = TASK.sample(chosen, "train", run.streams)
    run.penalties.watch(0)
    prediction = TASK.predict(run.replicas, chosen, "train", batch, run.streams)
    loss = TASK.loss(chosen, prediction, batch.targets)
    (inputs,) = run.replicas.watched(["reader.cell.unit"]).values()
    added, _ = run.penalties.gradient(0, loss * 0)
    means = inputs[0].mean(0)
    weight = run.replicas.replica(0)["reader.cell.unit.W"]
    expected = ((1 - weight.abs()) * means.square()).mean()
    assert inputs.shape == (1, 2 * chosen.batch, 2)
    assert added.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("layer", ["nau", "nac", "nmu", "snmu", "mnac_linear", "gated_nau_nmu"])
def test_rz_is_read_where_a_unit_has_it(layer: str) -> None:
    assert "rz" not in setting(layer=layer).unread()


@pytest.mark.parametrize("layer", ["nau", "gated_nau_nmu"])
def test_the_penalty_of_a_unit_with_rz_needs_rz(layer: str) -> None:
    with pytest.raises(ValueError, match="rz must be true"):
        setting(layer=layer, penalty="inputs:1")
    TASK.check(setting(layer=layer, rz=True, length=2))


def test_the_penalty_of_a_unit_without_rz_is_unknown() -> None:
    with pytest.raises(ValueError, match="unknown penalty 'inputs'"):
        TASK.check(setting(layer="nru", penalty="inputs:1", length=2))


@pytest.mark.parametrize("preset", ["smoke", "laptop"])
def test_presets_take_units_without_rz(preset: str) -> None:
    words = {"layer": ["nru", "nmru", "real_npu"], "op": ["product"]}
    points = expand(load_sweep(TASK.name).presets[preset], SequentialSetting, words)
    assert len(points) == 3
    for point in points:
        TASK.check(point.setting)


@pytest.mark.parametrize(
    "layer",
    ["exact", "lstm", "nalu", "mnac", "mnac_sigmoid", "nru", "nmru", "real_npu"],
)
def test_rz_is_not_varied_elsewhere(layer: str) -> None:
    assert setting(layer=layer).unread()["rz"] == f"layer={layer} has no penalty inputs"


def test_products_are_trained_on_two_digits_unless_told_otherwise() -> None:
    assert [setting().length, setting(op="product").length] == [10, 2]
    assert setting(op="product", length=3).length == 3


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="options must be empty"):
        setting(layer="exact", options={"bias": True})
    with pytest.raises(ValueError, match="exact"):
        setting(layer="exakt")
    assert setting(layer="exact").unread()["hidden"] == "layer=exact has one unit per output"


# -- sweeps and published values ---------------------------------------------------------------


def test_every_published_value_has_its_cell() -> None:
    tables = {table.name: table for table in TASK.tables}
    for name, publication in read(PUBLISHED).items():
        table = tables[name]
        assert table.columns is not None
        for value in publication.values:
            assert value.row in table.rows.labels
            assert value.column in table.columns.labels
            assert value.measure in table.measures
    assert tables["sequential_sum"].publication is not None
    found = tables["sequential_sum"].publication.lookup("nau", "true", "1000")
    assert found is not None
    assert found.value == 80


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "smoke"])
@every_operation
def test_presets_run_what_tables_compare(preset: str, op: Any) -> None:
    points: Any = expand(load_sweep(TASK.name).presets[preset], SequentialSetting, {})
    chosen = [(p.setting, p.seeds) for p in points if p.setting.op == op]
    assert all(s.length == (10 if op == "sum" else 2) for s, _ in chosen)
    assert {s.layer for s, _ in chosen} <= set(MODELS[op])
    references = [seeds for s, seeds in chosen if s.layer == "exact"]
    assert len(references) == 1
    assert len(references[0]) >= 3


@pytest.mark.parametrize("error", [TypeError, NotImplementedError, IndexError])
def test_a_strange_unit_stands_in_no_others_way(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def strange(in_features: int, hidden_features: int) -> nn.Module:
        raise error("needs more")

    monkeypatch.setattr(_cells, "entries", dict(_cells.entries))
    layers.register_cell("strange", label="Strange")(strange)
    assert setting(layer="nau").layer == "nau"
    with pytest.raises(ValueError, match="strange cannot read one number per step"):
        setting(layer="strange")
    _built.cache_clear()


@pytest.mark.parametrize(("preset", "ramp"), [("laptop", "800:8000"), ("paper", "10000:100000")])
def test_a_unit_that_is_named_has_its_published_recipe(preset: str, ramp: str) -> None:
    layers = ["mnac_linear", "nalu", "nac", "nmu", "mnac"]
    named = {"layer": layers, "op": ["product"], "rz": [False]}
    penalties = {"mnac_linear": f"sparsity:10:linear:{ramp}", "nmu": f"sparsity:10:linear:{ramp}"}
    starts = {"nac": "variance", "nalu": "variance"}
    points: Any = expand(load_sweep(TASK.name).presets[preset], SequentialSetting, named)
    trained = [point.setting for point in points if point.setting.layer != "exact"]
    assert len({setting.layer for setting in trained}) >= 4
    for setting in trained:
        assert setting.penalty == penalties.get(setting.layer)
        default = SequentialSetting(layer=setting.layer).weight_init
        assert setting.weight_init == starts.get(setting.layer, default)
