"""Runs a sweep from Python and draws a figure of one's own from its rows.

python examples/sweep.py                 # three minutes on one core
python examples/sweep.py --steps 50      # only shows that it runs
python examples/sweep.py --ray           # on all cores

A second run with the same arguments reads what is stored and only draws.
"""

from __future__ import annotations

import argparse

import matplotlib.pyplot as plt

import nalu_ray as nr


def main() -> None:
    """Compares how fast two units learn a + b."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10_000, help="training steps")
    parser.add_argument("--out", default="results", help="folder of the rows")
    parser.add_argument("--figure", default="sweep.png", help="file of the figure")
    parser.add_argument("--ray", action="store_true", help="run on Ray")
    options = parser.parse_args()

    sweep = nr.run(
        "static", layer=["nac", "nalu"], op="add", lr=[0.05, 0.2], seeds=10,
        steps=options.steps, out=options.out, ray=options.ray,
    )  # fmt: skip
    # one row per cell: the best run and the median in per cent of an untrained network, and how
    # many seeds solved the task, with the interval of that rate
    cells = sweep.table()
    print(cells[["layer", "measure", "ours", "published", "median", "solved", "of"]].to_string())

    # every number that was logged, one row each: task, setting, seed, step, split, metric, value
    rows = sweep.rows()
    errors = rows[(rows["metric"] == "mse") & (rows["split"] == "extrapolation")]
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for (layer, lr), runs in errors.groupby(["layer", "lr"]):
        curves = runs.pivot(index="step", columns="seed", values="value")
        (line,) = axes.plot(curves.median(axis=1), label=f"{layer}, lr {lr:g}")
        axes.plot(curves, color=line.get_color(), linewidth=0.4, alpha=0.5)
    axes.set(xlabel="step", ylabel="extrapolation error of a + b", yscale="log")
    axes.legend(title="median of 10 seeds")
    figure.savefig(options.figure, dpi=150)
    print(f"written: {options.figure}")


if __name__ == "__main__":
    main()
