"""What a stored row is, and which rows of a seed that was stored twice count."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

KEY = ["task", "setting_id", "seed"]
RUN = ["setting_id", "seed"]
COLUMNS = [*KEY, "step", "split", "metric", "x", "value", "reason"]
COMPLETED = "completed"

INTEGERS, FLOATS = ("seed", "step"), ("x", "value")
SCHEMA = pa.schema(
    [
        (name, pa.int64() if name in INTEGERS else pa.float64() if name in FLOATS else pa.string())
        for name in COLUMNS
    ]
)


def check_whole(rows: pd.DataFrame) -> None:
    """Refuses seeds and steps that are no whole numbers of 64 bits: pandas would wrap them round.

    Raises:
        ValueError: there is one, with its column.
    """
    for name in INTEGERS:
        values = rows[name]
        if values.dtype.kind == "i":
            continue
        if not (values.between(-(2**63), 2**63 - 1) & (values % 1 == 0)).all():
            raise ValueError(f"{name}: a whole number of at most 64 bits is needed")


def endings(tables: Mapping[str, pa.Table]) -> pd.DataFrame:
    """The ``completed`` row that counts for each seed.

    A completed one wins over a failed one; of several completed ones the first written, whose rows
    may have been read already; of several failed ones the last, which says how it went most lately.

    Args:
        tables: file name to rows, the file that was written first coming first.

    Returns:
        (seeds, 5): ``setting_id, seed, value, reason`` and ``file``.
    """
    columns = [*RUN, "value", "reason"]
    found = [SCHEMA.empty_table().select(columns).append_column("file", pa.array([], pa.string()))]
    for name, table in tables.items():
        final = table.filter(pc.equal(table["metric"], COMPLETED)).select(columns)
        found.append(final.append_column("file", pa.repeat(name, final.num_rows)))
    joined = pa.concat_tables(found).to_pandas()
    rank = joined.index.to_series().where(joined["value"] > 0, -joined.index.to_series())
    ordered = joined.assign(rank=rank).sort_values(["value", "rank"], ascending=[False, True])
    kept: pd.DataFrame = ordered.drop_duplicates(RUN).sort_index().drop(columns="rank")
    return kept


def only(table: pa.Table, runs: pd.DataFrame) -> pa.Table:
    """The rows of some of a table's seeds, ``setting_id`` and ``seed`` of each in ``runs``."""
    present = table.select(RUN).group_by(RUN).aggregate([])
    if present.num_rows == len(runs):  # nearly always; saves comparing every row
        return table
    pairs = pd.MultiIndex.from_frame(table.select(RUN).to_pandas())
    return table.filter(pa.array(pairs.isin(pd.MultiIndex.from_frame(runs[RUN]))))
