"""The parity task: last layers, networks, hygiene of the sets, scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from nalu_ray.data import mnist
from nalu_ray.data.mnist import Digits
from nalu_ray.layers import NAC
from nalu_ray.seeding import Streams
from nalu_ray.sweep.presets import expand, load_sweep
from nalu_ray.task import Batch
from nalu_ray.tasks.parity import TASK
from nalu_ray.tasks.parity import data as scenes
from nalu_ray.tasks.parity.network import LAST, ParityNetwork, ParitySetting, SquashedLinear
from tests.runs import finish


def setting(**values: Any) -> ParitySetting:
    return ParitySetting(**{"batch": 4, "test_size": 30, **values})


def drawn(split: str, **values: Any) -> Batch:
    return TASK.sample(setting(**values), split, Streams(TASK.name, (0, 3), split))


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("affine", lambda w, b, x: x @ w.T + b),
        ("sigmoid_bias", lambda w, b, x: x @ w.sigmoid().T + b),
        ("tanh_bias", lambda w, b, x: x @ w.tanh().T + b),
        ("linear", lambda w, b, x: x @ w.T),
        ("sigmoid", lambda w, b, x: x @ w.sigmoid().T),
        ("tanh", lambda w, b, x: x @ w.tanh().T),
    ],
)
def test_last_layers_are_those_of_the_table(last: str, expected: Any) -> None:
    layer, x = LAST[last](32, 6), torch.rand(5, 32)
    assert isinstance(layer, SquashedLinear)
    assert (layer.bias is not None) == last.endswith(("affine", "bias"))
    torch.testing.assert_close(layer(x), expected(layer.W, layer.bias, x))


def test_any_unit_is_a_last_layer_and_anything_else_an_error() -> None:
    network = ParityNetwork(setting(last="nac"))
    assert isinstance(network.last, NAC)
    assert network.last.W_hat.shape == (6, 32)
    assert ParityNetwork(setting(last="nac", options={"init": 0.25})).last.W_hat[0, 0] == 0.25
    with pytest.raises(ValidationError, match="Did you mean 'linear'"):
        setting(last="liner")
    with pytest.raises(ValidationError, match="last=affine takes none"):
        setting(last="affine", options={"init": 1.0})
    with pytest.raises(ValidationError, match="min_distance"):
        setting(min_distance=31)
    with pytest.raises(ValidationError, match="shared_inputs"):
        setting(shared_inputs=True)


@pytest.mark.parametrize(
    ("network", "below"),
    # 8 x 49 + 8, 16 x 72 + 16, 32 x 144 + 32, 32 + 1, 625 x 32 + 32
    [("reproduction", 400 + 1168 + 4640 + 33 + 20_032), ("wide", 2260 + 910 + 128_032)],
)
def test_networks_are_of_the_stated_sizes(network: str, below: int) -> None:
    built = ParityNetwork(setting(network=network, last="linear"))
    assert sum(p.numel() for p in built.parameters()) == below + 6 * 32
    images = torch.zeros(2, 100, 100, dtype=torch.uint8)
    assert built(images).shape == (2, 6)
    assert built.convnet[:4](images[:, None].float()).shape[2:] in {(25, 25), (41, 41)}


def test_images_are_scaled_to_between_minus_one_and_one() -> None:
    network = ParityNetwork(setting())
    seen: list[Tensor] = []
    network.convnet = nn.Sequential(Watch(seen), network.convnet)
    images = torch.zeros(1, 100, 100, dtype=torch.uint8)
    images[0, 0, :2] = torch.tensor([255, 51], dtype=torch.uint8)
    network(images)
    assert seen[0].shape == (1, 1, 100, 100)
    assert seen[0][0, 0, 0, :3].tolist() == pytest.approx([1, -0.6, -1])


class Watch(nn.Module):
    """Notes what passes through."""

    def __init__(self, seen: list[Tensor]) -> None:
        super().__init__()
        self.seen = seen

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return x


@pytest.mark.parametrize(
    ("split", "train", "first", "last"),
    [("train", True, 0, 55_000), ("validation", True, 55_000, 60_000), ("test", False, 0, 10_000)],
)
def test_no_digit_is_in_two_splits(
    split: str, train: bool, first: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Digits] = []

    def draw(streams: Streams, count: int, digits: Digits, min_distance: int) -> scenes.Scenes:
        seen.append(digits)
        zeros = torch.zeros(2, count, dtype=torch.int64)
        return scenes.Scenes(zeros[..., None, None].byte(), zeros)

    monkeypatch.setattr(scenes, "draw", draw)
    drawn(split)
    assert torch.equal(seen[0].images, mnist.load(train=train).images[first:last])
    assert torch.equal(seen[0].labels, mnist.load(train=train).labels[first:last])


def test_sizes_of_the_sets() -> None:
    sizes = {split: drawn(split).targets.shape for split in ("train", *TASK.splits)}
    assert sizes == {"train": (2, 4), "validation": (2, 15), "test": (2, 30)}
    assert drawn("train").inputs[0].shape == (2, 4, 100, 100)


def test_scores_and_loss_are_each_seeds_own() -> None:
    target = torch.tensor([[0, 5, 2, 1], [1, 1, 1, 1]])
    logits = torch.zeros(2, 4, 6)
    logits[0, torch.arange(4), target[0]] = torch.tensor([2.0, 2.0, 2.0, -2.0])
    logits[1, :, 0] = 3.0
    found = TASK.metrics(setting(), "test", logits, target)
    assert found["accuracy"].tolist() == [0.75, 0]
    assert found["error"].tolist() == [0.25, 1]
    right, wrong = (float(torch.tensor([v, *[0.0] * 5]).log_softmax(0)[0]) for v in (2, -2))
    expected = [-(3 * right + wrong) / 4, float(torch.tensor([3.0, *[0.0] * 5]).logsumexp(0))]
    assert found["cross_entropy"].tolist() == pytest.approx(expected)
    assert TASK.loss(setting(), logits, target).tolist() == pytest.approx(expected)


def composed(digits: Digits, count: int) -> tuple[Tensor, Tensor]:
    """Images of up to five digits, 14 apart, and how many digits in each are even."""
    rng, images, even = np.random.default_rng(0), np.zeros((count, 100, 100), np.int64), []
    for image in images:
        centres: list[Any] = []
        labels = []
        wanted = int(rng.integers(6))
        while len(centres) < wanted:
            centre = rng.integers(14, 86, 2)
            if all(np.hypot(*(centre - other)) >= 14 for other in centres):
                centres.append(centre)
                which = int(rng.integers(len(digits.labels)))
                row, column = centre - 14
                image[row : row + 28, column : column + 28] += digits.images[which].numpy()
                labels.append(int(digits.labels[which]))
        even.append(sum(label in {0, 2, 4, 6, 8} for label in labels))
    return torch.from_numpy(images.clip(max=255).astype(np.uint8)), torch.tensor(even)


def test_zeros_are_counted_among_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """In seconds, by the laptop preset's recipe; on scenes of test digits made here."""
    part = mnist.part

    def zeros_and_ones(split: str) -> Digits:
        digits = part(split)
        chosen = digits.labels < 2
        return Digits(digits.images[chosen], digits.labels[chosen])

    monkeypatch.setattr(mnist, "part", zeros_and_ones)
    preset = load_sweep(TASK.name).presets["laptop"]
    (point,) = expand(preset, ParitySetting, {"last": ["nac"]})
    short = {"steps": 200, "warmup": 20, "evaluations": 1, "test_size": 2}
    run: Any = TASK.start(point.setting.model_copy(update=short), [0], torch.device("cpu"))  # type: ignore[arg-type]
    finish(run)
    images, zeros = composed(mnist.part("test"), 300)
    with torch.no_grad():
        found = run.replicas(images[None])[0].argmax(-1)
    # to count digits and take half of them for zeros gets 51 %
    assert float((found == zeros).float().mean()) > 0.7
