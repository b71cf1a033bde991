"""Table of the recurrent task by the recipes of Hoedt et al. (2021): preset ``mass``.

Hoedt et al., "MC-LSTM: Mass-Conserving LSTM" (2021), https://arxiv.org/abs/2101.05186.
"""

from __future__ import annotations

from nalu_ray.results.specs import Axis, Measure, TableSpec
from nalu_ray.tasks._operands import axis

PRESET = "mass*"
TABLE = TableSpec(
    name="recurrent_mass",
    title="Recipes of Hoedt et al. (2021)",
    caption="Recurrent arithmetic by the recipes of Hoedt et al. (2021): x of {train_range}, "
    "operands of {section} of {inputs} inputs, {overlap} in both. Trained on sequences of {length} "
    "steps, extrapolated to {test_length}.",
    rows=Axis(
        field="layer",
        labels={
            "mc_lstm": "MC-LSTM",
            "lstm": "LSTM",
            "nau": "NAU",
            "nau_nmu": "NAU, NMU",
            "nac": "NAC+",
            "nac_mnac": "NAC+, NAC•",
            "nalu": "NALU",
        },
    ),
    columns=axis(["add", "sub", "mul"], others=False),
    models="rows",
    board=True,
    measures={
        "rate": Measure(
            metric="mse", split="extrapolation", label="solved, %", statistic="rate", format=".0f"
        ),
        "mse": Measure(
            metric="mse", split="extrapolation", label="median MSE", statistic="median",
            format=".2e",
        ),
    },
    solved_below="solved_mse",
    presets=(PRESET,),
    problem=("inputs", "section", "overlap", "length", "test_length", "train_range"),
    paper={"steps": "2000000"},
)  # fmt: skip
