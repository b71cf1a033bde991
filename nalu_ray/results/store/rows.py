"""The columns of stored rows, and which rows count if a seed was stored twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Key = tuple[str, int]
"""A setting's id and a seed."""

KEY = ["task", "setting_id", "seed"]
RUN = ["setting_id", "seed"]
PRESET, CHANGES, CODE, OUTCOME = "preset", "changes", "code", "outcome"
COLUMNS = [*KEY, "step", "split", "metric", "x", "value", "reason", OUTCOME, CODE]
ABOUT = (PRESET, CHANGES)  # columns beside the setting's; null in older files
OF_TRIAL = ("task", "setting_id", CODE)  # columns that a trial adds to its run's rows
LATER = (OUTCOME, CODE)  # older files lack these columns
COMPLETED = "completed"  # metric of a seed's final row, and the outcome of success
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
ENDS = [*FINAL, "metric"]  # the columns that say how seeds ended
REASON_HEAD, REASON_TAIL = 3000, 1000  # characters of a longer reason that are kept
_RAN_OUT = r"^oom: \d+ seeds?\b"  # reasons older than the column


def with_outcomes(table: pa.Table) -> pa.Table:
    """Returns rows with an outcome in each final row and reasons of bounded length.

    Only this function reads an outcome from a reason: files older than the column lack it, and so
    do the rows of another package's task that does not give one.

    Args:
        table: with the columns ``metric, value, reason``; ``outcome`` may be missing or null.
    """
    table = _with_short_reasons(table)
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
    outcomes = table[OUTCOME]
    is_known = pc.and_(final, pc.is_in(outcomes, pa.array(OUTCOMES)))
    index = table.column_names.index(OUTCOME)
    return table.set_column(index, OUTCOME, pc.if_else(is_known, outcomes, read))


def failed_rows(
    seeds: Sequence[int], step: int, reason: str, outcome: str = FAILED
) -> pd.DataFrame:
    """Returns one ``completed = 0`` row per seed."""
    # an error's text may not be Unicode, if it has part of a file name, say
    reason = reason.encode("utf-8", "backslashreplace").decode("utf-8")
    rows = pd.DataFrame({"seed": list(seeds), "step": step, "value": 0.0, "reason": reason})
    columns = [name for name in COLUMNS if name not in OF_TRIAL]
    return rows.assign(split="train", metric=COMPLETED, outcome=outcome).reindex(columns=columns)


def _with_short_reasons(table: pa.Table) -> pa.Table:
    reason = table["reason"]
    length = pc.utf8_length(reason)
    if (pc.max(length).as_py() or 0) <= REASON_HEAD + REASON_TAIL:
        return table
    parts = (pc.utf8_slice_codeunits(reason, 0, REASON_HEAD), " ... ")
    short = pc.binary_join_element_wise(*parts, pc.utf8_slice_codeunits(reason, -REASON_TAIL), "")
    cut = pc.if_else(pc.greater(length, REASON_HEAD + REASON_TAIL), short, reason)
    return table.set_column(table.column_names.index("reason"), "reason", cut)


def check_whole(rows: pd.DataFrame) -> None:
    """Refuses seeds and steps beyond 64-bit whole numbers, which pandas would wrap around.

    Raises:
        ValueError: a value is refused; the message names its column.
    """
    for name in INTEGERS:
        values = rows[name]
        if values.dtype.kind == "i":
            continue
        if not (values.between(-(2**63), 2**63 - 1) & (values % 1 == 0)).all():
            raise ValueError(f"{name}: must be a whole number of at most 64 bits")


def setting_fields(frame: pd.DataFrame) -> list[str]:
    """Returns the columns of the setting's fields."""
    return [name for name in map(str, frame.columns) if name not in {*COLUMNS, *ABOUT}]


def final_rows(tables: Sequence[pa.Table]) -> tuple[pa.Table, NDArray[np.int64]]:
    """Returns the final rows of tables one below the other, and the position of each one's table.

    Args:
        tables: with the columns :data:`ENDS` at least.

    Returns:
        (seeds, columns) :data:`ENDS`, and (seeds,).
    """
    empty = SCHEMA.empty_table().select(ENDS)
    every = pa.concat_tables([empty, *(table.select(ENDS) for table in tables)])
    lengths = np.array([table.num_rows for table in tables], dtype=np.int64)
    is_final = pc.equal(every["metric"], COMPLETED).combine_chunks()
    of_row = np.repeat(np.arange(len(tables)), lengths)
    return every.filter(is_final), of_row[is_final.to_numpy(zero_copy_only=False)]


def endings(tables: Mapping[str, pa.Table]) -> pd.DataFrame:
    """Returns the final row that counts for each seed.

    A completed row takes precedence over a failed one. Of several completed rows the first written
    counts, as it may have been read already; of several failed ones the last. If other code ran a
    seed again to its end, only the rows of that code count.

    Args:
        tables: file name to rows, in the order in which the files were written.

    Returns:
        (seeds, 8): the columns :data:`FINAL`, ``file``, and ``block``, the file's number of seeds.
    """
    final, of_row = final_rows([*tables.values()])
    files = pa.array(list(tables), pa.string()).take(pa.array(of_row))
    blocks = pa.array(np.bincount(of_row, minlength=len(tables))[of_row])
    final = final.select(FINAL).append_column("file", files).append_column("block", blocks)
    joined = _of_latest_code(final.to_pandas())
    rank = joined.index.to_series().where(joined["value"] > 0, -joined.index.to_series())
    ordered = joined.assign(rank=rank).sort_values(["value", "rank"], ascending=[False, True])
    ends: pd.DataFrame = ordered.drop_duplicates(RUN).sort_index().drop(columns="rank")
    return ends


def _of_latest_code(joined: pd.DataFrame) -> pd.DataFrame:
    """Removes final rows of a seed that other code superseded later."""
    code = joined[CODE].fillna("")
    if code.nunique() < 2:  # usual
        return joined
    ended = joined[OUTCOME].isin([COMPLETED, DIVERGED])
    latest = code[ended].groupby([joined.loc[ended, name] for name in RUN]).last()
    keys = pd.MultiIndex.from_frame(joined[RUN])
    superseded = ended & (code != latest.reindex(keys).set_axis(joined.index))
    return joined[~superseded]


def only(table: pa.Table, seeds: Sequence[int]) -> pa.Table:
    """Returns the rows of some seeds of a trial's table; all of them are of one setting."""
    present = pc.count_distinct(table["seed"]).as_py()
    if present == len(seeds):  # usual; saves comparing every row
        return table
    return table.filter(pc.is_in(table["seed"], pa.array(seeds, pa.int64())))


def run_keys(rows: pd.DataFrame) -> set[Key]:
    """Returns the setting's id and the seed of each run."""
    runs = rows[RUN].drop_duplicates()
    return {(str(sid), int(seed)) for sid, seed in runs.itertuples(index=False)}
