"""What a stored row is, and which rows of a seed that was stored twice count."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

KEY = ["task", "setting_id", "seed"]
RUN = ["setting_id", "seed"]
PRESET, CHANGES, CODE, OUTCOME = "preset", "changes", "code", "outcome"
COLUMNS = [*KEY, "step", "split", "metric", "x", "value", "reason", OUTCOME, CODE]
ABOUT = (PRESET, CHANGES)  # what a row says beside its setting; null in older files
OF_TRIAL = ("task", "setting_id", CODE)  # what whoever stores a run's rows adds to them
LATER = (OUTCOME, CODE)  # files that are older than the column lack it
COMPLETED = "completed"  # the metric of a seed's final row, and its outcome if all went well
DIVERGED, FAILED, OUT_OF_MEMORY = "diverged", "failed", "out_of_memory"
OUTCOMES = (COMPLETED, DIVERGED, FAILED, OUT_OF_MEMORY)

INTEGERS, FLOATS = ("seed", "step"), ("x", "value")
SCHEMA = pa.schema(
    [
        (name, pa.int64() if name in INTEGERS else pa.float64() if name in FLOATS else pa.string())
        for name in COLUMNS
    ]
)


FINAL = [*RUN, "value", "reason", OUTCOME, CODE]
_RAN_OUT = r"^oom: \d+ seeds?\b"  # of the reasons that were stored before there was the column


def with_outcomes(table: pa.Table) -> pa.Table:
    """Returns rows whose final ones all have an outcome.

    The only place that reads it from a reason: for files of before there was the column, and for
    runs of another package's task that do not give it.

    Args:
        table: with the columns ``metric, value, reason``; ``outcome`` may be missing or null.
    """
    final = pc.equal(table["metric"], COMPLETED)
    reason = pc.fill_null(table["reason"], "")
    cases = {
        COMPLETED: pc.equal(table["value"], 1.0),
        DIVERGED: pc.starts_with(reason, DIVERGED),
        OUT_OF_MEMORY: pc.match_substring_regex(reason, _RAN_OUT),
    }
    tests = pc.make_struct(*cases.values(), field_names=list(cases))
    read = pc.if_else(final, pc.case_when(tests, *cases, FAILED), pa.scalar(None, pa.string()))
    if OUTCOME not in table.column_names:
        return table.append_column(OUTCOME, read)
    given = table[OUTCOME]
    known = pc.and_(final, pc.is_in(given, pa.array(OUTCOMES)))
    place = table.column_names.index(OUTCOME)
    return table.set_column(place, OUTCOME, pc.if_else(known, given, read))


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


def setting_fields(frame: pd.DataFrame) -> list[str]:
    """Returns the columns that are fields of the setting."""
    return [name for name in map(str, frame.columns) if name not in {*COLUMNS, *ABOUT}]


def endings(tables: Mapping[str, pa.Table]) -> pd.DataFrame:
    """The ``completed`` row that counts for each seed.

    A completed one wins over a failed one; of several completed ones the first written, whose rows
    may have been read already; of several failed ones the last, which says how it went most lately.
    Where other code ran a seed again to its end, only what that code wrote counts.

    Args:
        tables: file name to rows, the file that was written first coming first.

    Returns:
        (seeds, 8): the columns :data:`FINAL`, ``file``, and ``block``, the number of seeds in it.
    """
    empty = SCHEMA.empty_table().select(FINAL)
    parts = [empty.append_column("file", pa.array([], pa.string()))]
    parts[0] = parts[0].append_column("block", pa.array([], pa.int64()))
    for name, table in tables.items():
        final = table.filter(pc.equal(table["metric"], COMPLETED)).select(FINAL)
        seeds = final.num_rows
        final = final.append_column("file", pa.repeat(name, seeds))
        parts.append(final.append_column("block", pa.repeat(seeds, seeds)))
    joined = _of_latest_code(pa.concat_tables(parts).to_pandas())
    rank = joined.index.to_series().where(joined["value"] > 0, -joined.index.to_series())
    ordered = joined.assign(rank=rank).sort_values(["value", "rank"], ascending=[False, True])
    kept: pd.DataFrame = ordered.drop_duplicates(RUN).sort_index().drop(columns="rank")
    return kept


def _of_latest_code(joined: pd.DataFrame) -> pd.DataFrame:
    """Leaves out the seeds' endings that code wrote before other code wrote a later one."""
    code = joined[CODE].fillna("")
    if code.nunique() < 2:  # nearly always
        return joined
    ended = joined[OUTCOME].isin([COMPLETED, DIVERGED])
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
