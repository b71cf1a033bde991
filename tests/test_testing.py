"""The conformance checks refuse what is wrong, and say what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from nalu_ray import layers, testing
from nalu_ray.registry import task
from nalu_ray.testing import CELL_CHECKS, TASK_CHECKS, UNIT_CHECKS, of_cell, of_layer, of_unit
from nalu_ray.testing.chosen import VARIABLE, chosen_cells, chosen_layers, chosen_tasks
from nalu_ray.training import updates
from tests import distinct


class Good(nn.Module):
    """A bounded linear layer; each of the classes below gets one thing wrong."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (-1.0, 1.0)}

    def __init__(
        self, in_features: int, out_features: int, *, device: Any = None, dtype: Any = None
    ):
        super().__init__()
        self.in_features = in_features
        shape = (out_features, in_features)
        self.W = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.register_buffer("calls", torch.zeros((), device=device))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        nn.init.uniform_(self.W, -0.5, 0.5, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return layers.linear(x, self.W)

    def penalty(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"size": self.W.square().mean(), "inputs": (inputs.mean(0) * self.W).square().mean()}

    def measure(self) -> dict[str, Tensor]:
        return {"largest": self.W.abs().amax()}


class OneShape(Good):
    def forward(self, x: Tensor) -> Tensor:
        return layers.linear(x, self.W)[..., :1]


class NoGradient(Good):
    def forward(self, x: Tensor) -> Tensor:
        return layers.linear(x, self.W.detach()) + 0 * self.W.sum()


class OwnRandomness(Good):
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        nn.init.uniform_(self.W, -0.5, 0.5)


class OnTheCPU(Good):
    def __init__(self, *shape: int, **options: Any) -> None:
        super().__init__(*shape, **options)
        self.W = nn.Parameter(torch.zeros(self.W.shape))


class Branches(Good):
    def forward(self, x: Tensor) -> Tensor:
        return layers.linear(x, self.W if self.W.sum() > 0 else 2 * self.W)


class StartsOutside(Good):
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (0.0, 1.0)}


class BoundsOfNothing(Good):
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"V": (0.0, 1.0)}


class NoScalar(Good):
    def penalty(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"size": self.W.square()}


class DetachedPenalty(Good):
    def penalty(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"size": self.W.detach().square().mean()}


class CountingPenalty(Good):
    def penalty(self, inputs: Tensor) -> dict[str, Tensor]:
        self.calls = self.calls + 1
        return {"size": self.W.square().mean()}


class RandomPenalty(Good):
    def penalty(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"size": self.W.square().mean() * torch.rand(())}


class WrongProjection(Good):
    def projected(self) -> dict[str, Tensor]:
        return {"W": self.W[0]}


class NoMeasure(Good):
    def measure(self) -> dict[str, Tensor]:
        return {"largest": self.W.sum() / 0}


BROKEN: list[tuple[type[nn.Module], str, str]] = [
    (OneShape, "shapes", "output"),
    (NoGradient, "learns", "W: no gradient"),
    (OwnRandomness, "generator", "W: one seed gives two values"),
    (OnTheCPU, "meta", "W is on cpu: pass device to every tensor"),
    (StartsOutside, "bounds", r"bounds\['W'\]: starts in \[-0\..*\], not \[0\.0, 1\.0\]"),
    (BoundsOfNothing, "bounds", r"bounds\['V'\]: no such parameter of the module: W"),
    (NoScalar, "penalty", r"penalty\['size'\]: one finite number is needed"),
    (DetachedPenalty, "penalty", r"penalty\['size'\]: no gradient"),
    (CountingPenalty, "penalty", "penalty: changes calls"),
    (RandomPenalty, "penalty", "penalty: draws random numbers"),
    (WrongProjection, "projected", r"projected\['W'\]: shape \(5,\), not \(2, 5\)"),
    (NoMeasure, "measure", r"measure\['largest'\]: one finite number is needed"),
]


@pytest.mark.parametrize("check", sorted(UNIT_CHECKS.keys() - {"compiles", "exports"}))
def test_a_good_unit_passes(check: str) -> None:
    UNIT_CHECKS[check](of_unit(Good))


