"""Compares training recipes by the share of seeds with a low interpolation error.

    python -m nalu_ray.tune static layer=nalu lr=0.1,0.2 gate_init=0:0,0.2:0,0.2:-0.2 \
        adam_beta2=0.99,0.999 seeds=16 --out study
    python benchmarks/recipe.py study

A seed counts if its lowest interpolation error is below a bound on the scale of Table 7 (100 =
random): 0.05 prints as 0.0, and 1e-5 is about the error of weights that are off by 1e-5, the
precision that "solved" requires. The extrapolation set is not read.
"""

from __future__ import annotations

import argparse

import pandas as pd

from nalu_ray.results.store.store import Store

FIELDS = ["lr", "gate_init", "adam_beta2"]


def learned(rows: pd.DataFrame, bound: float) -> pd.Series[float]:
    """Returns the share of seeds below the bound, by setting fields and operation."""
    rows = rows[rows["split"] == "interpolation"]
    key = [*FIELDS, "op", "seed"]
    best = rows[rows["metric"] == "mse"].groupby(key)["value"].min()
    random = rows[rows["metric"] == "random_mse"].groupby("op")["value"].median()
    relative = 100 * best.div(random, level="op")
    return relative.lt(bound).astype(float).groupby([*FIELDS, "op"]).mean()


def main() -> None:
    """Prints one line per recipe, best mean share first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", help="results folder of the sweep above")
    parser.add_argument(
        "--below",
        type=float,
        default=1e-5,
        help="bound on the interpolation error (default: %(default)s)",
    )
    arguments = parser.parse_args()
    table = learned(Store(arguments.out).load("static"), arguments.below).unstack("op")
    table["mean"] = table.mean(axis=1)
    ordered = table.sort_values("mean", ascending=False)
    print(ordered.to_string(float_format=lambda share: f"{100 * share:.0f} %"))


if __name__ == "__main__":
    main()
