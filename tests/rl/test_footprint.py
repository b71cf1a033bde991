"""A network that cannot be trained is named before the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.layers.cells.unit_cell import _cells
from nalu_ray.layers.registry import Registry, _layers
from nalu_ray.rl import footprint
from nalu_ray.rl.setting import GridworldSetting
from nalu_ray.tasks.gridworld import TASK


class Unit(nn.Module):
    """W x, and what a test does with it."""

    change: Callable[[Tensor], Tensor] = staticmethod(lambda x: x)

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        pass

    def forward(self, x: Tensor) -> Tensor:
        return type(self).change(self.linear(x))


@pytest.fixture
def mine() -> Iterator[type[Unit]]:
    class Mine(Unit):
        pass

    assert isinstance(_layers, Registry)
    layers.register("mine", label="Mine")(layers.Stacked(Mine))
    footprint._fault.cache_clear()
    footprint._sizes.cache_clear()
    yield Mine
    del _layers.entries["mine"]
    _cells.entries.pop("mine", None)
    footprint._fault.cache_clear()
    footprint._sizes.cache_clear()


def fail(x: Tensor) -> Tensor:
    raise ValueError("no such numbers")


WRONG: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (fail, "no such numbers$"),
    (lambda x: x[..., :-1], "cannot be trained: "),
    (lambda x: x.detach(), "cannot be trained: .*not have been used"),
]


@pytest.mark.parametrize("hidden", [8, 2000])
@pytest.mark.parametrize("variant", ["mine", "lstm_mine"])
@pytest.mark.parametrize(("change", "message"), WRONG)
def test_an_unusable_unit_is_named(
    change: Any, message: str, variant: str, hidden: int, mine: type[Unit]
) -> None:
    TASK.check(GridworldSetting(variant=variant, hidden=hidden))
    footprint._fault.cache_clear()
    mine.change = staticmethod(change)
    with pytest.raises(TypeError, match=f"^variant={variant} cannot be trained: ") as met:
        TASK.check(GridworldSetting(variant=variant, hidden=hidden))
    met.match(message)


@pytest.mark.parametrize("wiring", ["instruction", "feedback", "accumulator"])
@pytest.mark.parametrize(
    "variant", ["lstm", "lstm_nac", "nac_core", "gru", "lstm_nalu", "lstm_dnc"]
)
def test_ours_can_be_trained(variant: str, wiring: str) -> None:
    if variant == "lstm_dnc":
        wiring = "accumulator"
    before = torch.get_rng_state()
    TASK.check(GridworldSetting.model_validate({"variant": variant, "wiring": wiring}))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_unit_that_cannot_be_built_is_named(mine: type[Unit]) -> None:
    def built(*_: object) -> None:
        raise NotImplementedError("later")

    mine.__init__ = built  # type: ignore[method-assign, assignment]
    with pytest.raises(TypeError, match=r"^variant=mine cannot be trained: NotImplementedError$"):
        TASK.check(GridworldSetting(variant="mine"))
