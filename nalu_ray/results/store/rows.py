"""What a stored row is, and which rows of a seed that was stored twice count."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

KEY = ["task", "setting_id", "seed"]
RUN = ["setting_id", "seed"]
CODE = "code"
COLUMNS = [*KEY, "step", "split", "metric", "x", "value", "reason", CODE]
OF_TRIAL = ("task", "setting_id", CODE)  # what whoever stores a run's rows adds to them
LATER = (CODE,)  # null in files that are older than the column
COMPLETED = "completed"
DIVERGED = "diverged"  # how the reason of a seed begins that came to its end, without a result

INTEGERS, FLOATS = ("seed", "step"), ("x", "value")
SCHEMA = pa.schema(
    [
        (name, pa.int64() if name in INTEGERS else pa.float64() if name in FLOATS else pa.string())
        for name in COLUMNS
    ]
)


def endings(tables: Mapping[str, pa.Table]) -> pd.DataFrame:
    """The ``completed`` row that counts for each seed.

    A completed one wins over a failed one; of several completed ones the first written, whose rows
    may have been read already; of several failed ones the last, which says how it went most lately.
    Where other code ran a seed again to its end, only what that code wrote counts.

    Args:
        tables: file name to rows, the file that was written first coming first.

    Returns:
        (seeds, 6): ``setting_id, seed, value, reason, code`` and ``file``.
    """
    columns = [*RUN, "value", "reason", CODE]
    found = [SCHEMA.empty_table().select(columns).append_column("file", pa.array([], pa.string()))]
    for name, table in tables.items():
        final = table.filter(pc.equal(table["metric"], COMPLETED)).select(columns)
        found.append(final.append_column("file", pa.repeat(name, final.num_rows)))
    joined = _of_latest_code(pa.concat_tables(found).to_pandas())
    rank = joined.index.to_series().where(joined["value"] > 0, -joined.index.to_series())
    ordered = joined.assign(rank=rank).sort_values(["value", "rank"], ascending=[False, True])
    kept: pd.DataFrame = ordered.drop_duplicates(RUN).sort_index().drop(columns="rank")
    return kept


def _of_latest_code(joined: pd.DataFrame) -> pd.DataFrame:
    """Leaves out the seeds' endings that code wrote before other code wrote a later one."""
    code = joined[CODE].fillna("")
    if code.nunique() < 2:  # nearly always
        return joined
    ended = (joined["value"] > 0) | joined["reason"].str.startswith(DIVERGED, na=False)
    latest = code[ended].groupby([joined.loc[ended, name] for name in RUN]).last()
    keys = pd.MultiIndex.from_frame(joined[RUN])
    superseded = ended & (code != latest.reindex(keys).set_axis(joined.index))
    return joined[~superseded]


def only(table: pa.Table, runs: pd.DataFrame) -> pa.Table:
    """The rows of some of a table's seeds, ``setting_id`` and ``seed`` of each in ``runs``."""
    present = table.select(RUN).group_by(RUN).aggregate([])
    if present.num_rows == len(runs):  # nearly always; saves comparing every row
        return table
    pairs = pd.MultiIndex.from_frame(table.select(RUN).to_pandas())
    return table.filter(pa.array(pairs.isin(pd.MultiIndex.from_frame(runs[RUN]))))
