"""Numbers and stored values as they are printed."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd

MISSING = "–"
CAP = 999.9  # the paper prints >999.9 for what is worse than ten random models


def number(value: float, style: str, *, capped: bool = False) -> str:
    """Returns a number as the paper prints it.

    Args:
        value: the number; what is not finite prints as infinity.
        style: a format of Python's, except that ``.4g`` means the style of table 6: four digits
            above 1, four decimals and no leading zero below it, ``<.0001`` below that.
        capped: print ``>999.9`` for anything above.
    """
    if capped and (not math.isfinite(value) or round(value, 1) > CAP):
        return f">{CAP}"
    if not math.isfinite(value):
        return "-∞" if value == -math.inf else "∞"
    if style.startswith(".") and style.endswith("g"):
        return "-" * (value < 0) + _significant(abs(value), int(style[1:-1]))
    text = format(value, style)
    # a rounded -0.04 is no negative number
    return text.lstrip("-") if not any(digit in text for digit in "123456789") else text


def _significant(value: float, digits: int) -> str:
    if value < 10.0**-digits:
        return "<." + "0" * (digits - 1) + "1"
    below_one = f"{value:.{digits}f}"
    if below_one.startswith("0."):
        return below_one[1:]
    power = int(f"{value:.{digits - 1}e}".split("e")[1])
    if power >= digits + 3:
        return f"{value:.2e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.{max(0, digits - 1 - power)}f}"


def stored(value: Any) -> str:
    """Returns a setting's value as axes and labels name it.

    ``100.0`` is ``100``: a whole number comes back as a float when another file lacks the column.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if not value.is_integer() or abs(value) >= 1e15 else str(int(value))
    return str(value)


def in_full(value: Any) -> str:
    """Returns a stored value in full: equal values give equal texts, however they were stored."""
    if isinstance(value, str) and value.startswith("["):
        try:
            return in_full(json.loads(value))
        except (ValueError, RecursionError):
            return value
    if isinstance(value, list | tuple):
        return ":".join(map(in_full, value))
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "none" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)


def stored_column(frame: pd.DataFrame, field: str) -> pd.Series[Any]:
    """Returns a setting's field as :func:`stored` texts, missing where it is missing."""
    if field not in frame:
        return pd.Series([None] * len(frame), index=frame.index, dtype=object)
    column = frame[field].astype(object)
    names = {value: stored(value) for value in column.dropna().unique()}
    return column.map(names)
