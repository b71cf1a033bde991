"""Generated programs against an evaluator that knows nothing of the generator: Python's own."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import NDArray

from nalu_ray.seeding import Streams
from nalu_ray.tasks.program.data import (
    ADDITION,
    FEATURES,
    HINTS,
    MAX_DIGITS,
    MAX_NESTING,
    SYMBOLS,
    Programs,
    draw,
    encode,
    render,
)


def programs(
    count: int, nesting: int = 2, low: int = 0, high: int = 100, seed: int = 0, **options: object
) -> Programs:
    streams = Streams("program", [seed], "test")
    return draw(streams, count, low, high, nesting=nesting, **options)  # type: ignore[arg-type]


def texts(found: Programs) -> list[str]:
    return [
        render(symbols, numbers)
        for symbols, numbers in zip(found.symbols[0], found.numbers[0], strict=True)
    ]


@pytest.mark.parametrize("nesting", range(1, MAX_NESTING + 1))
@pytest.mark.parametrize(("low", "high"), [(0, 100), (100, 1000), (1000, 10_000), (0, 4)])
def test_values_are_those_of_the_rendered_expression(nesting: int, low: int, high: int) -> None:
    found = programs(3000, nesting, low, high)
    for text, value in zip(texts(found), found.values[0].tolist(), strict=True):
        assert eval(text) == value, text


def test_numbers_are_of_the_range_and_reach_its_ends() -> None:
    for low, high in ((0, 100), (100, 1000), (1000, 10_000)):
        shown = [int(number) for text in texts(programs(20_000, 3, low, high))
                 for number in re.findall(r"\d+", text)]  # fmt: skip
        assert (min(shown), max(shown)) == (low, high - 1)
        assert np.mean(shown) == pytest.approx((low + high - 1) / 2, rel=0.01)


def by_stack(rng: np.random.Generator, nesting: int) -> tuple[str, int]:
    """One program as the original generator's description has it, with a stack of results."""
    stack: list[str] = []

    def operand() -> str:
        return f"( {stack.pop()} )" if stack else str(rng.integers(100))

    for _ in range(nesting):
        kind, mark = rng.choice(["+", "-", "if"]), rng.choice(["<", ">"])
        a, b = operand(), operand()
        text = (
            f"{a} if {b} {mark} {operand()} else {operand()}" if kind == "if" else f"{a} {kind} {b}"
        )
        stack.append(text)
    return stack[0], eval(stack[0])


@pytest.mark.parametrize(("nesting", "shortest", "longest"), [(1, 3, 7), (2, 7, 15), (3, 11, 23)])
def test_distribution_is_that_of_the_stack_rule(nesting: int, shortest: int, longest: int) -> None:
    found = programs(20_000, nesting)
    rng = np.random.default_rng(nesting)
    expected = [by_stack(rng, nesting) for _ in range(8000)]
    lengths = np.array([len(text.split()) for text, _ in expected])
    values = np.array([value for _, value in expected])
    assert (lengths.min(), lengths.max()) == (shortest, longest)
    assert found.symbols.shape[-1] == longest + 1  # END
    for length in range(shortest, longest + 1):
        assert np.mean(found.lengths - 1 == length) == pytest.approx(
            np.mean(lengths == length), abs=0.02
        )
    assert np.mean(found.values < 0) == pytest.approx(np.mean(values < 0), abs=0.02)
    assert np.mean(found.values) == pytest.approx(np.mean(values), abs=0.06 * np.std(values))
    assert np.std(found.values) == pytest.approx(np.std(values), rel=0.03)
    for text, length in zip(texts(found)[:500], found.lengths[0, :500], strict=True):
        assert len(text.split()) == length - 1


def test_operations_are_equally_likely_in_every_round() -> None:
    found = texts(programs(30_000, 2))
    first, second = zip(*(re.split(r"\)", text[2:]) for text in found), strict=True)
    for part in (first, second):
        shares = [np.mean([mark in text for text in part]) for mark in ("+", "-", "<", ">")]
        assert shares == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6], abs=0.015)


