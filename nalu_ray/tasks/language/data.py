"""The numbers 0 to 999 in words, as read aloud: ``five hundred and eighty one`` (section 4.3)."""

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

_TOKENS = {word: token for token, word in enumerate(VOCABULARY)}


class UnknownWordError(ValueError):
    """A text has unknown words or none; the message names the vocabulary."""


def words(number: int) -> list[str]:
    """Returns the one to five words of a number.

    Raises:
        ValueError: the number is not in 0 to 999.
    """
    if not 0 <= number < NUMBERS:
        raise ValueError(f"number must be in 0 to {NUMBERS - 1}, got {number}")
    hundreds, remainder = divmod(number, 100)
    if hundreds:
        return [ONES[hundreds], HUNDRED, *([AND, *words(remainder)] if remainder else [])]
    if number < len(ONES):
        return [ONES[number]]
    tens, ones = divmod(number, 10)
    return [TENS[tens - 2], *([ONES[ones]] if ones else [])]


def tokenise(text: str) -> list[str]:
    """Returns the words of a text in lower case; spaces and hyphens separate them.

    Raises:
        UnknownWordError: a word is not in the vocabulary, or the text is empty.
    """
    spoken = [word for word in re.split(r"[\s-]+", text.lower()) if word]
    if not spoken:
        raise UnknownWordError(f"text has no words; the vocabulary is {', '.join(VOCABULARY)}")
    for word in spoken:
        if word not in _TOKENS:
            raise UnknownWordError(did_you_mean("word", word, VOCABULARY))
    return spoken


def encode(sequences: Sequence[Sequence[str]]) -> tuple[IntArray, IntArray]:
    """Returns tokens, (N, L), padded with 0, and lengths, (N,), of N sequences of words.

    Raises:
        ValueError: a sequence has no word.
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    if not lengths.all():
        raise ValueError(f"sequence {int(lengths.argmin())} has no word")
    tokens = np.zeros((len(sequences), int(lengths.max(initial=0))), np.int64)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = [_TOKENS[word] for word in sequence]
    return tokens, lengths


@dataclass(frozen=True)
class Split:
    """The numbers 0 to 999, each in one set: (169,), (200,) and (631,), ascending."""

    train: IntArray
    validation: IntArray
    test: IntArray


def split(generator: np.random.Generator) -> Split:
    """Divides the numbers at random; 0 to 19 always go to training.

    The division is repeated until every word occurs in training (section 4.3), which rarely takes a
    second try.
    """
    always, larger_numbers = np.split(np.arange(NUMBERS), [len(ONES)])
    while True:
        dealt = generator.permutation(larger_numbers)
        train, validation, test = np.split(
            dealt, [TRAIN - len(ONES), TRAIN - len(ONES) + VALIDATION]
        )
        train = np.concatenate([always, train])
        if len({word for number in train for word in words(int(number))}) == len(VOCABULARY):
            return Split(*(np.sort(part) for part in (train, validation, test)))
