"""Table of the large task of Heim, Pevný and Šmídl, "Neural Power Units" (2020).

Preset ``npu`` runs its sums, products and roots. The published values are
``nalu_ray/results/published/npu.csv``.
"""

from __future__ import annotations

from importlib.resources import files

from nalu_ray.results.publication import read
from nalu_ray.results.specs import Axis, Measure, Selection, TableSpec
from nalu_ray.tasks._operands import axis

PRESET = "npu"
TABLES = (
    TableSpec(
        name="npu_large",
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
        columns=axis(["add", "mul", "sqrt"], others=False),
        models="rows",
        measures={
            "mse": Measure(
                metric="mse", split="extrapolation", label="median MSE", statistic="median",
                format=".2e",
            )
        },
        selection=Selection(step="last"),
        presets=(PRESET,),
        publication=read(files("nalu_ray.results") / "published" / "npu.csv")["npu_large"],
        problem=("inputs", "section", "overlap", "hidden", "sets"),
        paper={"steps": "100000"},
    ),
)  # fmt: skip
