"""Tables and figures of MNIST counting and addition."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import product

from nalu_ray.results import published
from nalu_ray.results.specs import FigureSpec, Measure, Selection, TableSpec, learning_figure
from nalu_ray.tasks._mnist_series.data import LENGTHS
from nalu_ray.tasks._recurrent_models import MODELS

RULE = Selection(metric="mae", split="validation")
PROBLEM = ("length", "test_images")
TRAINED = "Trained on series of {length}; tested with the first {test_images} test images."
PAPER = {"length": "10"}
HALVED = (
    "The published errors are twice the usual ones, as constant predictors show (docs/mnist.md); "
    "each is given as printed, then halved."
)
DOUBT = (
    "cannot come from one set of runs, as the mean absolute error (Table 2) is larger than the "
    "root of the mean squared error (Table 10)"
)
ERRORS = {"mae": "mean absolute error", "mse": "mean squared error"}


def impossible(task: str) -> tuple[tuple[str, int], ...]:
    """Returns model and length of published errors that contradict each other.

    No mean of absolute errors is above the root of the mean of their squares. Printed numbers are
    rounded, so only what is above it by more than the rounding counts.

    Args:
        task: ``counting`` or ``addition``.
    """
    models = dict.fromkeys(published.load(2)["row"])
    return tuple(
        (model, length)
        for model, length in product(models, LENGTHS[1:])
        if _bounds(2, model, f"{task}_mae_{length}")[0] / 2
        > math.sqrt(_bounds(10, model, f"{task}_mse_{length}")[1] / 2)
    )


def _bounds(number: int, model: str, column: str) -> tuple[float, float]:
    """Returns between which numbers one lies that prints as the table has it."""
    cell = published.lookup(number, model, column, "test")
    assert cell is not None, (number, model, column)
    printed = Decimal(cell.text)
    half = Decimal(5).scaleb(int(printed.as_tuple().exponent) - 1)
    return float(printed - half), float(printed + half)


def tables(task: str, noun: str) -> tuple[TableSpec, ...]:
    """Returns a task's halves of Tables 2 and 10, and a table of exact answers.

    Args:
        task: ``counting`` or ``addition``, the prefix of the published columns.
        noun: noun for the answers, in the plural.
    """
    accuracy = {
        f"{task}_classification": Measure(
            metric="accuracy",
            split="test",
            label="classification",
            scale=100,
            format=".2f",
            better="higher",
            worst=0.0,
        )
    }
    errors = [
        TableSpec(
            name=f"mnist_{task}_{metric}",
            number=number,
            caption=f"MNIST {task}: single digits recognised (%), and {error} of the {noun} by "
            f"length of the test series. {TRAINED} {HALVED}",
            paper=PAPER,
            rows=MODELS,
            measures=accuracy
            | {
                f"{task}_{metric}_{length}": Measure(
                    metric=f"{metric}_{length}",
                    split="test",
                    label=f"{metric.upper()} at {length}",
                    format=".3g",
                    published_scale=0.5,
                )
                for length in LENGTHS[1:]
            },
            layout="columns",
            selection=RULE,
            doubtful=tuple((row, f"{task}_{metric}_{length}") for row, length in impossible(task)),
            doubt=DOUBT,
            problem=PROBLEM,
        )
        for metric, number, error in (("mae", 2, ERRORS["mae"]), ("mse", 10, ERRORS["mse"]))
    ]
    exact = TableSpec(
        name=f"mnist_{task}_exact",
        title="Exact answers",
        caption=f"MNIST {task}: exact answers (%), series whose {noun} all round to the right "
        f"numbers. {TRAINED}",
        rows=MODELS,
        measures={
            f"exact_{length}": Measure(
                metric=f"exact_{length}",
                split="test",
                label=f"at {length}",
                scale=100,
                better="higher",
                worst=0.0,
            )
            for length in LENGTHS
        },
        layout="columns",
        selection=RULE,
        problem=PROBLEM,
    )
    return (*errors, exact)


def figures(task: str) -> tuple[FigureSpec, ...]:
    """Returns the figures of error by length of series and of error during training."""
    return (
        FigureSpec(
            name=f"mnist_{task}_length",
            caption="Error by length of the series; networks were trained on series of {length}.",
            metric="absolute_error",
            split="test",
            lines=MODELS,
            statistic="median",
            selection=RULE,
            x_label="digits in a series",
            y_label="mean absolute error",
            log_x=True,
            log_y=True,
            select_step=True,
            problem=PROBLEM,
        ),
        learning_figure(
            name=f"mnist_{task}_learning",
            caption="Error on series of 1000 test digits during training on series of {length}.",
            metric="mae_1000",
            split="test",
            lines=MODELS,
            selection=RULE,
            y_label="mean absolute error",
            problem=PROBLEM,
        ),
    )
