"""Number words of 0 to 999, as read aloud: ``five hundred and eighty one``.

The data of section 4.3: 169, 200 and 631 examples, a thousand in all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nalu_ray.errors import did_you_mean
from nalu_ray.seeding import IntArray

_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred
and
"""
VOCABULARY = tuple(_WORDS.split())
ONES, TENS, (HUNDRED, AND) = VOCABULARY[:20], VOCABULARY[20:28], VOCABULARY[28:]

NUMBERS = 1000
LONGEST = 5
TRAIN, VALIDATION, TEST = 169, 200, 631

_PLACES = {word: place for place, word in enumerate(VOCABULARY)}


class UnknownWordError(ValueError):
    """A text that cannot be read; the message says which words can."""


def words(number: int) -> list[str]:
    """Returns the words of a number, 1 to 5 of them.

    Raises:
        ValueError: it is not of 0 to 999.
    """
    if not 0 <= number < NUMBERS:
        raise ValueError(f"number must be of 0 to {NUMBERS - 1}, got {number}")
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return [ONES[hundreds], HUNDRED, *([AND, *words(rest)] if rest else [])]
    if number < len(ONES):
        return [ONES[number]]
    tens, ones = divmod(number, 10)
    return [TENS[tens - 2], *([ONES[ones]] if ones else [])]


def tokenise(text: str) -> list[str]:
    """Returns the words of a text in lower case; spaces and hyphens separate them.

    Raises:
        UnknownWordError: a word is not of the vocabulary, or there is none at all.
    """
    found = [word for word in re.split(r"[\s-]+", text.lower()) if word]
    if not found:
        raise UnknownWordError(f"no word to read; the vocabulary is: {', '.join(VOCABULARY)}")
    for word in found:
        if word not in _PLACES:
            raise UnknownWordError(did_you_mean("word", word, VOCABULARY))
    return found


def encode(sequences: Sequence[Sequence[str]]) -> tuple[IntArray, IntArray]:
    """Returns places in the vocabulary, (N, L), 0 after the last word, and lengths, (N,).

    Raises:
        ValueError: a sequence has no word.
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    if not lengths.all():
        raise ValueError(f"sequence {int(lengths.argmin())} has no word")
    tokens = np.zeros((len(sequences), int(lengths.max(initial=0))), np.int64)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = [_PLACES[word] for word in sequence]
    return tokens, lengths


@dataclass(frozen=True)
class Split:
    """The numbers 0 to 999, each in one part: (169,), (200,) and (631,), ascending."""

    train: IntArray
    validation: IntArray
    test: IntArray


def split(generator: np.random.Generator) -> Split:
    """Deals the numbers out: 0 to 19 to training, the others at random.

    It is repeated until every word occurs in training (section 4.3), which hardly ever takes a
    second time.
    """
    always, others = np.split(np.arange(NUMBERS), [len(ONES)])
    while True:
        dealt = generator.permutation(others)
        train, validation, test = np.split(
            dealt, [TRAIN - len(ONES), TRAIN - len(ONES) + VALIDATION]
        )
        train = np.concatenate([always, train])
        if len({word for number in train for word in words(int(number))}) == len(VOCABULARY):
            return Split(*(np.sort(part) for part in (train, validation, test)))
