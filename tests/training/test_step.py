"""A training step as recorded: the bits of the plain one, or the plain one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers._noise import Noise
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks import static
from nalu_ray.tasks.language import TASK as LANGUAGE
from nalu_ray.tasks.recurrent import TASK as RECURRENT
from nalu_ray.training import recording
from nalu_ray.training import step as step_module
from nalu_ray.training.recording import RECORDERS, Repeated, recorded
from nalu_ray.training.supervised import SupervisedRun, SupervisedSetting, SupervisedTask
from tests.runs import finish

CPU = torch.device("cpu")
SMALL = {"inputs": 6, "section": 2, "batch": 8, "test_size": 8, "evaluations": 2}


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are recorded from the fourth on."""
    monkeypatch.setattr(step_module, "PLAIN_STEPS", 3)
    monkeypatch.setattr(step_module, "WORTH_STEPS", 0)


def is_recorded(run: SupervisedRun) -> bool:
    found = run.forward._recorded.values()
    return bool(found) and all(repeat is not None for repeat in found)


def alike(task: SupervisedTask[Any], setting: Any, seeds: int = 3) -> SupervisedRun:
    """Trains as recorded, and plainly; returns the former after comparing every bit."""
    run = SupervisedRun(task, setting, range(seeds), CPU)
    run._train(setting.steps)
    plainly = setting.model_copy(update={"engine": "plain"})
    plain = SupervisedRun(task, plainly, range(seeds), CPU)
    plain._train(setting.steps)
    assert not plain.forward._recorded
    assert torch.equal(run.replicas.flat, plain.replicas.flat)
    assert run.replicas.buffers.keys() == plain.replicas.buffers.keys()
    for name, value in run.replicas.buffers.items():
        assert torch.equal(value, plain.replicas.buffers[name])
    return run


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("seeds", [[4], [7, 4]])
def test_a_recorded_step_of_a_head_gives_a_seed_what_it_gets_in_a_block(seeds: list[int]) -> None:
    """A lone seed's products are those of a block; the recurrent NALU's were not."""
    fields = {"head": "nalu", "combine": "recurrent", "hidden": 8, "engine": "auto"}
    setting = LANGUAGE.setting_type(steps=12, evaluations=1, **fields)
    block, fewer = (SupervisedRun(LANGUAGE, setting, each, CPU) for each in ([2, 4, 9], seeds))
    for run in (block, fewer):
        run._train(setting.steps)
        assert is_recorded(run)
    assert torch.equal(fewer.replicas.flat[seeds.index(4)], block.replicas.flat[1])


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize(
    ("layer", "seeds"),
    [
        ("nac", 3),
        ("nalu", 1),
        ("nalu", 3),
        ("inalu", 3),
        ("real_npu", 3),
        ("relu6", 1),
        ("nmu", 3),
        ("nmru", 2),
    ],
)
def test_a_recorded_step_has_the_bits_of_a_plain_one(layer: str, seeds: int) -> None:
    setting = static.StaticSetting(layer=layer, op="mul", steps=8, clip=1.0, **SMALL)
    assert is_recorded(alike(static.TASK, setting, seeds))


@pytest.mark.usefixtures("early")
def test_recurrent_and_shared_inputs() -> None:
    setting = RECURRENT.setting_type(
        layer="nalu", op="add", steps=9, batch=4, length=3, test_size=4, shared_inputs=True
    )
    assert is_recorded(alike(RECURRENT, setting))


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize(
    "penalty", ["sparsity:0.1", "sparsity:0.1:linear:5:8", "l2@*W*:0.1", "l2@*W*:0.1:below:1e6:0"]
)
def test_penalties_of_parameters_are_added(penalty: str) -> None:
    setting = static.StaticSetting(layer="nau", op="add", steps=12, penalty=penalty, **SMALL)
    assert is_recorded(alike(static.TASK, setting))


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize(
    "penalty",
    [
        "inputs:0.1",
        "inputs:0.1;sparsity:0.2",
        "inputs:0.1:linear:6:12",
        "inputs:0.1:below:1:0",
        "inputs:0.1:below:0.9:0;l1@*:0.1:growth:2:3:1",
    ],
)
@pytest.mark.parametrize("layer", ["nac", "nau"])
def test_penalties_of_inputs_are_recorded_with_the_step(layer: str, penalty: str) -> None:
    setting = static.StaticSetting(layer=layer, op="add", steps=20, penalty=penalty, **SMALL)
    run = alike(static.TASK, setting)
    assert is_recorded(run)
    assert len(run.forward._recorded) == 1 + (":linear" in penalty)  # the ramp is 0 up to a step
    assert run.forward._calls.total() == 20


