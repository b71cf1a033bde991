"""A small stacked training step before a run.

It finds networks that cannot be stacked, and measures the memory of their activations.
"""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Iterator, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nalu_ray.errors import first_line, raise_interruption
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.training import members, patterns, penalties, penalty_terms, updates
from nalu_ray.training.activations import Activations, live_bytes, per_example
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.footprint import without_memory
from nalu_ray.training.optimisers import optimiser
from nalu_ray.training.penalties import Penalties
from nalu_ray.training.records import WEIGHTS
from nalu_ray.training.replicas import Replicas, convolves
from nalu_ray.training.task_rules import RULES, chosen_seeds
from nalu_ray.training.updates import Updates

if TYPE_CHECKING:
    from nalu_ray.training.supervised import SupervisedTask

EXAMPLES = 4  # of a batch
# Of a network or a batch: beyond it, a rehearsal takes memory and time, and leaves numbers out.
MOST_NUMBERS = 2**22
MOST_BYTES = 2**31  # of a batch of so few examples
# fields that make no training batch larger, as they size the network or what evaluates it
_APART = (
    *("hidden", "hidden_layers", "head_layers", "embedding", "registers", "reference_hidden"),
    *("test_size", "test_series", "test_images", "test_limit", "figure_limit", "test_length"),
)

_BRANCHES = (
    "branches on values of a tensor (`if`, `while`, .item(), a mask as an index), which differ "
    "between seeds: use torch.where"
)
_REASONS = {
    "randomness": "it draws random numbers in its forward pass (dropout, Gumbel noise), which "
    "stacked seeds cannot have of their own: leave them out, or let the task's sample draw them as "
    "another input",
    "data-dependent": f"its forward pass {_BRANCHES}",
}
_SIGNS = {
    "randomness": ("randomness",),
    "data-dependent": ("data-dependent", ".item()", "dynamic shape"),
}
_REASONS_AFTER = {  # the forward pass
    "randomness": "draws random numbers; it must depend on parameters, buffers and inputs alone",
    "data-dependent": _BRANCHES,
}
# by class, as two of one name may differ; a class that is dropped is forgotten
_outcomes: MutableMapping[type, dict[Any, str | None]] = WeakKeyDictionary()
_NOT_TRIED = "not tried"
_activations: MutableMapping[type, dict[Any, Activations | None]] = WeakKeyDictionary()
_fitting: MutableMapping[type, set[Any]] = WeakKeyDictionary()


def step_parts(
    task: SupervisedTask[Any],
    setting: SupervisedSetting,
    replicas: Replicas,
    steps_of: Optimizer,
    *,
    recording: bool = True,
) -> tuple[Penalties, Updates]:
    """Returns the penalties of a block of seeds, and its updates by an optimiser.

    Args:
        task, setting: the task and the setting to train.
        replicas: the stacked networks.
        steps_of: the optimiser.
        recording: whether penalties record their operations.

    Raises:
        TypeError, ValueError: if the setting's or a unit's do not fit the network.
    """
    named = penalty_terms.parse(setting.penalty or "")
    factors = updates.parse_factors(setting.lr_factor or "")
    phases = updates.parse_phases(setting.phases or "")
    of_task = task.own("after_step")
    return (
        Penalties(named, replicas, partial(task.penalties, setting, replicas), recording=recording),
        Updates(
            replicas,
            steps_of,
            factors,
            phases,
            of_task and (lambda step: of_task(setting, step, replicas)),
        ),
    )


def rehearse(task: SupervisedTask[Any], setting: SupervisedSetting, network: nn.Module) -> None:
    """Checks that seeds of a setting can be trained as one stacked model.

    It does so once per class of task and network; if the task has rules of its own, which see the
    setting, once per setting, too.

    Args:
        task, setting: the task and the setting to train.
        network: the task's network, on the meta device.

    Raises:
        TypeError: if they cannot; the message says what to do instead.
    """
    giant = _is_giant(network)
    choices = (setting.optimiser, setting.penalty, setting.lr_factor, setting.phases)
    ruled = setting.id if any(map(task.own, RULES)) else None
    key = (ruled, *choices, *_signature(network))
    outcomes = _outcomes.setdefault(type(task), {})
    if key not in outcomes:
        fault = _fault(task, setting, giant)
        if fault == _NOT_TRIED:  # another setting of this network may be smaller
            return
        outcomes[key] = fault
    if fault := outcomes[key]:
        raise TypeError(f"{_named(task, setting)} cannot be trained in blocks of seeds: {fault}")


