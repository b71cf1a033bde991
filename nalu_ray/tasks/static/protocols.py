"""Tables and figures of published protocols, each run by presets of its own.

* ``madsen...``: the Arithmetic Dataset Task of Madsen and Johansen, "Neural Arithmetic Units"
  (2020);
* ``npu``: sums, products, quotients 1 / a and roots of the large task of Heim, Pevný and Šmídl,
  "Neural Power Units" (2020);
* ``inalu``: the fourth experiment of Schlör, Ring and Hotho, "iNALU" (2020); the published values
  were recounted from the authors' stored runs.

The published values are in ``nalu_ray/results/published/``.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from nalu_ray.results import leaderboard
from nalu_ray.results.publication import Publication, PublishedValue, read
from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.tasks._operands import axis

PRESETS = ("madsen*", "npu*", "inalu*")
PUBLISHED: dict[str, Publication] = {
    name: values
    for file in ("madsen.csv", "npu.csv", "inalu.csv")
    for name, values in read(files("nalu_ray.results") / "published" / file).items()
}
# the sweep of the inputs with a column per length, as a table has it
PUBLISHED["madsen_inputs"] = Publication(
    source=PUBLISHED["madsen_by_inputs"].source,
    values=(
        *(
            value.model_copy(update={"column": value.measure, "measure": "rate"})
            for value in PUBLISHED["madsen_by_inputs"].values
        ),
        *PUBLISHED["madsen_inputs"].values,
    ),
)
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
DATA = (
    "inputs", "section", "overlap", "train_range", "test_range", "test_signs", "distribution",
    "operands", "sets", "threshold", "solved_below",
)  # fmt: skip
CAPTION = (
    "Arithmetic Dataset Task: x of {train_range}, in extrapolation {test_range}; {inputs} inputs, "
    "operands of {section} each, {overlap} in both."
)
PAPER = {"steps": "5000000", "evaluations": "5000", "test_size": "10000", "batch": "128"}
SOLVED = "solved_mse"


def _data(*but: str) -> tuple[str, ...]:
    """Returns the fields of the data without some."""
    return tuple(field for field in DATA if field not in but)


def _by(
    field: str, title: str, *, log_x: bool = False, follows: tuple[str, ...] = ()
) -> FigureSpec:
    """A sweep of the paper's; the fields ``follows`` of the data change with the swept one."""
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
        problem=_data(field, *follows),
        follows=dict.fromkeys(follows, field),
    )


def _by_weight() -> FigureSpec:
    """The sweep of the sparsity penalty, over its weight: NAU and NMU have other ramps."""
    table = PUBLISHED["madsen_by_penalty"]
    values = tuple(
        PublishedValue(
            row="nau_nmu" if value.column == "mul" else "nau",
            column=value.column,
            measure=value.row.split(":")[1],
            text=value.text,
        )
        for value in table.values
    )
    figure = _by("penalty", "weight of the sparsity penalty", log_x=True)
    return figure.model_copy(
        update={
            "name": "madsen_by_weight",
            "x_part": 1,
            "publication": Publication(source=table.source, values=values),
        }
    )


def _penalties(unit: str, ramp: str) -> dict[str, str]:
    return {
        f"sparsity:{weight}:linear:{ramp}": f"{unit}, λ = {weight}"
        for weight in ("0", "0.01", "0.1", "1", "10", "100")
    }


RATES = {
    "rate": Measure(
        metric="mse", split="extrapolation", label="solved, %", statistic="rate", format=".0f"
    ),
    "solved_at": Measure(
        metric="mse", split="extrapolation", label="solved at step", statistic="solved_at",
        format=".3g",
    ),
}  # fmt: skip
RATE = {"rate": RATES["rate"]}


def _table(name: str, title: str, caption: str, rows: Axis, **fields: Any) -> TableSpec:
    """A table of Madsen and Johansen's; ``fields`` are what it has otherwise than most."""
    usual: dict[str, Any] = {
        "columns": OPERATIONS,
        "measures": RATES,
        "models": "rows",
        "solved_below": SOLVED,
        "presets": (name.replace("_", "-"),),
        "problem": DATA,
        "paper": PAPER,
        "publication": PUBLISHED[name],
    }
    return TableSpec(name=name, title=title, caption=caption, rows=rows, **{**usual, **fields})


