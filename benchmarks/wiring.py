"""Compares gridworld settings: which agents wait longer than they were trained to?

    python -m nalu_ray.tune gridworld algorithm=a3c runners=0 variant=lstm show=first,always \
        steps=3000000 seeds=5 --cpus-per-trial 1 --out study
    python -m nalu_ray.tune gridworld algorithm=a3c runners=0 variant=lstm_nac \
        wiring=accumulator,feedback,instruction show=first,always steps=3000000 seeds=5 \
        --cpus-per-trial 1 --out study
    python benchmarks/wiring.py study

One line per setting, named by the fields that vary: the exact share on trained T, then reward and
time of arrival (never = the time limit) at some T, with greedy actions; means over seeds with 95 %
t intervals. ``--exact 0.97`` leaves out seeds that did not master training, so that the
comparison is between equally trained agents.

    python benchmarks/wiring.py confirm --differ lstm_nac lstm --times 19

Each algorithm's difference of two variants' mean rewards with Welch's 95 % t interval, and how many
seeds keep a reward of 0.9: the decision of docs/gridworld.md, "Protocol of the confirmation". All
seeds count, a lost one as a reward of 0.
"""

from __future__ import annotations

import argparse

import pandas as pd
from scipy import stats

from nalu_ray.results.analysis.statistics import mean_interval
from nalu_ray.results.store.rows import COLUMNS
from nalu_ray.results.store.store import Store


def interval(values: pd.Series, places: int) -> str:
    """Returns ``mean [low, high]``."""
    low, high = mean_interval(values)
    return f"{values.mean():.{places}f} [{low:.{places}f}, {high:.{places}f}]"


def compared(rows: pd.DataFrame, times: list[int], exact: float) -> pd.DataFrame:
    """Returns one row a setting with what is printed."""
    fields = [name for name in rows.columns if name not in COLUMNS]
    varying = [name for name in fields if rows[name].astype(str).nunique() > 1]
    rows = rows.assign(**{name: rows[name].astype(str) for name in varying})
    trained = rows[(rows["split"] == "interpolation") & (rows["metric"] == "exact")]
    lines = []
    for key, group in trained.groupby(varying or ["variant"], sort=False):
        good = group[group["value"] >= exact]
        line = dict(zip(varying or ["variant"], key, strict=True))
        line["seeds"] = f"{len(good)}/{len(group)}"
        if len(good):
            line["exact, trained"] = interval(good["value"], 3)
        curves = rows[
            (rows["split"] == "greedy")
            & rows["setting_id"].isin(good["setting_id"])
            & rows["seed"].isin(good["seed"])
        ]
        for metric, places in ("reward", 2), ("time", 1):
            for time in times:
                here = curves[(curves["metric"] == metric) & (curves["x"] == time)]
                if len(here):
                    line[f"{metric} at {time}"] = interval(here["value"], places)
        lines.append(line)
    return pd.DataFrame(lines)


def rewards(rows: pd.DataFrame, algorithm: str, variant: str, time: int) -> pd.Series:
    """Returns each seed's mean greedy reward at T = ``time``, by seed; 0 for a seed without one."""
    mine = rows[(rows["algorithm"] == algorithm) & (rows["variant"] == variant)]
    found = mine[(mine["split"] == "greedy") & (mine["metric"] == "reward") & (mine["x"] == time)]
    values = found.set_index("seed")["value"]
    return values.reindex(sorted(mine["seed"].unique()), fill_value=0.0).fillna(0.0)


def differences(rows: pd.DataFrame, first: str, second: str, times: list[int]) -> pd.DataFrame:
    """Returns one row per algorithm and T: both variants' means and their difference."""
    lines = []
    for algorithm in sorted(rows["algorithm"].unique()):
        for time in times:
            both = {name: rewards(rows, algorithm, name, time) for name in (first, second)}
            a, b = both.values()
            low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
            line = {"algorithm": algorithm, "T": time}
            for name, values in both.items():
                line[name] = interval(values, 2)
                line[f"{name}, reward of 0.9"] = f"{(values >= 0.9).sum()}/{len(values)}"
            line["difference"] = f"{a.mean() - b.mean():.2f} [{low:.2f}, {high:.2f}]"
            lines.append(line)
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", help="results folder of the sweeps above")
    parser.add_argument("--times", type=int, nargs="+", default=[13, 16, 19, 25])
    parser.add_argument("--exact", type=float, default=0.0, help="minimum exact share on trained T")
    parser.add_argument("--differ", nargs=2, metavar="VARIANT", help="two variants to compare")
    options = parser.parse_args()
    rows = Store(options.out).load("gridworld")
    if options.differ:
        first, second = options.differ
        table = differences(rows, first, second, options.times)
    else:
        table = compared(rows, options.times, options.exact)
    print("| " + " | ".join(table.columns) + " |")
    print("|" + "---|" * len(table.columns))
    for line in table.fillna("").itertuples(index=False):
        print("| " + " | ".join(map(str, line)) + " |")


if __name__ == "__main__":
    main()