@pytest.mark.usefixtures("early")
def test_penalties_of_inputs_are_recorded_in_cells() -> None:
    setting = RECURRENT.setting_type(
        layer="nau_nmu", op="mul", steps=9, batch=4, length=3, test_size=4, penalty="inputs:1"
    )
    alike(RECURRENT, setting)
    setting = RECURRENT.setting_type(
        layer="nac", op="add", steps=9, batch=4, length=3, test_size=4, penalty="inputs:1"
    )
    assert is_recorded(alike(RECURRENT, setting))


@pytest.mark.usefixtures("early")
def test_steps_with_a_penalty_of_the_task_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def penalties(self: Any, setting: Any, replicas: Any) -> dict[str, Tensor]:
        return {"all": replicas.flat.square().sum(1)}

    monkeypatch.setattr(static.StaticTask, "penalties", penalties)
    setting = static.StaticSetting(
        layer="nac", op="add", steps=12, penalty="all:0.1:linear:6:9", **SMALL
    )
    run = alike(static.TASK, setting)
    assert is_recorded(run)
    assert run.forward._calls.total() == 7  # of the 12 steps: the ramp is 0 up to the step 6


@pytest.mark.usefixtures("early")
def test_a_resumed_run_is_the_uninterrupted_one() -> None:
    setting = static.StaticSetting(layer="nalu", op="mul", steps=20, **SMALL)
    whole = SupervisedRun(static.TASK, setting, range(2), CPU)
    rows = finish(whole)
    first = SupervisedRun(static.TASK, setting, range(2), CPU)
    first.advance()
    second = SupervisedRun(static.TASK, setting, range(2), CPU)
    second.load_state_dict(first.state_dict())
    assert finish(second).equals(rows)
    assert is_recorded(whole)
    assert is_recorded(second)


class Toy(SupervisedTask[SupervisedSetting]):
    """y = w x by a network of the test's; from step ``at`` on, seed 1 gets inputs of NaN."""

    name, title, section, setting_type = "toy", "", "0", SupervisedSetting

    def __init__(self, network: Callable[[], nn.Module], at: int = 1000) -> None:
        self.network, self.at, self.sizes = network, at, [4]
        self.calls = 0

    def build(self, setting: SupervisedSetting) -> nn.Module:
        return self.network()

    def sample(self, setting: SupervisedSetting, split: str, streams: Streams) -> Batch:
        size = self.sizes[self.calls % len(self.sizes)]
        x = torch.from_numpy(streams.uniform((size, 1)))
        if split == "train":
            if self.calls >= self.at:
                x[1] = torch.nan
            self.calls += 1
        return Batch((x,), x)


def trained(task: Toy, steps: int = 16, engine: Any = "auto") -> SupervisedRun:
    setting = SupervisedSetting(steps=steps, lr=0.1, engine=engine)
    run = SupervisedRun(task, setting, range(3), CPU)
    run._train(steps)
    return run


