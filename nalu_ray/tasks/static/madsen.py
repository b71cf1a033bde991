"""Tables and figures of the Arithmetic Dataset Task (Madsen and Johansen, 2020).

Presets ``madsen...`` run it. The published values are ``nalu_ray/results/published/madsen.csv``.
"""

from __future__ import annotations

from importlib.resources import files

from nalu_ray.results import leaderboard
from nalu_ray.results.publication import read
from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec
from nalu_ray.tasks._operands import axis

PRESETS = "madsen*"
PUBLISHED = read(files("nalu_ray.results") / "published" / "madsen.csv")
OPERATIONS = axis(["add", "sub", "mul", "div", "square", "sqrt"], others=False)
UNITS = Axis(
    field="layer",
    labels={
        "none": "Linear",
        "relu": "ReLU",
        "relu6": "ReLU6",
        "nac": "NAC+",
        "nac_mnac": "NAC•",
        "nac_mnac_sigmoid": "NAC•,σ",
        "nau_mnac_linear": "NAC•,NMU",
        "nalu": "NALU",
        "nau": "NAU",
        "nau_nmu": "NMU",
        "gated_nau_nmu": "Gated NAU/NMU",
    },
    more={
        "nau_snmu": "sNMU",
        "mcfc_linear": "MC-FC, linear",
        "mcfc_mul_mcfc": "MC-FC, MulMC-FC",
    },
    given={
        "nac_mnac": "the second layer multiplies",
        "nac_mnac_sigmoid": "the second layer multiplies",
        "nau_mnac_linear": "the second layer multiplies",
        "nau_nmu": "the second layer multiplies",
        "nau_snmu": "the second layer multiplies",
        "mcfc_linear": "both layers add",
        "mcfc_mul_mcfc": "the second layer multiplies",
    },
)
GATES = Axis(
    field="layer",
    labels={
        "nac_nalu": "NALU",
        "nac_nalu_separate": "NALU (separate)",
        "nac_gated_nau_nmu": "Gated NAU/NMU",
    },
    given=dict.fromkeys(("nac_nalu", "nac_nalu_separate", "nac_gated_nau_nmu"), "sums first"),
)
DATA = ("inputs", "section", "overlap", "train_range", "test_range", "test_signs", "threshold")
CAPTION = (
    "Arithmetic Dataset Task: x of {train_range}, in extrapolation {test_range}; {inputs} inputs, "
    "operands of {section} each, {overlap} in both."
)
PAPER = {"steps": "5000000", "evaluations": "5000", "test_size": "10000", "batch": "128"}
SOLVED = "solved_mse"


def _by(
    field: str, title: str, *, log_x: bool = False, follows: tuple[str, ...] = ()
) -> FigureSpec:
    """A sweep of the paper's; ``follows`` are fields of the data that change with the swept one."""
    name = f"madsen_by_{field}"
    return FigureSpec(
        name=name,
        caption=f"Arithmetic Dataset Task: seeds that solved it, by {title}.",
        metric="mse",
        split="extrapolation",
        x=field,
        lines=UNITS,
        panels=OPERATIONS,
        statistic="rate",
        solved_below=SOLVED,
        presets=(f"madsen-{field.replace('_', '-')}*",),
        publication=PUBLISHED[name],
        x_label=title,
        y_label="solved, %",
        log_x=log_x,
        problem=tuple(name for name in DATA if name not in (field, *follows)),
    )


def _penalties(unit: str, ramp: str) -> dict[str, str]:
    return {
        f"sparsity:{weight}:linear:{ramp}": f"{unit}, λ = {weight}"
        for weight in ("0", "0.01", "0.1", "1", "10", "100")
    }


TABLES = (
    *leaderboard.tables(
        "madsen",
        CAPTION,
        units=UNITS,
        operations=OPERATIONS,
        solved_below=SOLVED,
        presets=("madsen", "madsen-laptop", "madsen-products", "madsen-lr", "madsen-mass"),
        problem=DATA,
        paper=PAPER,
        publication=PUBLISHED["madsen"],
    ),
    TableSpec(
        name="madsen_gate",
        caption=f"Gated units above a NAC. {CAPTION}",
        rows=GATES,
        columns=OPERATIONS,
        models="rows",
        measures={
            "rate": Measure(
                metric="mse", split="extrapolation", label="solved, %", statistic="rate",
                format=".0f",
            ),
            "solved_at": Measure(
                metric="mse", split="extrapolation", label="solved at step",
                statistic="solved_at", format=".3g",
            ),
        },
        solved_below=SOLVED,
        presets=("madsen-gate",),
        problem=DATA,
        paper=PAPER,
        publication=PUBLISHED["madsen_gate"],
    ),
    TableSpec(
        name="madsen_by_penalty",
        caption=f"Weight λ of the sparsity penalty, of the NAU in sums and of the NMU in products. "
        f"{CAPTION}",
        rows=Axis(
            field="penalty",
            labels=_penalties("NAU", "5000:50000") | _penalties("NMU", "1000000:2000000"),
        ),
        columns=OPERATIONS,
        models="rows",
        measures={
            "rate": Measure(
                metric="mse", split="extrapolation", label="solved, %", statistic="rate",
                format=".0f",
            )
        },
        solved_below=SOLVED,
        presets=("madsen-penalty",),
        problem=DATA,
        paper=PAPER,
        publication=PUBLISHED["madsen_by_penalty"],
    ),
)  # fmt: skip
FIGURES = (
    _by("train_range", "range of x in training", follows=("test_range", "test_signs")),
    _by("hidden", "hidden units"),
    _by("inputs", "inputs", follows=("section", "overlap")),
    _by("overlap", "inputs in both operands"),
    _by("section", "inputs of each operand", follows=("overlap",)),
    _by("lr", "learning rate", log_x=True),
)
