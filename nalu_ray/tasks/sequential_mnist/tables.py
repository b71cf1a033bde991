"""Tables and figures of sequential MNIST."""

from __future__ import annotations

from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.tasks.sequential_mnist.data import LENGTHS
from nalu_ray.tasks.sequential_mnist.network import EXACT, Operation

RULE = Selection(metric="mse", split="validation")
PROBLEM = ("op", "length", "test_images", "test_series")
MODELS: dict[Operation, dict[str, str]] = {
    "sum": {
        EXACT: "True sum (reference)",
        "nau": "NAU",
        "nac_add": "NAC+",
        "nalu": "NALU",
        "lstm": "LSTM",
    },
    "product": {
        EXACT: "True product (reference)",
        "nmu": "NMU",
        "nac_mul_nmu": "NAC•,NMU",
        "nac_mul_sigmoid": "NAC•,σ",
        "nac_mul": "NAC•",
        "nalu": "NALU",
        "lstm": "LSTM",
    },
}
PENALISED = Axis(field="rz", labels={"true": "with R_z", "false": "without R_z"}, others=False)
PAPER = {"sum": {"length": "10"}, "product": {"length": "2"}}
CAPTION = (
    "Sequential MNIST: squared error of the {op} after so many test digits. Trained on series of "
    "{length}, on the {op} after every digit. R_z is the penalty `inputs`. A run is solved if its "
    "error is below the upper 99 % limit of the mean error of the reference, whose convnet learns "
    "under the true {op}."
)


def tables() -> tuple[TableSpec, ...]:
    """Returns the table of each operation: errors and success rates by length of the series."""
    return tuple(
        TableSpec(
            name=f"sequential_{op}",
            caption=CAPTION,
            rows=Axis(field="layer", labels=models),
            columns=PENALISED,
            measures={
                str(length): Measure(
                    metric=f"mse_{length}", split="test", label=f"at {length}", format=".3g"
                )
                for length in LENGTHS[op]
            },
            layout="subrows",
            selection=RULE,
            solved_like=EXACT,
            where={"op": op},
            models="rows",
            paper=PAPER[op],
            problem=PROBLEM,
        )
        for op, models in MODELS.items()
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
        FigureSpec(
            name="sequential_learning",
            caption="Squared error of the validation series during training.",
            metric="mse",
            split="validation",
            x="step",
            lines=lines,
            panels=panels,
            statistic="median",
            selection=RULE,
            x_label="training step",
            y_label="mean squared error",
            log_y=True,
            problem=PROBLEM,
        ),
    )
