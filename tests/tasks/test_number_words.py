"""Number words against num2words, how texts are read, and how numbers are dealt out."""

from __future__ import annotations

import numpy as np
import pytest

from nalu_ray.tasks.language.data import (
    NUMBERS,
    VOCABULARY,
    UnknownWordError,
    encode,
    split,
    tokenise,
    words,
)

EVERY = [words(number) for number in range(NUMBERS)]


def test_as_num2words_says() -> None:
    num2words = pytest.importorskip("num2words").num2words
    assert [tokenise(num2words(number)) for number in range(NUMBERS)] == EVERY


def test_by_hand() -> None:
    texts = {
        0: "zero",
        12: "twelve",
        40: "forty",
        81: "eighty one",
        300: "three hundred",
        110: "one hundred and ten",
        515: "five hundred and fifteen",
        999: "nine hundred and ninety nine",
    }
    assert {number: " ".join(words(number)) for number in texts} == texts


def test_thirty_words_in_sequences_of_one_to_five() -> None:
    assert len(VOCABULARY) == 30
    assert {word for row in EVERY for word in row} == set(VOCABULARY)
    assert np.bincount([len(row) for row in EVERY]).tolist() == [0, 28, 81, 0, 243, 648]
    assert len(set(map(tuple, EVERY))) == NUMBERS


@pytest.mark.parametrize("number", [-1, 1000])
def test_numbers_without_words(number: int) -> None:
    with pytest.raises(ValueError, match=f"in 0 to 999, got {number}"):
        words(number)


@pytest.mark.parametrize(
    "text",
    [
        "five hundred and eighty one",
        "Five  HUNDRED and eighty-one",
        " five-hundred\tand-eighty-one-",
    ],
)
def test_spaces_and_hyphens_separate(text: str) -> None:
    assert tokenise(text) == words(581)


@pytest.mark.parametrize("text", ["", "  ", "-"])
def test_a_text_without_words(text: str) -> None:
    with pytest.raises(UnknownWordError, match="text has no words; the vocabulary is zero, one, "):
        tokenise(text)


def test_a_word_that_is_none_of_the_vocabulary() -> None:
    with pytest.raises(UnknownWordError, match="Did you mean 'forty'") as caught:
        tokenise("fourty two")
    assert all(word in str(caught.value) for word in VOCABULARY)


def test_encoding() -> None:
    tokens, lengths = encode([["two"], ["zero", "hundred", "and"]])
    assert tokens.tolist() == [[2, 0, 0], [0, 28, 29]]
    assert lengths.tolist() == [1, 3]


def test_an_empty_sequence_is_named() -> None:
    with pytest.raises(ValueError, match="sequence 1 has no word"):
        encode([["two"], []])


@pytest.mark.parametrize("seed", range(20))
def test_split(seed: int) -> None:
    parts = split(np.random.default_rng(seed))
    sizes = [len(part) for part in (parts.train, parts.validation, parts.test)]
    assert sizes == [169, 200, 631]
    everything = np.concatenate([parts.train, parts.validation, parts.test])
    assert sorted(everything) == list(range(NUMBERS))
    assert parts.train[:20].tolist() == list(range(20))
    assert {word for number in parts.train for word in EVERY[number]} == set(VOCABULARY)
    # the rest is spread over the interval
    assert abs(parts.validation.mean() - 510) < 80


def test_split_again_and_other() -> None:
    first, again, other = (split(np.random.default_rng(seed)).test for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_a_split_that_lacks_a_word_is_dealt_again() -> None:
    class Unlucky:
        """Deals the numbers in order first: no hundred in the first 149 is above one hundred."""

        calls = 0

        def permutation(self, numbers: np.ndarray) -> np.ndarray:
            self.calls += 1
            # numbers that end in 0 to 19 hold no twenty to ninety
            low = numbers[np.argsort(numbers % 100 >= 20, kind="stable")]
            return low if self.calls == 1 else np.random.default_rng(0).permutation(numbers)

    generator = Unlucky()
    parts = split(generator)  # type: ignore[arg-type]
    assert generator.calls == 2
    assert {word for number in parts.train for word in EVERY[number]} == set(VOCABULARY)
