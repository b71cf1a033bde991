"""Short programs of integers (sums, differences, conditional expressions) as token sequences.

The generator follows the data set "learn to execute" of the same laboratory and year, with its
operations of algebra and control (google-deepmind/sonnet, ``examples/learn_to_execute.py``, after
Zaremba and Sutskever, 2014). Each of ``nesting`` rounds picks +, - or ``if`` (with < or >) with
equal probability. It takes the result so far as its first operand, and new numbers as the others::

    ( ( 31 + 4 ) if 15 < 92 else 65 ) - 35

It differs in two ways: numbers come from any range, and the result is not reduced modulo a power of
ten, which would wrap negative results and leave nothing to extrapolate.

The *form* of a program is everything but its numbers. There are 6^nesting equally likely forms,
laid out once, so a batch is drawn and evaluated by indexing, without a loop over its programs.
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
HINTS = 2
MAX_NESTING = 3
MAX_DIGITS = 6  # sums of sixteen such numbers are exact in float32

ADDITION = ("+",)
PROGRAM = ("+", "+", "-", "-", "<", ">")
"""Operations of a round, repeated by their probability; < and > stand for an if."""

_PADDING = len(SYMBOLS)
_NOTHING = -1
# one row per symbol, then the row of padding; its 1 is overwritten by the number
_ONE_HOT = np.eye(len(SYMBOLS) + 1, FEATURES, dtype=np.float32)
_PER_ROUND = 3  # numbers that a round needs at most
_APPLY = ("+", "-", "<", ">")


@dataclass(frozen=True)
class Programs:
    """Programs of any leading shape, of up to L tokens.

    Attributes:
        symbols: (..., L) indices into ``SYMBOLS``; ``len(SYMBOLS)`` after a program's END.
        numbers: (..., L) the integer of a NUM, else 0.
        lengths: (...) tokens per program, END included.
        values: (...) results.
    """

    symbols: IntArray
    numbers: IntArray
    lengths: IntArray
    values: IntArray


@dataclass(frozen=True)
class _Forms:
    """All F forms of programs.

    Attributes:
        symbols: (F, L) tokens.
        slots: (F, L) index of the number that each NUM shows.
        lengths: (F,) tokens per form.
        rounds: (F, nesting) operations, as indices into ``_APPLY``.
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
        streams: random numbers of R seeds.
        count: programs per seed.
        low, high: range of the numbers.
        nesting: rounds, 1 to ``MAX_NESTING``.
        operations: ``PROGRAM``, or ``ADDITION`` for sums only.

    Raises:
        ValueError: nesting is out of range, or the range of numbers is empty or negative.
    """
    if not 1 <= nesting <= MAX_NESTING:
        raise ValueError(f"nesting must be 1 to {MAX_NESTING}, got {nesting}")
    if not 0 <= low < high:
        raise ValueError(f"range of numbers must have 0 <= low < high, got [{low}, {high})")
    forms = _forms(nesting, operations)
    form = streams.integers((count,), 0, len(forms.lengths))
    literals = streams.integers((count, 1 + _PER_ROUND * nesting), low, high)
    # a last 0 for tokens that show no number
    shown = np.concatenate([literals, np.zeros_like(literals[..., :1])], axis=-1)
    return Programs(
        symbols=forms.symbols[form],
        numbers=np.take_along_axis(shown, forms.slots[form], axis=-1),
        lengths=forms.lengths[form],
        values=_evaluate(forms.rounds[form], literals),
    )


def encode(programs: Programs, *, hints: bool = False) -> FloatArray:
    """Encodes programs as one-hot symbols and numbers, (..., L, FEATURES).

    With ``hints``, :func:`compare` stands between them, (..., L, FEATURES + HINTS).
    """
    x: FloatArray = _ONE_HOT.take(programs.symbols, axis=0)
    x[..., -1] = programs.numbers
    if hints:
        x = np.concatenate([x[..., :-1], compare(programs), x[..., -1:]], -1)
    return x


def compare(programs: Programs) -> FloatArray:
    """Returns the signs of each NUM and of its difference from the NUM before, (..., L, HINTS).

    Zeros stand beside other tokens; the number before the first counts as 0.
    """
    shown = programs.symbols == SYMBOLS.index("NUM")
    position = np.where(shown, np.arange(shown.shape[-1]), 0)
    # the last token with a number before each token; a program's first token shows its number, or
    # is a bracket, whose number is 0
    before = np.maximum.accumulate(position, -1)
    before = np.concatenate([np.zeros_like(before[..., :1]), before[..., :-1]], -1)
    numbers = programs.numbers
    difference = numbers - np.take_along_axis(numbers, before, -1)
    difference[..., 0] = numbers[..., 0]
    signs: FloatArray = np.stack([np.sign(numbers), np.sign(difference)], -1).astype(np.float32)
    signs[~shown] = 0
    return signs


def render(symbols: NDArray[Any], numbers: NDArray[Any]) -> str:
    """Returns a program, (L,) symbols and numbers, as a Python expression."""
    tokens = itertools.takewhile(
        lambda token: token != "END", (SYMBOLS[symbol] for symbol in symbols if symbol < _PADDING)
    )
    shown = zip(tokens, numbers, strict=False)
    return " ".join(str(number) if token == "NUM" else token for token, number in shown)


def _evaluate(rounds: IntArray, literals: IntArray) -> IntArray:
    """Evaluates rounds, (..., nesting), on literals, (..., 1 + 3 nesting), to results, (...)."""
    value = literals[..., 0]
    for step in range(rounds.shape[-1]):
        start = 1 + _PER_ROUND * step
        a, b, c = (literals[..., start + i] for i in range(_PER_ROUND))
        results = [value + a, value - a, np.where(a < b, value, c), np.where(a > b, value, c)]
        value = np.choose(rounds[..., step], results)
    return value


@functools.cache
def _forms(nesting: int, operations: tuple[str, ...]) -> _Forms:
    chosen = list(itertools.product(operations, repeat=nesting))
    laid_out = [list(_tokens(form)) for form in chosen]
    longest = max(map(len, laid_out))
    symbols = np.full((len(chosen), longest), _PADDING)
    slots = np.full((len(chosen), longest), _NOTHING)
    for row, tokens in enumerate(laid_out):
        symbols[row, : len(tokens)] = [SYMBOLS.index(token) for token, _ in tokens]
        slots[row, : len(tokens)] = [slot for _, slot in tokens]
    return _Forms(
        symbols=symbols,
        slots=slots % (2 + _PER_ROUND * nesting),
        lengths=np.array([len(tokens) for tokens in laid_out]),
        rounds=np.array([[_APPLY.index(name) for name in form] for form in chosen]),
    )


def _tokens(form: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yields the tokens of a form, each with the index of the literal it shows."""
    for _ in form[1:]:
        yield "(", _NOTHING
    yield "NUM", 0
    for step, name in enumerate(form):
        a = 1 + _PER_ROUND * step
        if step:
            yield ")", _NOTHING
        if name in ("+", "-"):
            yield from ((name, _NOTHING), ("NUM", a))
        else:
            yield from (("if", _NOTHING), ("NUM", a), (name, _NOTHING), ("NUM", a + 1))
            yield from (("else", _NOTHING), ("NUM", a + 2))
    yield "END", _NOTHING
