"""A training step's loss and gradient: computed plainly, or repeated as recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nalu_ray.errors import first_line, raise_interruption
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.training import recording
from nalu_ray.training.penalties import Penalties
from nalu_ray.training.recording import MOST_SHAPES, RECORDERS, Engine, same_bits
from nalu_ray.training.replicas import Replicas

# Recording takes 30 to 200 plain steps of time, and saves a third to two thirds of later ones.
PLAIN_STEPS = 20
WORTH_STEPS = 500
# Steps computed both ways before the recorded one is trusted.
TRIED_STEPS = 2

_OF_EVERY_MODULE = vars(nn.Module()).keys() - {"training"}


class Step:
    """The loss and the gradient of a block of seeds, step by step.

    By ``auto``, the operations of a step are recorded after :data:`PLAIN_STEPS` plain ones on
    batches of its shape, if :data:`WORTH_STEPS` are left. They are repeated from then on if they
    have given the bits of plain steps :data:`TRIED_STEPS` times, and modules keep no count of their
    calls; otherwise steps stay plain. The other engines record the first step, and a step that
    cannot be repeated is an error.

    Args:
        replicas: the stacked networks.
        penalties: the setting's.
        loss: returns each seed's loss, (R,), for a batch and streams to draw from.
        streams: streams to draw from; a step that draws is not recorded.
        engine: how steps are computed, the setting's.
    """

    def __init__(
        self,
        replicas: Replicas,
        penalties: Penalties,
        loss: Callable[[Batch, Streams], Tensor],
        streams: Streams,
        engine: Engine = "auto",
    ) -> None:
        self.replicas, self.penalties, self.loss, self.streams = replicas, penalties, loss, streams
        self.engine = engine
        if engine == "graph" and not recording.on_a_gpu(replicas.flat):
            raise ValueError("engine=graph: needs a GPU; engine=auto repeats steps on a CPU, too")
        self._calls: Counter[Any] = Counter()
        self._recorded: dict[Any, Callable[..., tuple[Tensor, ...]] | None] = {}

    def __call__(self, step: int, left: int, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Computes a step, and replaces the buffers of the networks by those after it.

        Args:
            step: steps of training so far.
            left: steps still to do, this one included.
            batch: the training batch.

        Returns:
            The loss of each seed, (R,), the same with its penalties, (R,), and the gradient of
            that, (R, P).

        Raises:
            ValueError: a step cannot be repeated by the engine ``compile`` or ``graph``.
        """
        replicas, penalties = self.replicas, self.penalties
        repeat, is_tried = self._repeated(step, left, batch)
        if repeat is None:
            penalties.watch(step)
            loss = self.loss(batch, self.streams)
            return loss.detach(), *penalties.gradient(step, loss)
        with_penalties = penalties.needs_graph(step)
        arguments = *replicas.buffers.values(), *batch.inputs, batch.targets
        if with_penalties:
            arguments = *arguments, penalties.coefficients(step)
        loss, total, gradient, *buffers = repeat(replicas.flat, *arguments)
        if is_tried:
            loss, total, gradient = self._compared(step, batch, loss, total, gradient, *buffers)
        else:
            replicas.buffers = dict(zip(replicas.buffers, buffers, strict=True))
        if with_penalties:
            return loss, total, gradient
        return loss, *penalties.added(step, loss, gradient)

    def _repeated(
        self, step: int, left: int, batch: Batch
    ) -> tuple[Callable[..., tuple[Tensor, ...]] | None, bool]:
        """Returns the recorded step, if there is one to take, and whether it is still tried."""
        if self.engine == "plain" or self.penalties.of_the_task(step):
            return None, False
        key = self._key(step, batch)
        self._calls[key] += 1
        earlier = self._calls[key] - 1
        plain = PLAIN_STEPS if self.engine == "auto" else 0
        if key not in self._recorded:
            if self.engine == "auto" and (earlier < plain or left < WORTH_STEPS):
                return None, False
            if len(self._recorded) == MOST_SHAPES:
                self._refuse(f"batches have more than {MOST_SHAPES} shapes")
                return None, False
            earlier = plain
            self._calls[key] = earlier + 1
            self._recorded[key] = self._record(step, batch)
        return self._recorded[key], earlier < plain + TRIED_STEPS

    def _refuse(self, reason: str) -> None:
        """Raises unless steps may be plain."""
        if self.engine != "auto":
            raise ValueError(
                f"engine={self.engine}: steps of this setting cannot be repeated: {reason}"
            )

    def _compared(self, step: int, batch: Batch, *repeated: Tensor) -> tuple[Tensor, ...]:
        """Computes a step plainly; forgets the recorded one if that gave other numbers."""
        module = self.replicas.module
        before = _plain_attributes(module)
        plain_results = self._differentiated(step, batch, self.streams, self.penalties.coefficients)
        alike = same_bits if self.engine == "auto" else _close
        agree = all(map(alike, plain_results, repeated))
        if not agree or _plain_attributes(module) != before:
            self._recorded[self._key(step, batch)] = None
            self._refuse("they depend on more than the batch")
        return plain_results[:3]

    def _record(self, at: int, batch: Batch) -> Callable[..., tuple[Tensor, ...]] | None:
        """Returns the step as recorded, None if it cannot be."""
        replicas, inputs = self.replicas, len(batch.inputs)
        names = list(replicas.buffers)

        def step(flat: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
            leaf = flat.detach().requires_grad_()
            buffers, batch_tensors = dict(zip(names, tensors, strict=False)), tensors[len(names) :]
            recorded_batch = Batch(
                tuple(batch_tensors[:inputs]), batch_tensors[inputs], batch.shared
            )
            with torch.enable_grad(), replicas.holding(leaf, buffers):
                return self._differentiated(
                    at, recorded_batch, _Refused(), lambda _: batch_tensors[-1]
                )

        arguments = *replicas.buffers.values(), *batch.inputs, batch.targets
        if self.penalties.needs_graph(at):
            arguments = *arguments, self.penalties.coefficients(at)
        try:
            repeat: Callable[..., tuple[Tensor, ...]]
            repeat = RECORDERS[self.engine](step, replicas.flat.detach(), *arguments)
        except Exception as error:  # whatever a unit, a task or PyTorch raises: plain steps work
            raise_interruption(error)
            self._refuse(first_line(error))
            return None
        return repeat

    def _differentiated(
        self, step: int, batch: Batch, streams: Any, coefficients: Callable[[int], Tensor]
    ) -> tuple[Tensor, ...]:
        """Returns loss, loss to differentiate, its gradient, and the buffers after it.

        The second has the penalties that read more than the parameters, with these coefficients.
        """
        self.penalties.watch(step)
        loss = self.loss(batch, streams)
        if self.penalties.needs_graph(step):
            total, gradient = self.penalties.spelled_out(step, coefficients(step), loss)
        else:
            (gradient,) = torch.autograd.grad(loss.sum(), self.replicas.flat)
            total = loss.detach()
        return loss.detach(), total, gradient, *self.replicas.buffers.values()

    def _key(self, step: int, batch: Batch) -> tuple[Any, ...]:
        """Returns what steps that are recorded as one have in common."""
        tensors = *batch.inputs, batch.targets
        terms = self.penalties.terms(step) if self.penalties.needs_graph(step) else ()
        return *((x.shape, x.stride(), x.dtype) for x in tensors), batch.shared, terms


class _Refused:
    """Stands for the streams while a step is recorded: numbers drawn then would be repeated."""

    def __getattr__(self, name: str) -> Any:
        raise TypeError(f"streams.{name}: a step that draws numbers cannot be recorded")

    def __len__(self) -> int:
        raise TypeError("a step that reads its streams cannot be recorded")


def _close(first: Tensor, second: Tensor) -> bool:
    """Returns whether each seed's numbers are the same up to rounding, where they are finite."""
    first, second = (value.double().reshape(len(value), -1) for value in (first, second))
    finite = first.isfinite().all(1)
    far = (first - second).norm(dim=1) > 0.01 * first.norm(dim=1) + 1e-12
    return not bool((far & finite).any())


def _plain_attributes(network: nn.Module) -> Sequence[str]:
    """Returns the attributes of modules that are no tensors, as text: recordings change none."""
    return [
        f"{path}.{name}={value!r}"
        for path, part in network.named_modules()
        for name, value in vars(part).items()
        if name not in _OF_EVERY_MODULE and not isinstance(value, Tensor | nn.Module)
    ]