@pytest.mark.parametrize(
    ("unit", "check", "message"), BROKEN, ids=lambda x: getattr(x, "__name__", None)
)
def test_what_is_wrong_is_said(unit: type[nn.Module], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        UNIT_CHECKS[check](of_unit(unit))


@pytest.mark.parametrize("check", ["stacked", "compiles"])
def test_a_branch_on_values_cannot_be_stacked(check: str) -> None:
    with pytest.raises(RuntimeError, match=r"[Dd]ata-dependent"):
        UNIT_CHECKS[check](of_unit(Branches))


def test_a_loop_that_forgets_bounds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    UNIT_CHECKS["kept_in_bounds"](of_unit(Good))
    monkeypatch.setattr(updates.Updates, "constrain", lambda self: None)
    with pytest.raises(AssertionError, match=r"W is in \[.*\] after step 1, not \[-1\.0, 1\.0\]"):
        UNIT_CHECKS["kept_in_bounds"](of_unit(Good))


def test_a_unit_runs_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for name in UNIT_CHECKS:
        monkeypatch.setitem(UNIT_CHECKS, name, lambda build, name=name: seen.append(name))
    testing.check_unit(Good)
    testing.check_layer("nac")
    assert seen == [*UNIT_CHECKS] * 2


def test_options_reach_the_unit_and_unknown_layers_are_refused() -> None:
    assert of_layer("nac", init=0.0)().state_dict()["0.W_hat"].eq(0).all()
    with pytest.raises(layers.UnknownLayerError, match="Did you mean 'nac'"):
        testing.check_layer("nacc")


@pytest.mark.parametrize("check", CELL_CHECKS)
@pytest.mark.parametrize("cell", [*distinct.cells(), Good], ids=lambda x: getattr(x, "__name__", x))
def test_every_cell_passes(cell: str | type[nn.Module], check: str) -> None:
    # free slots of a DNC's memory are equal but for rounding: in a batch of one they may change
    # places
    options = {"slots": 1} if (cell, check) == ("dnc", "padding") else {}
    CELL_CHECKS[check](of_cell(cell, **options))


class Counts(Good):
    """It adds the number of its calls, which a series has more of than a single step."""

    def forward(self, x: Tensor) -> Tensor:
        self.count = getattr(self, "count", 0) + 1
        return super().forward(x) + self.count


class Flat(Good):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class Mixes(Good):
    """Every row of a batch reads the mean over the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0, keepdim=True))


@pytest.mark.parametrize(
    ("unit", "check", "message"),
    [
        (OneShape, "sequence", "shapes cannot be multiplied"),
        (Counts, "sequence", "its start, given to it, gives other outputs"),
        (Counts, "steps", "not close"),
        (Mixes, "padding", "not close"),
        (Flat, "learns", "does not require grad"),
        (Branches, "stacked", "data-dependent"),
    ],
)
def test_what_is_wrong_with_a_cell_is_said(unit: type[nn.Module], check: str, message: str) -> None:
    with pytest.raises((AssertionError, RuntimeError), match=message):
        CELL_CHECKS[check](of_cell(unit))


def test_a_cell_runs_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for name in CELL_CHECKS:
        monkeypatch.setitem(CELL_CHECKS, name, lambda build, name=name: seen.append(name))
    testing.check_cell("nac")
    testing.check_cell(Good)
    assert seen == [*CELL_CHECKS] * 2
    with pytest.raises(layers.UnknownLayerError, match="Did you mean 'nac'"):
        testing.check_cell("nacc")


def test_a_task_whose_seeds_share_a_generator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = task("identity")
    sample: Callable[..., Any] = type(identity).sample

    def shared(self: Any, setting: Any, split: str, streams: Any) -> Any:
        batch = sample(self, setting, split, streams)
        return type(batch)(tuple(x + torch.rand(()) for x in batch.inputs), batch.targets)

    monkeypatch.setattr(type(identity), "sample", shared)
    for check in ("seeds", "resume"):
        with pytest.raises(AssertionError, match="other rows"):
            TASK_CHECKS[check](identity)


def test_layers_and_tasks_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen() -> tuple[list[str], ...]:
        for function in (chosen_layers, chosen_cells, chosen_tasks):
            function.cache_clear()
        return chosen_layers(), chosen_cells(), chosen_tasks()

    monkeypatch.setenv(VARIABLE, "nac, static, gru, nau_nmu")
    assert chosen() == (["nac", "nau_nmu"], ["gru", "nac"], ["static"])
    monkeypatch.delenv(VARIABLE)
    assert chosen() == ([], [], [])  # ours are not another package's
    monkeypatch.setenv(VARIABLE, "statik")
    with pytest.raises(ValueError, match=r"NALU_RAY_TEST: .* 'statik'\. Did you mean 'static'"):
        chosen()
    monkeypatch.undo()
    chosen()


def test_only_the_test_modules_import_pytest() -> None:
    folder = Path(testing.__file__).parent
    others = [path for path in folder.glob("*.py") if not path.name.startswith("test_")]
    assert len(others) >= 5
    assert not [path for path in others if "pytest\n" in path.read_text(encoding="utf-8")]