def test_the_result_so_far_is_the_first_operand() -> None:
    round_ = r"(?:[+-] \d+|if \d+ [<>] \d+ else \d+)"
    pattern = re.compile(rf"\( \( \d+ {round_} \) {round_} \) {round_}")
    assert all(pattern.fullmatch(text) for text in texts(programs(2000, 3)))


def test_addition_is_of_two_numbers() -> None:
    found = programs(1000, 1, operations=ADDITION)
    assert all(re.fullmatch(r"\d+ \+ \d+", text) for text in texts(found))
    assert set(found.lengths[0]) == {4}
    assert found.symbols[0, 0].tolist() == [SYMBOLS.index(s) for s in ("NUM", "+", "NUM", "END")]


def decoded(x: NDArray[np.float32]) -> str:
    """The text of what a network reads, token by token."""
    words = []
    for step in x:
        (hot,) = np.flatnonzero(step[:-1])
        assert step[hot] == 1
        words.append(str(int(step[-1])) if SYMBOLS[hot] == "NUM" else SYMBOLS[hot])
        assert SYMBOLS[hot] == "NUM" or step[-1] == 0
    assert words.pop() == "END"
    return " ".join(words)


def test_encoding_is_one_symbol_and_a_number_a_step_and_nothing_on_padding() -> None:
    found = programs(200, 3, 1000, 10_000)
    x = encode(found)
    assert x.shape == (1, 200, 24, FEATURES)
    assert x.dtype == np.float32
    for row, length, text in zip(x[0], found.lengths[0], texts(found), strict=True):
        assert decoded(row[:length]) == text
        assert not row[length:].any()


def test_a_seeds_programs_do_not_depend_on_its_block() -> None:
    block = draw(Streams("program", [4, 7, 9], "test"), 50, 0, 100)
    alone = draw(Streams("program", [7], "test"), 50, 0, 100)
    for name in ("symbols", "numbers", "lengths", "values"):
        np.testing.assert_array_equal(getattr(block, name)[1], getattr(alone, name)[0])
    assert not np.array_equal(block.numbers[0], block.numbers[1])


def test_the_largest_results_are_exact_in_float32() -> None:
    high = 10**MAX_DIGITS
    largest = (1 + MAX_NESTING) * (high - 1)
    assert int(np.float32(largest)) == largest
    assert int(np.float32(largest - 1)) == largest - 1


@pytest.mark.parametrize("nesting", [0, MAX_NESTING + 1])
def test_nesting_out_of_range(nesting: int) -> None:
    with pytest.raises(ValueError, match=f"nesting must be 1 to {MAX_NESTING}, got {nesting}"):
        programs(1, nesting)


@pytest.mark.parametrize(("low", "high"), [(5, 5), (-1, 5)])
def test_impossible_numbers(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="range of numbers must have 0 <= low < high"):
        programs(1, 2, low, high)


def test_hints_are_signs_of_numbers_and_of_their_differences_from_the_number_before() -> None:
    for low, high in ((0, 4), (100, 1000)):
        found = programs(500, 3, low, high)
        x, plain = encode(found, hints=True), encode(found)
        assert x.shape[-1] == FEATURES + HINTS
        without = np.delete(x, np.s_[FEATURES - 1 : FEATURES - 1 + HINTS], axis=-1)
        np.testing.assert_array_equal(without, plain)
        for text, hints in zip(texts(found), x[0, ..., -3:-1], strict=True):
            before, expected = 0, []
            for token in text.split():
                number = int(token) if token.isdigit() else None
                expected.append(
                    (0, 0) if number is None else (np.sign(number), np.sign(number - before))
                )
                before = before if number is None else number
            np.testing.assert_array_equal(hints[: len(expected)], expected)
            assert not hints[len(expected) :].any()