def measured_activations(
    task: SupervisedTask[Any], setting: SupervisedSetting, network: nn.Module
) -> Activations | None:
    """Measures a network's activations; once per class of task, network and shape of an example.

    Args:
        task, setting: the task and the setting to train.
        network: the task's network, on the meta device.

    Returns:
        None if seeds cannot be stacked, if the number of examples is not the setting's (no
        ``batch``, or a ``pool``), if the network convolves, or if so few examples are large.
    """
    if not getattr(setting, "batch", None) or getattr(setting, "pool", None):
        return None
    if convolves(network) or _is_giant(network):
        return None
    try:
        batch = _small_batch(task, setting, 1)[1]
        drawn = (*batch.inputs, batch.targets)
        if 2 * EXAMPLES * sum(tensor.numel() for tensor in drawn) > MOST_NUMBERS:
            return None
        # what another package's task does with a network may depend on any field
        ours = type(task).__module__.startswith("nalu_ray.")
        shapes = [tuple(tensor.shape[2:]) for tensor in drawn]
        key = ("" if ours else setting.id, *shapes, *_signature(network))
        measured = _activations.setdefault(type(task), {})
        if key not in measured:
            measured[key] = _measured(task, setting)
        return measured[key]
    except Exception as error:  # whatever the task's or the layer's code raises; rehearse tells it
        raise_interruption(error)
        return None


def _measured(task: SupervisedTask[Any], setting: SupervisedSetting) -> Activations:
    replicas = Replicas(lambda: task.build(setting), (0, 1))

    def train(examples: int) -> list[int]:
        small, batch = _small_batch(task, setting, examples)

        def step() -> None:
            prediction = task.predict(replicas, small, "train", batch, _streams(task, small))
            loss = task.loss(small, prediction, batch.targets)
            torch.autograd.grad(loss.sum(), replicas.flat)

        return live_bytes(step)

    def evaluate(examples: int) -> list[int]:
        small, batch = _small_batch(task, setting, examples)
        with replicas.evaluating(), torch.no_grad():
            return live_bytes(
                lambda: task.predict(replicas, small, "train", batch, _streams(task, small))
            )

    _, batch = _small_batch(task, setting, EXAMPLES)
    drawn = sum(tensor.nbytes for tensor in (*batch.inputs, batch.targets)) / (2 * EXAMPLES)
    return Activations(drawn, per_example(train, EXAMPLES, 2), per_example(evaluate, EXAMPLES, 2))


def _small_batch(
    task: SupervisedTask[Any], setting: SupervisedSetting, examples: int
) -> tuple[SupervisedSetting, Batch]:
    small = setting.model_copy(update={"batch": examples})
    if _bytes_of(task, small) > MOST_BYTES:
        raise ValueError("a batch of so few examples is large")
    batch = task.example(small, _streams(task, small))
    if batch is None:
        raise ValueError("the task has no example")
    return small, batch


def check_network(
    task: SupervisedTask[Any], setting: SupervisedSetting, network: nn.Module
) -> None:
    """Checks that what a setting names is in its network, and that its units' bounds are fit.

    It does so once per class of task, network and what is named.

    Args:
        task, setting: the task and the setting to train.
        network: the task's network, on the meta device.

    Raises:
        TypeError, ValueError: if it is not; the message says what there is.
    """
    of_task = tuple(task.penalty_names(setting))
    choices = (setting.penalty, setting.lr_factor, setting.phases)
    key = (of_task, *choices, *_signature(network))
    fitting = _fitting.setdefault(type(task), set())
    if key in fitting:
        return
    names = patterns.trained(network)
    updates.factors_of(updates.parse_factors(setting.lr_factor or ""), names)
    updates.moving(updates.parse_phases(setting.phases or ""), names)
    members.bounds(network)
    if named := penalty_terms.parse(setting.penalty or ""):
        penalties.resolve(named, members.offered(network), names, of_task)
    fitting.add(key)


