"""The eleven tables of "Neural Arithmetic Logic Units" (Trask et al., 2018), as printed.

One CSV per table in ``published/``, numbered as the tables stand in the paper's text, appendix
included; one line per value, in reading order. Where a printed heading is not already the id:

| table | row | column |
|---|---|---|
| 1 | operation | ``static_<layer>``, ``recurrent_<model>``; its recurrent "ReLU" is ``rnn_relu`` |
| 2 | model | ``<counting or addition>_classification``, ``..._mae_<length>`` |
| 10 | model | as table 2, with ``mse`` for ``mae`` |
| 3, 11 | ``lstm lstm_nac lstm_nalu``, ``lstm_final lstm_summed`` | ``mae`` |
| 4 | last layer: see below | ``accuracy``, in per cent |
| 5 | activation | ``error``, ``percent_error`` |
| 6, 7 | operation | layer |
| 8, 9 | model; the "tanh" and "ReLU" of table 9 are ``rnn_tanh``, ``rnn_relu`` | operation |

Rows of table 4: ``segui_affine`` (Wx + b, as Segui et al. report it), ``affine`` (Wx + b, the
paper's own run), ``sigmoid_bias`` and ``tanh_bias`` (s(W)x + b), ``linear`` (Wx), ``sigmoid`` and
``tanh`` (s(W)x), ``nac``.

Values are kept as printed, misprints too: table 1 has 863.5 where table 9 has 862.5; in table 7,
sqrt, interpolation, tanh 31.6 and sigmoid 24.2 are not the ratios of table 6's errors (0.8, 0.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

TABLES = range(1, 12)


@dataclass(frozen=True)
class Published:
    """One printed value.

    Attributes:
        text: as printed, e.g. ``<.0001`` or ``98.29%``.
        value: the number in ``text``; percentages stay per cent (98.29).
        qualifier: ``<`` or ``>`` where ``value`` is only a bound, else empty.
        bold: whether the paper prints it in bold, its mark for the best score.
    """

    text: str
    value: float
    qualifier: str
    bold: bool


def load(table: int) -> pd.DataFrame:
    """One published table.

    Args:
        table: 1 to 11, as numbered in the paper.

    Returns:
        (values, 8) in reading order, columns ``table row column split text value qualifier bold``.
        The caller owns it: changing it does not change what the next call gives.

    Raises:
        ValueError: if the paper has no such table.
    """
    return _read(_checked(table)).copy()


def lookup(table: int, row: str, column: str, split: str) -> Published | None:
    """The printed value of one cell, or None where the paper's table has no such cell.

    Raises:
        ValueError: if the paper has no such table.
    """
    return _index(_checked(table)).get((row, column, split))


def reasons() -> dict[int, str]:
    """Why our numbers of each table may differ from the printed ones, one reason per table."""
    return {int(line.table): line.reason for line in _reasons() if not line.verdict}


def reason(table: int, place: tuple[str, str, str], verdict: str) -> str:
    """Why our number at a place differs from the printed one, or why none can be the same.

    Args:
        table: 1 to 11.
        place: row, column and split.
        verdict: how ours differs, such as ``worse``.

    Returns:
        One or two sentences; empty if nothing is said of this verdict at this place.
    """
    for line in _reasons():
        asked = zip((line.row, line.column, line.split), place, strict=True)
        if (int(line.table), line.verdict) == (table, verdict) and all(
            not names or name in names.split() for names, name in asked
        ):
            return line.reason
    return ""


class _Reason(NamedTuple):
    """One line: names are separated by blanks, and an empty text stands for all of them."""

    table: str
    row: str
    column: str
    split: str
    verdict: str
    reason: str


@cache
def _reasons() -> tuple[_Reason, ...]:
    resource = files("nalu_ray.results") / "published" / "reasons.csv"
    with resource.open(encoding="utf-8") as lines:
        frame = pd.read_csv(lines, dtype=str, keep_default_na=False)
    return tuple(_Reason(*line) for line in frame.itertuples(index=False))


def _checked(table: int) -> int:
    if table not in TABLES:
        allowed = f"{TABLES[0]}..{TABLES[-1]}"
        raise ValueError(f"no published table {table!r}; the paper's tables are {allowed}")
    return int(table)


@cache
def _read(table: int) -> pd.DataFrame:
    resource = files("nalu_ray.results") / "published" / f"table_{table:02d}.csv"
    with resource.open(encoding="utf-8") as lines:
        # Everything is text here: a layer is called "none", and "0.0" must stay as printed.
        raw = pd.read_csv(lines, dtype=str, keep_default_na=False)
    text = raw["value"]
    return pd.DataFrame(
        {
            "table": raw["table"].astype(int),
            "row": raw["row"],
            "column": raw["column"],
            "split": raw["split"],
            "text": text,
            "value": text.str.strip("<>%").astype(float),
            "qualifier": text.str.extract("^([<>]?)", expand=False),
            "bold": raw["bold"].map({"true": True, "false": False}).astype(bool),
        }
    )


@cache
def _index(table: int) -> dict[tuple[str, str, str], Published]:
    frame = _read(table)
    keys = zip(frame["row"], frame["column"], frame["split"], strict=True)
    values = zip(frame["text"], frame["value"], frame["qualifier"], frame["bold"], strict=True)
    return {
        key: Published(text, float(value), qualifier, bool(bold))
        for key, (text, value, qualifier, bold) in zip(keys, values, strict=True)
    }
