"""Tables and figures of sequential MNIST."""

from __future__ import annotations

from importlib.resources import files

from nalu_ray.results import publication
from nalu_ray.results.publication import Publication
from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec, learning_figure
from nalu_ray.tasks.sequential_mnist.data import LENGTHS
from nalu_ray.tasks.sequential_mnist.network import EXACT, Accumulation

RULE = Selection(metric="mse", split="validation")
PROBLEM = ("op", "length", "test_images", "test_series")
MODELS: dict[Accumulation, dict[str, str]] = {
    "sum": {
        EXACT: "True sum (reference)",
        "nau": "NAU",
        "nac": "NAC+",
        "nalu": "NALU",
        "lstm": "LSTM",
    },
    "product": {
        EXACT: "True product (reference)",
        "nmu": "NMU",
        "mnac_linear": "NAC•,NMU",
        "mnac_sigmoid": "NAC•,σ",
        "mnac": "NAC•",
        "nalu": "NALU",
        "lstm": "LSTM",
    },
}
PENALISED = Axis(field="rz", labels={"true": "with R_z", "false": "without R_z"}, others=False)
PUBLISHED = files("nalu_ray.results") / "published" / "sequential_mnist.csv"
PAPER: dict[Accumulation, dict[str, str]] = {"sum": {"length": "10"}, "product": {"length": "2"}}
# lengths of the published figures, of the table of errors
SUCCESS: dict[Accumulation, tuple[int, ...]] = {
    "sum": LENGTHS["sum"],
    "product": (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20),
}
ERRORS: dict[Accumulation, tuple[int, ...]] = {"sum": (1, 10, 100, 1000), "product": (1, 2, 10, 20)}
TRAINED = (
    "Trained on series of {length} digits, on the {op} after every digit. R_z is the penalty "
    "`inputs`, with weight 1."
)


def tables() -> tuple[TableSpec, ...]:
    """Returns for each operation success rates and errors by length of the series."""
    return tuple(table for op in MODELS for table in (_success(op), _errors(op)))


def _success(op: Accumulation) -> TableSpec:
    return _table(
        op,
        f"sequential_{op}",
        "Sequential MNIST: seeds (%) that solved the {op} of so many test digits. The reference "
        f"learns its convnet under the true {{op}}. {TRAINED}",
        {
            str(length): Measure(
                metric=f"mse_{length}",
                split="test",
                label=f"at {length}",
                statistic="rate",
                format=".0f",
            )
            for length in SUCCESS[op]
        },
        publication.read(PUBLISHED)[f"sequential_{op}"],
    )


def _errors(op: Accumulation) -> TableSpec:
    single = Measure(metric="accuracy", split="test", label="digits read (%)", scale=100)
    return _table(
        op,
        f"sequential_{op}_error",
        "Sequential MNIST: squared error of the {op} of so many test digits, and single digits "
        f"that are read right. {TRAINED}",
        {
            "accuracy": single.model_copy(update={"statistic": "median", "better": "higher"}),
            **{
                str(length): Measure(
                    metric=f"mse_{length}",
                    split="test",
                    label=f"MSE at {length}",
                    statistic="median",
                    format=".3g",
                )
                for length in ERRORS[op]
            },
        },
    )


def _table(
    op: Accumulation,
    name: str,
    caption: str,
    measures: dict[str, Measure],
    success: Publication | None = None,
) -> TableSpec:
    """Returns a table of one operation; of success rates, if published ones are given."""
    return TableSpec(
        name=name,
        title="Success rates" if success else "Squared errors",
        caption=caption,
        rows=Axis(field="layer", labels=MODELS[op]),
        columns=PENALISED,
        measures=measures,
        layout="subrows",
        selection=RULE,
        solved_like=EXACT if success else None,
        publication=success,
        board=success is not None,
        where={"op": op},
        models="rows",
        paper=PAPER[op],
        problem=PROBLEM,
    )


def figures() -> tuple[FigureSpec, ...]:
    """Returns the figure of error by length, and that of the validation error in training."""
    lines = Axis(field="layer", labels={**MODELS["sum"], **MODELS["product"], EXACT: "Reference"})
    panels = Axis(field="op", labels={"sum": "Sum", "product": "Product"})
    return (
        FigureSpec(
            name="sequential_length",
            caption="Squared error by number of test digits, of each model's best setting.",
            metric="squared_error",
            split="test",
            lines=lines,
            panels=panels,
            statistic="median",
            selection=RULE,
            x_label="digits in a series",
            y_label="mean squared error",
            log_x=True,
            log_y=True,
            select_step=True,
            problem=PROBLEM,
        ),
        learning_figure(
            name="sequential_learning",
            caption="Squared error of the validation series during training.",
            metric="mse",
            split="validation",
            lines=lines,
            panels=panels,
            selection=RULE,
            y_label="mean squared error",
            problem=PROBLEM,
        ),
    )
