"""Translating number words into numbers (section 4.3, appendix D).

``five hundred and fifteen`` is 515. Of the numbers 0 to 999, 169 train, among them 0 to 19 and
every word at least once, 200 select and 631 test. Every step is over the whole training set.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.seeding import Streams, generator
from nalu_ray.task import Batch
from nalu_ray.tasks.language import data as number_words
from nalu_ray.tasks.language.network import LINEAR, LanguageNetwork, LanguageSetting
from nalu_ray.training.metrics import (
    mean_absolute_error,
    mean_over_examples,
    mean_squared_error,
)
from nalu_ray.training.supervised import SupervisedTask

SPLITS = {"train": "Train", "validation": "Validation", "test": "Test"}
COMBINE = {"last": "final state", "sum": "summed states", "recurrent": "recurrent head"}
MODELS = Axis(
    field="head",
    labels={LINEAR: "LSTM", "nac": "LSTM + NAC", "nalu": "LSTM + NALU"},
    published={LINEAR: "lstm", "nac": "lstm_nac", "nalu": "lstm_nalu"},
)
# the paper has one column; which of the ways its NAC and NALU took, it does not say
COLUMNS = Axis(field="combine", labels=COMBINE, published=dict.fromkeys(COMBINE, "mae"))
PROBLEM = ("division",)
WORDS = {
    "division": {
        "fixed": "one division into training, validation and test for all seeds",
        "seed": "each seed its own division into training, validation and test",
    }
}
RULE = Selection(metric="mae", split="validation")
ERRORS = {
    split: Measure(metric="mae", split=split, label=label, format=".3g")
    for split, label in SPLITS.items()
}


class LanguageTask(SupervisedTask[LanguageSetting]):
    """Section 4.3: language to number translation."""

    name = "language"
    title = "Language to number translation"
    section = "4.3"
    setting_type = LanguageSetting
    axes = ("head", "combine")
    splits: ClassVar[tuple[str, ...]] = tuple(SPLITS)
    keep = RULE
    tables = (
        TableSpec(
            name="language",
            number=3,
            caption="Translating number words, {division}: mean absolute error, by what the head "
            "over the LSTM reads. The published LSTM sums states; of NAC and NALU the paper does "
            "not say it.",
            rows=MODELS,
            columns=COLUMNS,
            measures=ERRORS,
            layout="subrows",
            selection=RULE,
            models="rows",
            words=WORDS,
            problem=PROBLEM,
        ),
        TableSpec(
            name="language_states",
            number=11,
            caption="Translating number words with an LSTM and a linear layer, {division}: mean "
            "absolute error from the final state and from the sum of states.",
            rows=Axis(
                field="combine",
                labels={way: f"LSTM, {COMBINE[way]}" for way in ("last", "sum")},
                others=False,
                published={"last": "lstm_final", "sum": "lstm_summed"},
            ),
            columns=Axis(
                field="head", labels={LINEAR: "MAE"}, others=False, published={LINEAR: "mae"}
            ),
            measures=ERRORS,
            layout="subrows",
            selection=RULE,
            models="rows",
            words=WORDS,
            problem=PROBLEM,
        ),
        TableSpec(
            name="language_exact",
            caption="Numbers that are right once rounded, {division}, in percent.",
            rows=MODELS,
            columns=COLUMNS,
            measures={
                split: Measure(metric="exact", split=split, label=label, scale=100, better="higher")
                for split, label in SPLITS.items()
            },
            layout="subrows",
            selection=RULE,
            models="rows",
            words=WORDS,
            problem=PROBLEM,
        ),
    )
    figures = (
        FigureSpec(
            name="language_learning",
            caption="Test error while training, {division}.",
            metric="mae",
            split="test",
            x="step",
            lines=MODELS,
            panels=COLUMNS,
            statistic="median",
            selection=RULE,
            x_label="training step",
            y_label="mean absolute error",
            log_y=True,
            words=WORDS,
            problem=PROBLEM,
        ),
    )

    def build(self, setting: LanguageSetting) -> nn.Module:
        return LanguageNetwork(setting)

    def sample(self, setting: LanguageSetting, split: str, streams: Streams) -> Batch:
        """The whole of a part, also for training: every step is over all of it (App. D)."""
        return _part(streams.seeds, setting.division, split)

    def loss(self, setting: LanguageSetting, prediction: Tensor, target: Tensor) -> Tensor:
        error = prediction - target
        each = error.abs() if setting.loss == "mae" else error.square()
        return each.flatten(1).mean(1)

    def metrics(
        self, setting: LanguageSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        right = (prediction.round() == target).to(prediction.dtype)
        return {
            "mae": mean_absolute_error(prediction, target),
            "mse": mean_squared_error(prediction, target),
            "exact": mean_over_examples(right),
        }

    def memory(self, setting: LanguageSetting, seeds: int) -> int:
        """What the backward pass keeps of each training step, and the test set's outputs."""
        words = number_words.LONGEST * max(2 * number_words.TRAIN, number_words.TEST)
        return 4 * seeds * words * (16 * setting.hidden + 8 * setting.registers)

    def words(self, text: str) -> list[str]:
        """Returns the words of a text.

        Raises:
            UnknownWordError: a word is not of the vocabulary, or there is none at all.
        """
        return number_words.tokenise(text)

    def after_each(
        self, setting: LanguageSetting, weights: dict[str, Tensor], words: Sequence[str]
    ) -> list[float]:
        """Returns what a trained network says after each word (Figure 3)."""
        network = LanguageNetwork(setting)
        network.load_state_dict(weights)
        tokens, lengths = map(torch.from_numpy, number_words.encode([words]))
        with torch.no_grad():
            numbers: list[float] = network.after_each(tokens, lengths).flatten().tolist()
        return numbers

    def unseen(
        self, setting: LanguageSetting, seed: int, count: int
    ) -> list[tuple[list[str], float]]:
        """Returns up to ``count`` random test numbers of a seed as words and values."""
        targets = _part((seed,), setting.division, "test").targets.flatten()
        order = generator(self.name, seed, "examples").permutation(len(targets))[:count]
        return [(number_words.words(int(n)), float(n)) for n in targets[order].tolist()]


@functools.lru_cache(maxsize=16)
def _part(seeds: tuple[int, ...], division: str, name: str) -> Batch:
    """The numbers of a part as words, (R or 1, N, 5), their counts, (R or 1, N), and targets."""
    shared = division == "fixed"
    generators = Streams(TASK.name, seeds, "split", shared=shared).generators
    numbers = np.stack([getattr(number_words.split(rng), name) for rng in generators])
    rows = [number_words.words(number) for number in numbers.flatten().tolist()]
    tokens, lengths = map(torch.from_numpy, number_words.encode(rows))
    targets = torch.from_numpy(numbers).float()[..., None]
    return Batch(
        (tokens.unflatten(0, numbers.shape), lengths.unflatten(0, numbers.shape)),
        targets.expand(len(seeds), -1, -1),
        shared,
    )


TASK = LanguageTask()