class Noisy(nn.Linear):
    """Its noise is counted in a buffer."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.noise = Noise()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = super().forward(x) + self.noise(x)
        return result


@pytest.mark.usefixtures("early")
def test_buffers_go_on_from_step_to_step() -> None:
    run = alike(Toy(Noisy), SupervisedSetting(steps=12, lr=0.1))
    assert is_recorded(run)
    assert run.replicas.buffers["noise.calls"].tolist() == [12, 12, 12]


class Product(nn.Linear):
    """PyTorch divides by each factor where none is 0, and multiplies the others where one is."""

    def __init__(self) -> None:
        super().__init__(1, 3)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).prod(-1, keepdim=True)


@pytest.mark.usefixtures("early")
def test_a_product_whose_gradient_looks_for_zeros_stays_plain() -> None:
    assert not is_recorded(alike(Toy(Product), SupervisedSetting(steps=8, lr=0.1)))


class Table(nn.Embedding):
    """Inputs that are integers."""

    def __init__(self) -> None:
        super().__init__(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = super().forward((x[..., 0] * 4).long())
        return result


@pytest.mark.usefixtures("early")
def test_rows_of_a_table() -> None:
    assert is_recorded(alike(Toy(Table), SupervisedSetting(steps=12, lr=0.1)))


@pytest.mark.usefixtures("early")
def test_a_seed_that_diverges_in_a_recorded_step_is_frozen() -> None:
    run = trained(Toy(lambda: nn.Linear(1, 1), at=10))
    assert is_recorded(run)
    assert run.diverged.tolist() == [-1, 10, -1]
    before = trained(Toy(lambda: nn.Linear(1, 1)), steps=10).replicas.flat
    assert torch.equal(run.replicas.flat[1], before[1])
    assert not torch.equal(run.replicas.flat[0], before[0])


@pytest.mark.usefixtures("early")
def test_shapes_are_recorded_apart_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_module, "MOST_SHAPES", 2)
    task = Toy(lambda: nn.Linear(1, 1))
    task.sizes = [4, 5, 6]
    run = trained(task, 30)
    assert [key[0][0] for key in run.forward._recorded] == [(3, 4, 1), (3, 5, 1)]
    assert is_recorded(run)


class Counting(nn.Linear):
    """Every second call gives another result, by a count that is no buffer."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        self._count = 0

    def forward(self, x: Tensor) -> Tensor:
        self._count += 1
        result: Tensor = super().forward(x) * (1 if self._count < 9 else 2)
        return result