MADSEN = (
    *leaderboard.tables(
        "madsen",
        CAPTION,
        units=UNITS,
        operations=OPERATIONS,
        solved_below=SOLVED,
        presets=(
            "madsen",
            "madsen-laptop",
            "madsen-start",
            "madsen-products*",
            "madsen-lr*",
            "madsen-mass",
        ),
        problem=DATA,
        paper=PAPER,
        publication=PUBLISHED["madsen"],
    ),
    _table("madsen_gate", "Gated units", f"Gated units above a NAC. {CAPTION}", GATES, board=True),
    _table(
        "madsen_by_penalty",
        "Sparsity penalties",
        "Weight λ of the sparsity penalty, of the NAU in sums and of the NMU in products. "
        f"{CAPTION}",
        Axis(
            field="penalty",
            labels=_penalties("NAU", "5000:50000") | _penalties("NMU", "1000000:2000000"),
        ),
        measures=RATE,
        presets=("madsen-penalty*",),
    ),
    _table(
        "madsen_inputs",
        "Length of x",
        "Arithmetic Dataset Task, a × b by the number of inputs: x of {train_range}, in "
        "extrapolation {test_range}.",
        UNITS,
        columns=Axis(
            field="inputs",
            labels={value.column: value.column for value in PUBLISHED["madsen_inputs"].values},
            others=False,
        ),
        presets=("madsen-inputs*",),
        problem=("op", *_data("inputs", "section", "overlap")),
        follows=dict.fromkeys(("section", "overlap"), "inputs"),
    ),
    _table(
        "madsen_ablation",
        "Ablation of the NMU",
        "Products by the NMU, with and without the bounds of its weights and the sparsity "
        f"penalty. {CAPTION}",
        Axis(field="options", labels={"{}": "clamped", '{"clamp": false}': "not clamped"}),
        columns=Axis(
            field="penalty",
            labels={
                "sparsity:10:linear:1000000:2000000": "λ = 10",
                "sparsity:0:linear:1000000:2000000": "λ = 0",
            },
        ),
        problem=("op", *DATA),
    ),
    _table(
        "madsen_nested",
        "A product of nested sums",
        "(x1 + x2) (x1 + x2 + x3 + x4), x of {train_range}, in extrapolation {test_range}.",
        UNITS,
        columns=axis(["mul"], others=False),
        problem=_data("section", "overlap"),
        paper=PAPER | {"steps": "200000", "evaluations": "200"},
    ),
)
NPU = TableSpec(
    name="npu_large",
    title="Large task",
    caption="Large task of Heim, Pevný and Šmídl (2020): {hidden} hidden units, {inputs} "
    "inputs of {train_range}, in extrapolation {test_range}. Median over seeds of the last "
    "extrapolation error. Theirs are of quasi-random (Sobol) inputs.",
    rows=Axis(
        field="layer",
        labels={
            "nau_npu": "NPU",
            "nau_real_npu": "Real NPU",
            "nalu": "NALU",
            "nau_nmu": "NMU",
            "nau_naive_npu": "Naive NPU",
        },
    ),
    columns=axis(["add", "mul", "reciprocal", "sqrt"], others=False),
    models="rows",
    board=True,
    measures={
        "mse": Measure(
            metric="mse", split="extrapolation", label="median MSE", statistic="median",
            format=".2e",
        )
    },
    selection=Selection(step="last"),
    presets=("npu", "npu-laptop"),
    publication=PUBLISHED["npu_large"],
    problem=("hidden", *_data("train_range", "test_range")),
    follows={"train_range": "op", "test_range": "op"},
    paper={"steps": "100000"},
)  # fmt: skip
INALU = tuple(
    TableSpec(
        name=f"inalu_{law}",
        title=f"Two layers of iNALUs, {law} inputs",
        caption="Fourth experiment of Schlör, Ring and Hotho (2020): a and b are sums of random "
        "elements of {inputs}, x is " + law + " on {train_range}, in extrapolation on "
        "{test_range}. Seeds whose last extrapolation error is below {solved_below}.",
        rows=Axis(
            field="options", labels={"{}": "own weights", '{"shared": true}': "shared weights"}
        ),
        columns=axis(["add", "sub", "mul", "div"], others=False),
        models="rows",
        board=True,
        measures=RATE,
        selection=Selection(step="last"),
        solved_below=SOLVED,
        where={"distribution": law},
        presets=("inalu*",),
        publication=PUBLISHED[f"inalu_{law}"],
        problem=_data("distribution"),
        paper={"steps": "100000"},
    )
    for law in ("uniform", "normal")
)
TABLES = (*MADSEN, NPU, *INALU)
FIGURES = (
    _by("train_range", "range of x in training", follows=("test_range", "test_signs")),
    _by("hidden", "hidden units"),
    _by("inputs", "inputs", follows=("section", "overlap")),
    _by("overlap", "inputs in both operands"),
    _by("section", "inputs of each operand", follows=("overlap",)),
    _by("lr", "learning rate", log_x=True),
    _by_weight(),
)
