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

    python benchmarks/wiring.py confirm --differ lstm_nac lstm --times 19 --csv curves.csv

Each algorithm's difference of two variants' mean rewards with Welch's 95 % t interval, and the
reward of each seed: the decision of docs/gridworld.md, "Protocol of the confirmation". All seeds
count, a lost one as a reward of 0.
"""

from __future__ import annotations

import argparse

import pandas as pd
from scipy import stats

from nalu_ray.results.analysis.statistics import mean_interval
from nalu_ray.results.store.rows import COLUMNS, COMPLETED
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


def curves(source: str) -> pd.DataFrame:
    """Returns each seed's greedy curves, a row per T: of a results folder, or of a CSV file."""
    if source.endswith(".csv"):
        return pd.read_csv(source)
    return of_seeds(Store(source).load("gridworld"))


def of_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns each seed's greedy curves, a row per T; a lost seed has a reward of 0 at each.

    Raises:
        SystemExit: a completed seed has no curves.
    """
    seed = ["algorithm", "variant", "seed"]
    kept = (rows["split"] == "greedy") & rows["metric"].isin(["exact", "reward", "time"])
    table = rows[kept].rename(columns={"x": "T"}).pivot(index=[*seed, "T"], columns="metric")
    found = table["value"].reset_index()
    ends = rows[rows["metric"] == COMPLETED].set_index(seed)["value"]
    without = ends.index.difference(pd.MultiIndex.from_frame(found[seed]))
    if (ends[without] == 1).any():
        raise SystemExit(f"completed seeds without curves, such as {without[0]}")
    times = pd.DataFrame({"T": sorted(found["T"].unique()), "reward": 0.0})
    lost = without.to_frame(index=False).merge(times, how="cross")
    both: pd.DataFrame = pd.concat([found, lost]).sort_values([*seed, "T"]).astype({"T": int})
    return both


def differences(
    rows: pd.DataFrame, first: str, second: str, metric: str, times: list[int]
) -> pd.DataFrame:
    """Returns one row per algorithm and T: both variants' seeds, means, and their difference."""
    lines = []
    here = rows[rows["variant"].isin([first, second]) & rows["T"].isin(times)]
    for (algorithm, time), group in here.groupby(["algorithm", "T"]):
        if group["variant"].nunique() < 2:
            continue  # an algorithm with one of them only
        line: dict[str, object] = {"algorithm": algorithm, "T": time}
        values = [group.loc[group["variant"] == name, metric] for name in (first, second)]
        for name, each in zip((first, second), values, strict=True):
            line[name] = interval(each, 2)
            line[f"{name}, seeds"] = " ".join(f"{value:.2f}" for value in sorted(each))
        low, high = stats.ttest_ind(*values, equal_var=False).confidence_interval(0.95)
        line["difference"] = f"{values[0].mean() - values[1].mean():.2f} [{low:.2f}, {high:.2f}]"
        lines.append(line)
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "out", nargs="+", help="results folders of sweeps; for --differ also a file of --csv"
    )
    parser.add_argument("--times", type=int, nargs="+", default=[13, 16, 19, 25])
    parser.add_argument("--exact", type=float, default=0.0, help="minimum exact share on trained T")
    parser.add_argument("--differ", nargs=2, metavar="VARIANT", help="two variants to compare")
    parser.add_argument(
        "--metric", default="reward", help="of --differ: reward, or time of arrival"
    )
    parser.add_argument("--csv", help="write the seeds' curves to this file")
    options = parser.parse_args()
    if options.csv or options.differ:
        seeds = pd.concat(map(curves, options.out))
    if options.csv:
        seeds.round(4).to_csv(options.csv, index=False)
    if options.differ:
        first, second = options.differ
        table = differences(seeds, first, second, options.metric, options.times)
    else:
        rows = pd.concat([Store(out).load("gridworld") for out in options.out])
        table = compared(rows, options.times, options.exact)
    print("| " + " | ".join(table.columns) + " |")
    print("|" + "---|" * len(table.columns))
    for line in table.fillna("").itertuples(index=False):
        print("| " + " | ".join(map(str, line)) + " |")


if __name__ == "__main__":
    main()
