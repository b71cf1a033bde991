"""Static MNIST: folds of pairs, images of the right digits, dropout as an input, scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nalu_ray.data import mnist
from nalu_ray.seeding import Streams
from nalu_ray.sweep.presets import expand, load_sweep
from nalu_ray.sweep.resources import PRESETS
from nalu_ray.task import Batch
from nalu_ray.tasks.static_mnist import TASK
from nalu_ray.tasks.static_mnist.data import SETS, folds, images, pairs_of
from nalu_ray.tasks.static_mnist.network import DigitReader, PairNetwork, PairSetting, TrueOperation
from nalu_ray.tasks.static_mnist.tables import MODELS
from nalu_ray.training.replicas import Replicas

SEEDS = (0, 13)
every_operation = pytest.mark.parametrize("op", ["mul", "div"])


def setting(**values: Any) -> PairSetting:
    return PairSetting(**{"batch": 6, "test_size": 30, **values})


def drawn(split: str, **values: Any) -> Batch:
    return TASK.sample(setting(**values), split, Streams(TASK.name, SEEDS, split))


# -- pairs and images --------------------------------------------------------------------------


@every_operation
def test_ten_folds_share_out_the_pairs(op: Any) -> None:
    dealt = [tuple(pair) for fold in folds(op) for pair in fold.tolist()]
    divisors = range(1 if op == "div" else 0, 10)
    assert sorted(dealt) == [(a, b) for a in range(10) for b in divisors]
    assert {len(fold) for fold in folds(op)} == {len(divisors)}


@every_operation
def test_a_seed_leaves_out_the_fold_of_its_last_digit(op: Any) -> None:
    for chosen, seed, fold in ((setting(op=op), 13, 3), (setting(op=op, fold=7), 13, 7)):
        unseen = pairs_of(chosen, seed, seen=False)
        assert torch.equal(unseen, folds(op)[fold])
        seen = {tuple(pair) for pair in pairs_of(chosen, seed, seen=True).tolist()}
        assert len(seen) == 9 * len(unseen)
        assert not seen & {tuple(pair) for pair in unseen.tolist()}


@every_operation
@pytest.mark.parametrize("split", SETS)
def test_evaluation_sets_have_their_pairs_and_the_images_of_their_digits(
    op: str, split: str
) -> None:
    batch = drawn(split, op=op)
    (index,) = batch.inputs
    part, seen = SETS[split]
    digits = mnist.part(part).labels[index]
    assert torch.equal(digits.float(), batch.targets[..., 1:])
    a, b = digits.double().unbind(-1)
    expected = a * b if op == "mul" else a / b
    torch.testing.assert_close(batch.targets[..., 0].double(), expected, rtol=1e-6, atol=0)
    for row, seed in enumerate(SEEDS):
        allowed = {tuple(pair) for pair in pairs_of(setting(op=op), seed, seen).tolist()}
        assert {tuple(pair) for pair in digits[row].tolist()} <= allowed
    assert torch.equal(images(split, index[1, :2]), mnist.part(part).images[index[1, :2]])


def test_training_shows_images_of_the_training_part_alone() -> None:
    batch = drawn("train", batch=20)
    pixels = batch.inputs[0]
    assert pixels.shape == (2, 20, 2, 28, 28)
    known = mnist.part("train")
    for pair in (0, 7):
        for side in range(2):
            image = pixels[1, pair, side]
            places = (known.images == image).flatten(1).all(1).nonzero()[:, 0]
            assert batch.targets[1, pair, 1 + side] in known.labels[places]


def test_every_image_of_a_digit_may_be_drawn() -> None:
    chosen = setting(test_size=20_000)
    batch = TASK.sample(chosen, "seen", Streams(TASK.name, (0,), "seen"))
    assert len(batch.inputs[0].unique()) > 9700  # of 10,000, each drawn 4 times on average


# -- the network -------------------------------------------------------------------------------


def test_dropout_is_drawn_with_the_batch_and_enlarges_what_stays() -> None:
    _, features, hidden = drawn("train", batch=40).inputs
    assert features.shape == (2, 40, 2, 9216)
    assert hidden.shape == (2, 40, 2, 128)
    assert features.float().mean().item() == pytest.approx(0.75, abs=0.002)
    assert hidden.float().mean().item() == pytest.approx(0.5, abs=0.02)
    assert not torch.equal(features[0], features[1])
    assert len(drawn("train", dropout=False).inputs) == 1


def test_the_digit_is_the_mean_of_the_softmax_with_the_features_that_stay() -> None:
    reader = DigitReader()
    pixels = torch.randint(256, (3, 28, 28), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    features = torch.rand(3, 9216, generator=generator) < 0.75
    hidden = torch.rand(3, 128, generator=generator) < 0.5
    relu, pool, conv = torch.relu, nn.functional.max_pool2d, nn.functional.conv2d
    weight = {name: value.double() for name, value in reader.named_parameters()}
    with torch.no_grad():
        x = ((pixels.float() / 255 - 0.1307) / 0.3081).double().unsqueeze(1)
        x = relu(conv(x, weight["first.weight"], weight["first.bias"]))
        x = pool(relu(conv(x, weight["second.weight"], weight["second.bias"])), 2).flatten(1)
        for kept in (True, False):
            y = x * features / 0.75 if kept else x
            y = relu(y @ weight["inner.weight"].T + weight["inner.bias"])
            y = y * hidden / 0.5 if kept else y
            p = torch.softmax(y @ weight["outer.weight"].T + weight["outer.bias"], -1)
            expected = sum(d * p[:, d] for d in range(10))
            found = reader(pixels, *((features, hidden) if kept else ()))
            torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_the_true_operation_computes_with_what_is_read() -> None:
    digits = torch.tensor([[6.0, 3.0], [7.0, 2.0]])
    assert TrueOperation("mul")(digits).tolist() == [[18], [14]]
    assert TrueOperation("div")(digits).tolist() == [[2], [3.5]]
    network = PairNetwork(setting(layer="exact"))
    with torch.no_grad():
        answers = network(torch.zeros(4, 2, 28, 28, dtype=torch.uint8))
    assert answers.shape == (4, 3)
    torch.testing.assert_close(answers[:, 0], answers[:, 1] * answers[:, 2])


def test_evaluation_reads_the_images_of_its_indices_without_dropout() -> None:
    chosen, batch = setting(), drawn("test")
    network = Replicas(lambda: TASK.build(chosen), SEEDS)
    with torch.no_grad(), network.evaluating():
        found = TASK.predict(network, chosen, "test", batch, Streams(TASK.name, SEEDS, "test"))
        direct = network(mnist.part("test").images[batch.inputs[0]])
    torch.testing.assert_close(found, direct)


def test_only_results_are_trained_and_all_three_are_scored() -> None:
    target = torch.tensor([[[12.0, 3.0, 4.0], [0.0, 0.0, 5.0]]])
    given = torch.tensor([[[12.4, 3.4, 4.6], [2.0, 0.2, 5.1]]])
    assert TASK.loss(setting(), given, target).tolist() == pytest.approx([(0.16 + 4) / 2])
    figures = TASK.metrics(setting(), "test", given, target)
    assert figures["mse"].item() == pytest.approx((0.16 + 4) / 2, rel=1e-5)
    assert (figures["exact"].item(), figures["digits"].item()) == (0.5, 0.75)
    target = torch.tensor([[[0.75, 3.0, 4.0], [2.0, 8.0, 4.0]]])
    given = torch.tensor([[[0.85, 3.0, 4.0], [2.2, 8.0, 4.0]]])  # times the divisor off by .4, .8
    figures = TASK.metrics(setting(op="div"), "test", given, target)
    assert figures["exact"].item() == 0.5


def test_the_best_constant_is_a_result() -> None:
    target = torch.tensor([[[12.0, 3.0, 4.0], [0.0, 0.0, 5.0]]])
    found = TASK.references(setting(), "test", Batch((), target), Streams("s", [0], "test"))
    assert found["constant_mse"].tolist() == [36]


def test_settings_say_what_has_no_effect() -> None:
    idle = setting(layer="exact").unread()
    assert {"hidden", "hidden_layers"} <= set(idle)
    assert "hidden" in setting(layer="nmu").unread()
    assert "hidden" not in setting(layer="relu", hidden_layers=2).unread()
    with pytest.raises(ValueError, match="options must be empty"):
        setting(layer="exact", options={"bias": True})
    TASK.check(setting(layer="relu", hidden_layers=2, hidden=4))


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "smoke"])
@every_operation
def test_presets_have_a_reference_and_models_with_labels(preset: str, op: str) -> None:
    points: Any = expand(load_sweep(TASK.name).presets[preset], PairSetting, {})
    chosen: Any = [point for point in points if point.setting.op == op]
    assert {point.setting.layer for point in chosen} <= set(MODELS.labels)
    (reference,) = (point for point in chosen if point.setting.layer == "exact")
    assert len(reference.seeds) >= 3
    assert all(point.seeds[: len(reference.seeds)] == reference.seeds for point in chosen)


def test_each_unit_has_its_published_penalty_and_clipping() -> None:
    ramp = "linear:21094:28125"
    recipes: dict[tuple[str, str], set[Any]] = {}
    for point in expand(load_sweep(TASK.name).presets["paper"], PairSetting, {}):
        s: Any = point.setting
        assert (s.lr, s.batch, s.steps) == (1e-3, 128, 703_000)
        recipes.setdefault((s.op, s.layer), set()).add((s.penalty, s.clip, str(s.options)))
    assert recipes == {
        ("mul", "exact"): {(None, None, "{}")},
        ("mul", "none"): {(None, None, "{}")},
        ("mul", "nmu"): {(f"sparsity:100:{ramp}", None, "{}")},
        ("mul", "snmu"): {
            (f"sparsity:100:{ramp}", None, noise) for noise in ("{}", "{'batch_noise': True}")
        },
        ("div", "exact"): {(None, None, "{}")},
        ("div", "nmru"): {(f"sparsity:2:{ramp}", None, "{}")},
        ("div", "nru"): {(f"sparsity:2:{ramp}", 1.0, "{}")},
        ("div", "modified_real_npu"): {(f"sparsity:2:{ramp};gate:2:{ramp}", None, "{}")},
        ("div", "relu"): {("l2@*:0.0005", None, "{}")},
    }


@pytest.mark.parametrize("preset", ["laptop", "paper"])
def test_the_nru_alone_is_clipped(preset: str) -> None:
    words = {"op": ["div"], "layer": ["nru", "nmru"]}
    for point in expand(load_sweep(TASK.name).presets[preset], PairSetting, words):
        setting: Any = point.setting
        assert setting.clip == (1.0 if setting.layer == "nru" else None)
        assert str(setting.penalty).startswith("sparsity:2:linear:")