class Branching(nn.Module):
    """A lone convolution runs without vmap, so it may look at its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.convolution(x[:, None, None])[:, 0, 0]
        return y * 2 if x.mean() > 0.5 else y


class Drawing(Toy):
    """Its step draws numbers."""

    def predict(self, network: Any, setting: Any, split: str, batch: Batch, streams: Any) -> Tensor:
        noise = torch.from_numpy(streams.uniform((4, 1)))
        return super().predict(network, setting, split, batch, streams) + noise


@pytest.mark.usefixtures("early")
def test_what_cannot_be_repeated_stays_plain() -> None:
    counting = trained(Toy(Counting))
    assert list(counting.forward._recorded.values()) == [None]
    drawing = trained(Drawing(lambda: nn.Linear(1, 1)))
    assert list(drawing.forward._recorded.values()) == [None]
    setting = SupervisedSetting(steps=12, lr=0.1)
    branching = SupervisedRun(Toy(Branching), setting, [0], CPU)
    branching._train(12)
    assert list(branching.forward._recorded.values()) == [None]


@pytest.mark.usefixtures("early")
def test_other_numbers_than_the_plain_steps_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(function: Any, *examples: Tensor) -> Any:
        right = recorded(function, *examples)
        return lambda *given: [value + 1e-6 for value in right(*given)]

    monkeypatch.setitem(RECORDERS, "auto", wrong)
    setting = static.StaticSetting(layer="nac", op="add", steps=12, **SMALL)
    assert not is_recorded(alike(static.TASK, setting))


def test_plain_steps_can_be_had() -> None:
    run = trained(Toy(lambda: nn.Linear(1, 1)), engine="plain")
    assert not run.forward._recorded


def in_fixed_memory(function: Callable[[], Any]) -> tuple[Any, Any]:
    """Repeats a function into the same memory, as a CUDA graph does."""
    results = [torch.empty_like(value) for value in function()]  # filled by a launch alone

    def launch() -> None:
        for place, value in zip(results, function(), strict=True):
            place.copy_(value)

    return results, launch


def test_a_graph_reads_and_writes_fixed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "capture", in_fixed_memory)
    monkeypatch.setattr(recording, "on_a_gpu", lambda tensor: True)
    run = alike(Toy(Noisy), SupervisedSetting(steps=12, lr=0.1, engine="graph"))
    assert is_recorded(run)


def test_compiled_operations_are_the_recorded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def compile_(graph: Any, *, dynamic: bool) -> Any:
        compiled.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", compile_)
    alike(Toy(Noisy), SupervisedSetting(steps=12, lr=0.1, engine="compile"))
    assert len(compiled) == 1


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (lambda: nn.Linear(1, 1), "batches have more than 0 shapes"),
        (Counting, "they depend on more than the batch"),
        (Branching, "value out of a tracing tensor"),
    ],
)
def test_other_engines_refuse_by_name(
    network: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, dynamic: graph)
    if "shapes" in reason:
        monkeypatch.setattr(step_module, "MOST_SHAPES", 0)
    setting = SupervisedSetting(steps=12, lr=0.1, engine="compile")
    run = SupervisedRun(Toy(network), setting, [0], CPU)
    with pytest.raises(ValueError, match=f"^engine=compile: .*cannot be repeated: .*{reason}"):
        run._train(12)


def test_a_graph_needs_a_gpu() -> None:
    with pytest.raises(ValueError, match=r"^engine=graph: needs a GPU"):
        trained(Toy(lambda: nn.Linear(1, 1)), engine="graph")


def test_settings_without_an_engine_keep_their_ids() -> None:
    assert SupervisedSetting(engine="auto", deterministic=False).id == SupervisedSetting().id
    assert SupervisedSetting(engine="graph").id != SupervisedSetting().id


@pytest.mark.usefixtures("early")
def test_an_interruption_while_recording_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise RuntimeError("INTERNAL ASSERT FAILED")  # noqa: B904 (as torch does)

    monkeypatch.setitem(RECORDERS, "auto", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(Toy(lambda: nn.Linear(1, 1)))
    monkeypatch.setattr(recording, "recorded", interrupted)
    monkeypatch.setattr(Repeated, "plain_calls", 0)
    with pytest.raises(KeyboardInterrupt):
        Repeated(torch.sin)(torch.ones(2))


def test_short_runs_record_nothing() -> None:
    run = trained(Toy(lambda: nn.Linear(1, 1)), step_module.PLAIN_STEPS * 2)
    assert not run.forward._recorded


def test_a_recording_returns_what_its_function_does() -> None:
    def function(x: Tensor, y: Tensor) -> dict[str, Any]:
        return {"sum": x + y, "both": (x.sigmoid() * y, x.sum(0))}

    repeat = recorded(function, torch.zeros(3, 2), torch.zeros(2))
    given = torch.randn(3, 2, requires_grad=True), torch.randn(2)
    results, right = repeat(*given), function(*given)
    assert torch.equal(results["sum"], right["sum"])
    assert all(map(torch.equal, results["both"], right["both"]))
    assert not results["sum"].requires_grad
    assert not results["sum"].is_inference()
    with pytest.raises(Exception, match=r"value out of a tracing tensor"):
        recorded(lambda x: x * 2 if x.sum() > 0 else x, torch.ones(2))


def test_nothing_that_was_recorded_outlives_its_function() -> None:
    """torch.jit.trace keeps each graph in a table of the process, some 10 kB per operation.

    In a process of its own: what the allocator keeps after other tests can be more.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        assert alone.submit(_growth).result() < 12 * 2**20


def _growth() -> int:
    """Returns the bytes by which this process grows over eight recordings."""

    def long(x: Tensor) -> Tensor:
        for _ in range(300):
            x = x * 1.01 + 1
        return x

    def resident() -> int:
        return psutil.Process().memory_info().rss

    x = torch.ones(3)
    for _ in range(4):
        assert torch.equal(recorded(long, x)(x), long(x))
    before = resident()
    for _ in range(8):
        recorded(long, x)(x)
    return resident() - before
