"""The identity: sets, figures, and the failure it is there to show."""

from __future__ import annotations

import pytest
import torch

from nalu_ray.seeding import Streams
from nalu_ray.tasks.identity import ACTIVATIONS, TASK, IdentitySetting
from tests.runs import finish

STREAMS = Streams("identity", [0, 1], "any")


def test_sets_are_the_integers_of_the_paper() -> None:
    setting = IdentitySetting(train_inputs="integers")
    for split, limit in (
        ("train", 5),
        ("interpolation", 5),
        ("figure", 20),
        ("extrapolation", 1000),
    ):
        batch = TASK.sample(setting, split, STREAMS)
        assert batch.inputs[0].shape == (2, 2 * limit + 1, 1)
        assert batch.inputs[0][1, :, 0].tolist() == list(range(-limit, limit + 1))
        assert torch.equal(batch.targets, batch.inputs[0])


def test_uniform_training_stays_in_the_range_and_differs_between_seeds() -> None:
    batch = TASK.sample(IdentitySetting(train_inputs="uniform", batch=500), "train", STREAMS)
    x = batch.inputs[0]
    assert x.shape == (2, 500, 1)
    assert -5 <= x.min() < -4.9
    assert 4.9 < x.max() < 5
    assert not torch.equal(x[0], x[1])


def test_predicting_zero_scores_as_the_caption_says() -> None:
    batch = TASK.sample(IdentitySetting(), "extrapolation", STREAMS)
    zeros = torch.zeros_like(batch.targets)
    found = TASK.metrics(IdentitySetting(), "extrapolation", zeros, batch.targets)
    assert found["mae"].tolist() == pytest.approx([1000 * 1001 / 2001] * 2)


def test_networks_have_three_hidden_layers_of_eight() -> None:
    for name in ACTIVATIONS:
        parameters = sum(p.numel() for p in TASK.build(IdentitySetting(layer=name)).parameters())
        extra = 3 if name == "prelu" else 0
        assert parameters == (8 + 8) + 2 * (64 + 8) + (8 + 1) + extra


def test_tanh_learns_the_range_and_fails_beyond_and_linear_does_not() -> None:
    scores = {}
    for name in ("tanh", "none"):
        setting = IdentitySetting(layer=name, steps=500, evaluations=1)
        run = TASK.start(setting, range(3), torch.device("cpu"))
        rows = finish(run)
        last = rows[(rows.step == 500) & (rows.metric == "mae")]
        scores[name] = last.groupby("split").value.mean()
    assert scores["tanh"]["interpolation"] < 0.2
    assert scores["tanh"]["extrapolation"] > 450
    assert scores["none"]["extrapolation"] < 1