def _fault(task: SupervisedTask[Any], setting: SupervisedSetting, giant: bool) -> str | None:
    """Returns the reason of a failure, None if the step works, or ``_NOT_TRIED``."""
    small = {name: EXAMPLES for name in ("batch", "pool") if getattr(setting, name, None)}
    setting = setting.model_copy(update=small)
    try:
        if _bytes_of(task, setting) > MOST_BYTES:
            return _NOT_TRIED  # the plan has the arithmetic
        batch = task.example(setting, _streams(task, setting))
        if batch is None:
            return None
        if giant or sum(tensor.numel() for tensor in batch.inputs) > MOST_NUMBERS:
            return _fault_without_numbers(task, setting, batch)
        _step(task, setting, batch)
    except Exception as error:  # whatever the task's or the layer's code raises
        raise_interruption(error)
        return _explained(error)
    return None


def _bytes_of(task: SupervisedTask[Any], setting: SupervisedSetting) -> int:
    """Returns the memory that a batch of two seeds takes, about, with a narrow network."""
    apart = {name: 1 for name in _APART if getattr(setting, name, None)}
    try:
        return task.memory(setting.model_copy(update=apart), 2)
    except (TypeError, ValueError):  # there is no network so narrow
        return task.memory(setting, 2)


def _fault_without_numbers(
    task: SupervisedTask[Any], setting: SupervisedSetting, batch: Batch
) -> str | None:
    """Returns why the predictions of two seeds cannot be stacked; takes no memory for them.

    Only reasons that do not depend on numbers count: some operations have no form without them.
    """
    inputs = tuple(tensor.to("meta") for tensor in batch.inputs)
    batch = Batch(inputs, batch.targets.to("meta"), batch.shared)

    def build() -> nn.Module:
        return without_memory(lambda: task.build(setting)).to("meta")

    try:
        with torch.device("meta"):
            replicas = Replicas(build, (0, 1), "meta")
            before = _generators()
            task.predict(replicas, setting, "train", batch, _streams(task, setting))
            if _generators() != before:
                return _REASONS["randomness"]
            with replicas.evaluating(), torch.no_grad():
                task.predict(replicas, setting, "train", batch, _streams(task, setting))
    except Exception as error:  # whatever the task's or the layer's code raises
        raise_interruption(error)
        return _reason(error)
    return None


def _is_giant(network: nn.Module) -> bool:
    return sum(tensor.numel() for tensor in network.parameters()) > MOST_NUMBERS


def _generators() -> bytes:
    """Returns the state of the generators that vmap does not watch."""
    return pickle.dumps((random.getstate(), np.random.get_state()))  # noqa: NPY002 (the layer's)


def _streams(task: SupervisedTask[Any], setting: SupervisedSetting) -> Streams:
    """Returns the numbers of two seeds, drawn as in a run."""
    return Streams(task.name, (0, 1), "rehearsal", shared=setting.shared_inputs)


