"""Files of plain tensors and values, which run no code when they are read."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch


def to_bytes(saved: dict[str, Any], error: type[Exception]) -> bytes:
    """Returns what :func:`from_bytes` reads.

    Raises:
        error: there is more than plain values in it, which no one could read again.
    """
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    data = buffer.getvalue()
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except pickle.UnpicklingError as cause:
        values = {key: value for key, value in saved.items() if key != "weights"}
        raise error(f"more than plain values: {values}") from cause
    return data


def from_bytes(
    data: bytes, name: str, *, noun: str, form: str, error: type[Exception]
) -> dict[str, Any]:
    """Reads a file's values onto the CPU.

    Args:
        data: of the file.
        name: of the file, which messages start with.
        noun: what it should be.
        form: what its key ``format`` should say.
        error: what is raised.

    Raises:
        error: it is no such file.
    """
    try:
        saved = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as cause:  # torch's own text recommends to run the file's code
        reason = "it is cut off, or holds more than plain values"
        raise error(f"{name}: cannot be read as {_a(noun)}: {reason}") from cause
    except Exception as cause:  # torch.load raises whatever the bytes lead it to
        raise error(unreadable(name, noun, cause)) from cause
    if not isinstance(saved, dict) or saved.get("format") != form:
        raise error(f"{name}: not written by nalu_ray as {_a(noun)} ({form})")
    return saved


def unreadable(name: str, noun: str, cause: Exception) -> str:
    """Returns a message of one line that says why a file cannot be read."""
    reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    return f"{name}: cannot be read as {_a(noun)}: {reason}"


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
