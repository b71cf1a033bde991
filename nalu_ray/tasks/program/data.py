"""Short programs of integers (sums, differences, conditional expressions) as token sequences.

The generator follows the data set "learn to execute" of the same laboratory and year, with its
operations of algebra and control (google-deepmind/sonnet, ``examples/learn_to_execute.py``, after
Zaremba and Sutskever, 2014). ``nesting`` rounds each pick +, - or ``if`` with equal chances (then
< or >), take the result so far as their first operand and fresh numbers as the others::

    ( ( 31 + 4 ) if 15 < 92 else 65 ) - 35

Two things differ: numbers come from any range, and the result is not reduced modulo a power of ten,
which would wrap negative results and leave nothing to extrapolate.

A program's *form* is all but its numbers. There are 6^nesting equally likely ones, so each is
laid out once, and a batch is drawn, laid out and evaluated by indexing, without a loop over it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nalu_ray.seeding import FloatArray, IntArray, Streams

SYMBOLS = ("NUM", "+", "-", "if", "<", ">", "else", "(", ")", "END")
FEATURES = len(SYMBOLS) + 1
MAX_NESTING = 3
MAX_DIGITS = 6  # sums of sixteen such numbers are exact in float32

ADDITION = ("+",)
PROGRAM = ("+", "+", "-", "-", "<", ">")
"""Operations of a round, repeated where they are to be picked more often; < and > are an if."""

_PADDING = len(SYMBOLS)
_NOTHING = -1
# a row a symbol, then padding's, whose 1 is where the number is put
_ONE_HOT = np.eye(len(SYMBOLS) + 1, FEATURES, dtype=np.float32)
_PER_ROUND = 3  # fresh numbers that a round may need
_APPLY = ("+", "-", "<", ">")


@dataclass(frozen=True)
class Programs:
    """Programs of any leading shape, of up to L tokens.

    Attributes:
        symbols: (..., L) places in ``SYMBOLS``; ``len(SYMBOLS)`` after a program's END.
        numbers: (..., L) the integer where the symbol is NUM, else 0.
        lengths: (...) tokens of each, END included.
        values: (...) results.
    """

    symbols: IntArray
    numbers: IntArray
    lengths: IntArray
    values: IntArray


@dataclass(frozen=True)
class _Forms:
    """Every form of F: its tokens, the number that each NUM shows, and its operations.

    ``symbols``, ``slots``: (F, L); ``lengths``: (F,); ``rounds``: (F, nesting), places in _APPLY.
    """

    symbols: IntArray
    slots: IntArray
    lengths: IntArray
    rounds: IntArray


def draw(
    streams: Streams,
    count: int,
    low: int,
    high: int,
    *,
    nesting: int = 2,
    operations: tuple[str, ...] = PROGRAM,
) -> Programs:
    """Draws programs, (R, count), whose numbers are integers of [low, high).

    Args:
        streams: of R seeds.
        count: programs of each seed.
        low, high: range of the numbers.
        nesting: rounds, 1 to ``MAX_NESTING``.
        operations: ``PROGRAM``, or ``ADDITION`` for sums only.

    Raises:
        ValueError: if nesting is out of range, or the range of numbers empty or negative.
    """
    if not 1 <= nesting <= MAX_NESTING:
        raise ValueError(f"nesting must be 1 to {MAX_NESTING}, got {nesting}")
    if not 0 <= low < high:
        raise ValueError(f"numbers must be of 0 <= low < high, got [{low}, {high})")
    forms = _forms(nesting, operations)
    form = streams.integers((count,), 0, len(forms.lengths))
    literals = streams.integers((count, 1 + _PER_ROUND * nesting), low, high)
    # one 0 more, last, for tokens that show no number
    shown = np.concatenate([literals, np.zeros_like(literals[..., :1])], axis=-1)
    return Programs(
        symbols=forms.symbols[form],
        numbers=np.take_along_axis(shown, forms.slots[form], axis=-1),
        lengths=forms.lengths[form],
        values=_evaluate(forms.rounds[form], literals),
    )


def encode(programs: Programs) -> FloatArray:
    """Returns what a network reads, (..., L, FEATURES): the symbol one-hot, then the number."""
    x: FloatArray = _ONE_HOT.take(programs.symbols, axis=0)
    x[..., -1] = programs.numbers
    return x


def render(symbols: NDArray[Any], numbers: NDArray[Any]) -> str:
    """Returns the text of one program, (L,) each, without END: a Python expression."""
    tokens = itertools.takewhile(
        lambda token: token != "END", (SYMBOLS[symbol] for symbol in symbols if symbol < _PADDING)
    )
    shown = zip(tokens, numbers, strict=False)
    return " ".join(str(number) if token == "NUM" else token for token, number in shown)


def _evaluate(rounds: IntArray, literals: IntArray) -> IntArray:
    """Results, (...), of rounds, (..., nesting), over literals, (..., 1 + 3 nesting)."""
    value = literals[..., 0]
    for place in range(rounds.shape[-1]):
        start = 1 + _PER_ROUND * place
        a, b, c = (literals[..., start + i] for i in range(_PER_ROUND))
        results = [value + a, value - a, np.where(a < b, value, c), np.where(a > b, value, c)]
        value = np.choose(rounds[..., place], results)
    return value


@functools.cache
def _forms(nesting: int, operations: tuple[str, ...]) -> _Forms:
    chosen = list(itertools.product(operations, repeat=nesting))
    laid_out = [list(_tokens(form)) for form in chosen]
    longest = max(map(len, laid_out))
    symbols = np.full((len(chosen), longest), _PADDING)
    slots = np.full((len(chosen), longest), _NOTHING)
    for place, tokens in enumerate(laid_out):
        symbols[place, : len(tokens)] = [SYMBOLS.index(token) for token, _ in tokens]
        slots[place, : len(tokens)] = [slot for _, slot in tokens]
    return _Forms(
        symbols=symbols,
        slots=slots % (2 + _PER_ROUND * nesting),
        lengths=np.array([len(tokens) for tokens in laid_out]),
        rounds=np.array([[_APPLY.index(name) for name in form] for form in chosen]),
    )


def _tokens(form: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Lays out a form: each token, and which literal it shows."""
    for _ in form[1:]:
        yield "(", _NOTHING
    yield "NUM", 0
    for place, name in enumerate(form):
        a = 1 + _PER_ROUND * place
        if place:
            yield ")", _NOTHING
        if name in ("+", "-"):
            yield from ((name, _NOTHING), ("NUM", a))
        else:
            yield from (("if", _NOTHING), ("NUM", a), (name, _NOTHING), ("NUM", a + 1))
            yield from (("else", _NOTHING), ("NUM", a + 2))
    yield "END", _NOTHING