def _step(task: SupervisedTask[Any], setting: SupervisedSetting, batch: Batch) -> None:
    """A training step of two seeds, and a prediction in evaluation mode."""
    replicas = Replicas(lambda: task.build(setting), (0, 1))
    if not replicas.names:
        raise TypeError("the network has no parameter to train")
    streams = _streams(task, setting)

    def predict() -> Tensor:
        return task.predict(replicas, setting, "train", batch, streams)

    flat, start, before = replicas.flat, replicas.flat.detach().clone(), replicas.buffers
    shapes = dict(zip(replicas.names, replicas.shapes, strict=True))
    outputs, gradients, steps = [], [], []
    for recording in (True, False):  # a penalty must give the same both ways
        replicas.load(start, before)
        streams = _streams(task, setting)  # predict reads the present ones
        steps_of = optimiser(setting.optimiser, flat, setting.lr, shapes=shapes)
        added, update = step_parts(task, setting, replicas, steps_of, recording=recording)
        added.watch(None)
        prediction = predict()
        loss = _per_seed("loss", task.loss(setting, prediction, batch.targets))
        with _blamed("its penalty() or a gradient"):
            loss, flat.grad = added.gradient(None, loss)
        _per_seed("loss with its penalties", loss)
        gradients.append(flat.grad.nan_to_num())
        with _blamed("its projected(), or the task's after_step(),"):
            update.step(0)
        for step in (1, setting.steps):
            chosen_seeds("stuck", task.stuck(setting, step, loss.detach(), replicas), 2)
        outputs.append(prediction.detach().nan_to_num())
        steps.append(flat.detach().nan_to_num())
    replicas.watch(())
    with replicas.evaluating(), torch.no_grad():
        _try_stop(task, setting, replicas, predict(), batch.targets)
    # random numbers of Python or NumPy, or a count, which torch does not see
    if not torch.equal(*outputs):
        raise TypeError(_REASONS["randomness"])
    if not torch.equal(*gradients):
        raise TypeError("two calls of a penalty differ: it must depend on its unit alone")
    if not torch.equal(*steps):
        raise TypeError(
            "two calls of a unit's projected() differ, or of the task's after_step(): they must "
            "depend on the parameters alone"
        )


def _try_stop(
    task: SupervisedTask[Any],
    setting: SupervisedSetting,
    replicas: Replicas,
    prediction: Tensor,
    target: Tensor,
) -> None:
    """Measures two seeds, and checks what the task's own ``stop`` says of it."""
    every = {WEIGHTS: task.measure(setting, replicas)}
    if (stop := task.own("stop")) is None:
        return
    for split in task.splits:
        try:
            every[split] = task.metrics(setting, split, prediction, target)
        except Exception as error:  # metrics by length, say, need a whole evaluation set
            raise_interruption(error)
    for split, figures in every.items():
        for step in (0, setting.steps):
            chosen_seeds("stop", stop(setting, step, split, figures), 2)


def _per_seed(noun: str, loss: Tensor) -> Tensor:
    if loss.shape != (2,):
        raise TypeError(
            f"{noun} must be one number per seed, (2,) for two seeds, got {tuple(loss.shape)}"
        )
    return loss


class _BlamedError(TypeError):
    """Its message already names the part of a step."""


@contextlib.contextmanager
def _blamed(part: str) -> Iterator[None]:
    """Names the part of a step in the reason that an error of vmap is a sign of."""
    try:
        yield
    except Exception as error:
        if sign := _sign(error):
            raise _BlamedError(f"{part} {_REASONS_AFTER[sign]}") from error
        raise


def _sign(error: Exception) -> str | None:
    """Returns what an error of vmap is a sign of, a key of the reasons; None for other errors."""
    text = str(error)
    return next(
        (name for name, signs in _SIGNS.items() if any(sign in text for sign in signs)), None
    )


def _reason(error: Exception) -> str | None:
    """Returns the reason that an error of vmap is a sign of; None for other errors."""
    sign = _sign(error)
    return None if sign is None else _REASONS[sign]


def _explained(error: Exception) -> str:
    if not isinstance(error, _BlamedError) and (reason := _reason(error)):
        return reason
    line = first_line(error)
    return line if isinstance(error, TypeError) else f"{type(error).__name__}: {line}"


def _named(task: SupervisedTask[Any], setting: SupervisedSetting) -> str:
    values = [f"{axis}={getattr(setting, axis)}" for axis in task.axes]
    return " ".join([task.name, *values])


def _signature(network: nn.Module) -> tuple[Any, ...]:
    """Returns the types and attributes of a network's modules: equal for equivalent networks."""
    return tuple(
        (name, type(part), tuple((key, _plain(value)) for key, value in sorted(vars(part).items())))
        for name, part in network.named_modules()
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype, value.requires_grad
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, list | tuple | set):
        return tuple(_plain(item) for item in value)
    if isinstance(value, nn.Module):
        return None  # listed among the modules itself
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return repr(value) if isinstance(value, float) else value
