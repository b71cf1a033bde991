"""Memory of what is trained, counted before anything is."""

from __future__ import annotations

import pytest

from nalu_ray import tune
from nalu_ray.sweep.machine import GIB, WORKER_BYTES, need
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
