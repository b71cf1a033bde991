"""Operations recorded once and repeated, without the cost of Python, vmap and autograd.

A small network's step costs mostly calls, not arithmetic: ``vmap`` and autograd look at every
operation anew in each step, though the operations are the same in each. Here they are written down
once, by PyTorch's ``make_fx``, and then called in turn by TorchScript's interpreter. They are the
same operations in the same order, so they give the same bits (docs/performance.md).
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from nalu_ray.errors import raise_interruption

log = logging.getLogger(__name__)

# Inputs of each shape are recorded apart.
MOST_SHAPES = 8
_IDLE = {
    torch.ops.aten.alias.default,
    torch.ops.aten.view.default,
    torch.ops.aten.expand.default,
    torch.ops.aten._unsafe_view.default,
}


Function = Callable[..., Any]
"""Takes tensors; returns tensors, or tuples or dicts of them."""


def recorded(function: Function, *examples: Tensor) -> Function:
    """Records a function's operations on tensors; repeated, they give the same bits.

    Args:
        function: returns tensors without a gradient. It branches on no number, draws none, and
            changes nothing but what it returns.
        examples: examples of its inputs.

    Returns:
        A function of inputs of the same shapes and types.
    """
    graph, spec = _traced(function, examples)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that shapes become constants, as they are meant to
        operations, _ = torch._C._create_graph_by_tracing(graph, examples, _no_name, True, False)
        # torch.jit.trace would keep each graph, ten kilobytes per operation, until the process ends
        script = torch._C._create_function_from_graph("recorded", operations)
    # an optimised execution fuses operations, which then round in another way
    as_recorded = torch.jit.optimized_execution  # type: ignore[attr-defined]

    def repeat(*given: Tensor) -> Any:
        with torch.inference_mode(), as_recorded(False):
            results = script(*given)
        # tensors of the inference mode can be used in nothing that is differentiated
        return tree_unflatten([result.clone() for result in results], spec)

    return repeat


def _no_name(value: Tensor) -> str:
    return ""


class Repeated:
    """A function that is recorded once it has been called often, if that gives the same bits.

    Args:
        function: as for :func:`recorded`.
    """

    # A recording takes 30 to 200 calls of time. Then it is compared before it is trusted.
    plain_calls = 50
    compared_calls = 2

    def __init__(self, function: Function) -> None:
        self.function = function
        self._calls: Counter[Any] = Counter()
        self._known: dict[Any, Function | None] = {}

    def __call__(self, *given: Tensor) -> Any:
        """Calls the function, or repeats what was recorded on inputs of these shapes."""
        key = tuple((x.shape, x.stride(), x.dtype) for x in given)
        self._calls[key] += 1
        late = self._calls[key] - self.plain_calls
        if late > 0 and key not in self._known:
            self._known[key] = self._recorded(given) if len(self._known) < MOST_SHAPES else None
        repeat = self._known.get(key)
        if repeat is None:
            return self.function(*given)
        results = repeat(*given)
        if late <= self.compared_calls:
            plain = self.function(*given)
            leaves, repeated_leaves = tree_flatten(plain)[0], tree_flatten(results)[0]
            if not all(map(same_bits, leaves, repeated_leaves)):
                self._known[key] = None
            return plain
        return results

    def _recorded(self, given: Sequence[Tensor]) -> Function | None:
        try:
            return recorded(self.function, *(x.detach() for x in given))
        except Exception as error:  # whatever PyTorch or the function raises: it works plainly
            raise_interruption(error)
            log.debug("a function is not recorded: %s", error)
            return None


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Returns whether two tensors hold the same bits, but for the kinds of NaN and of zero."""
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def compiled(function: Function, *examples: Tensor) -> Function:
    """Like :func:`recorded`, by :func:`torch.compile`; it rounds differently."""
    graph, spec = _traced(function, examples)
    fused = torch.compile(graph, dynamic=False)

    def repeat(*given: Tensor) -> Any:
        with torch.no_grad():
            return tree_unflatten(list(fused(*given)), spec)

    return repeat


def launched(function: Function, *examples: Tensor) -> Function:
    """Like :func:`recorded`, as a CUDA graph: all operations are launched at once.

    Raises:
        ValueError: if the examples are not on a GPU.
    """
    if not on_a_gpu(examples[0]):
        raise ValueError("a CUDA graph needs a GPU")
    graph, spec = _traced(function, examples)
    fixed = [example.clone() for example in examples]  # a launch reads and writes fixed memory
    results, launch = capture(lambda: graph(*fixed))

    def repeat(*given: Tensor) -> Any:
        with torch.no_grad():
            for buffer, tensor in zip(fixed, given, strict=True):
                buffer.copy_(tensor, non_blocking=True)
            launch()
            return tree_unflatten([result.clone() for result in results], spec)

    return repeat


def on_a_gpu(tensor: Tensor) -> bool:
    """Returns whether a tensor's operations can be captured."""
    return tensor.device.type == "cuda"


def capture(function: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """Captures the work of a function on the GPU; returns its results and what repeats it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):  # libraries set themselves up, which no capture allows
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        results = function()
    return results, graph.replay


Engine = Literal["auto", "plain", "compile", "graph"]
"""How a step is computed; ``auto`` records it where that gives the bits of ``plain``."""
RECORDERS: dict[Engine, Callable[..., Function]] = {
    "auto": recorded,
    "compile": compiled,
    "graph": launched,
}


def _traced(function: Function, examples: Sequence[Tensor]) -> tuple[GraphModule, TreeSpec]:
    """Returns a function's operations, and the structure of its results."""
    specs = []

    def flat(*given: Tensor) -> tuple[Tensor, ...]:
        leaves, spec = tree_flatten(function(*given))
        specs.append(spec)
        return tuple(leaves)

    with torch.no_grad():
        graph = make_fx(flat)(*examples)
    _drop_idle(graph)
    return graph, specs[-1]


def _drop_idle(graph: GraphModule) -> None:
    """Removes operations that give a tensor the shape it has, and those that nobody reads."""
    for node in graph.graph.nodes:
        if node.target not in _IDLE:
            continue
        source = node.args[0]
        before, after = source.meta["val"], node.meta["val"]
        if (before.shape, before.stride()) == (after.shape, after.stride()):
            node.replace_all_uses_with(source)
    graph.graph.eliminate_dead_code()
    graph.recompile()
