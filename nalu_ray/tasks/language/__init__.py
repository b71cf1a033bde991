"""Translating number words into numbers (section 4.3, appendix D).

``five hundred and fifteen`` is 515. The numbers 0 to 999 are divided into 169 for training, 200 for
validation and 631 for testing. Training has 0 to 19 and every word at least once, and each step
uses the whole training set.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from nalu_ray.results.specs import Axis, Measure, Selection, TableSpec, learning_figure
from nalu_ray.seeding import Streams, generator
from nalu_ray.task import Batch
from nalu_ray.tasks._recurrent_models import CONTROLS, by_memory
from nalu_ray.tasks.language import data as number_words
from nalu_ray.tasks.language.network import LINEAR, LanguageNetwork, LanguageSetting
from nalu_ray.training.metrics import (
    constant_errors,
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
    more={name: f"LSTM + {label}" for name, label in CONTROLS.items()},
    published={LINEAR: "lstm", "nac": "lstm_nac", "nalu": "lstm_nalu"},
    **by_memory({"nac": "LSTM + NAC", "nalu": "LSTM + NALU"}),
)
# the paper has one column and does not say how its NAC and NALU combine outputs
COLUMNS = Axis(field="combine", labels=COMBINE, published=dict.fromkeys(COMBINE, "mae"))
PROBLEM = ("division",)
WORDS = {
    "division": {
        "fixed": "with one split into training, validation and test for all seeds",
        "seed": "with a separate split into training, validation and test per seed",
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
    unit_labels: ClassVar[Mapping[str, str]] = {"head": "LSTM + {}"}
    splits: ClassVar[tuple[str, ...]] = tuple(SPLITS)
    keep = RULE
    tables = (
        TableSpec(
            name="language",
            number=3,
            caption="Mean absolute error of translating number words, {division}, by the "
            "input of the head over the LSTM. The published LSTM reads summed states; the paper "
            "does not say what its NAC and NALU read.",
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
            caption="Mean absolute error of translating number words with an LSTM and a linear "
            "layer, {division}, from the final state and from the sum of states.",
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
            title="Exact answers",
            caption="Exact answers (%): predictions that round to the right number, {division}.",
            rows=MODELS,
            columns=COLUMNS,
            measures={
                split: Measure(
                    metric="exact", split=split, label=label, scale=100, better="higher", worst=0.0
                )
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
        learning_figure(
            name="language_learning",
            caption="Test error during training, {division}.",
            metric="mae",
            split="test",
            lines=MODELS,
            panels=COLUMNS,
            selection=RULE,
            y_label="mean absolute error",
            words=WORDS,
            problem=PROBLEM,
        ),
    )

    def build(self, setting: LanguageSetting) -> nn.Module:
        return LanguageNetwork(setting)

    def sample(self, setting: LanguageSetting, split: str, streams: Streams) -> Batch:
        """Returns a whole set, also for training: each step uses all of it (App. D)."""
        return _part(streams.seeds, setting.division, split)

    def loss(self, setting: LanguageSetting, prediction: Tensor, target: Tensor) -> Tensor:
        error = prediction - target
        each = error.abs() if setting.loss == "mae" else error.square()
        return each.flatten(1).mean(1)

    def metrics(
        self, setting: LanguageSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        exact = (prediction.round() == target).to(prediction.dtype)
        return {
            "mae": mean_absolute_error(prediction, target),
            "mse": mean_squared_error(prediction, target),
            "exact": mean_over_examples(exact),
        }

    def references(
        self, setting: LanguageSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        return constant_errors(batch.targets)

    def memory(self, setting: LanguageSetting, seeds: int) -> int:
        """Counts the activations of a training step or of the test set."""
        words = number_words.LONGEST * max(2 * number_words.TRAIN, number_words.TEST)
        wide = 16 * setting.hidden + 8 * setting.registers
        state = 4 * self.state(setting, 4 * (setting.hidden + setting.registers))
        return 4 * seeds * words * (wide + state)

    def words(self, text: str) -> list[str]:
        """Returns the words of a text.

        Raises:
            UnknownWordError: a word is not in the vocabulary, or the text is empty.
        """
        return number_words.tokenise(text)

    def after_each(
        self, setting: LanguageSetting, weights: dict[str, Tensor], words: Sequence[str]
    ) -> list[float]:
        """Returns a trained network's number after each word (Figure 3)."""
        network = LanguageNetwork(setting)
        network.load_state_dict(weights)
        tokens, lengths = map(torch.from_numpy, number_words.encode([words]))
        with torch.no_grad():
            numbers: list[float] = network.after_each(tokens, lengths).flatten().tolist()
        return numbers

    def unseen(
        self, setting: LanguageSetting, seed: int, count: int
    ) -> list[tuple[list[str], float]]:
        """Returns up to ``count`` random test numbers of a seed, as words and value."""
        targets = _part((seed,), setting.division, "test").targets.flatten()
        order = generator(self.name, seed, "examples").permutation(len(targets))[:count]
        return [(number_words.words(int(n)), float(n)) for n in targets[order].tolist()]


@functools.lru_cache(maxsize=16)
def _part(seeds: tuple[int, ...], division: str, name: str) -> Batch:
    """Returns a set as words, (R or 1, N, 5), word counts, (R or 1, N), and numbers, (R, N, 1)."""
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
