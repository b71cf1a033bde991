"""Digests over all bytes of a file, kept in the file: they reveal changes by a faulty disk."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

MARK = b"\nnalu_ray sha256 "
_DIGITS = 64
_LENGTH = len(MARK) + _DIGITS
_ZIP_END = b"PK\x05\x06"
_ZIP_END_LENGTH = 22

KEY = "nalu_ray.sha256"
IN_JSON = "sha256"
BLANK = "0" * _DIGITS
# the key in the footer of a Parquet file, then two bytes that say that 64 characters follow
_IN_FOOTER = re.compile(re.escape(KEY.encode()) + rb"..(.{64})", re.DOTALL)


class DamagedError(ValueError):
    """A file has changed since it was written."""


def seal(data: bytes) -> bytes:
    """Returns data with its digest at the end; in a zip archive, as the comment."""
    if data[-_ZIP_END_LENGTH:].startswith(_ZIP_END):
        data = data[:-2] + _LENGTH.to_bytes(2, "little")
    return data + MARK + hashlib.sha256(data).hexdigest().encode()


def is_sealed(data: bytes) -> bool:
    """Returns whether data ends with a digest; older files do not."""
    return data[-_LENGTH:].startswith(MARK)


def check(data: bytes) -> None:
    """Verifies the digest of data from :func:`seal`; accepts data without a digest.

    Raises:
        DamagedError: the data has changed.
    """
    if is_sealed(data):
        _compare(data[:-_LENGTH], data[-_DIGITS:])


def unsealed(data: bytes) -> bytes:
    """Verifies the digest of data and returns the data without it.

    Raises:
        DamagedError: the data has changed.
    """
    check(data)
    return data[:-_LENGTH] if is_sealed(data) else data


def seal_json(values: Mapping[str, Any]) -> bytes:
    """Returns a JSON object with a digest of its other values under :data:`IN_JSON`.

    What JSON has no form for becomes text.
    """
    plain = json.loads(json.dumps(values, default=str))
    return json.dumps({**plain, IN_JSON: _of_json(plain)}, indent=1).encode()


def json_values(data: bytes) -> Any:
    """Verifies the digest of JSON and returns its values without it; accepts JSON without a digest.

    Raises:
        DamagedError: the values have changed.
        ValueError: it is not JSON.
    """
    try:
        values = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if isinstance(values, dict) and IN_JSON in values:
        digest = values.pop(IN_JSON)
        if digest != _of_json(values):
            raise DamagedError("changed since it was written: its digest is another")
    return values


def unsealed_json(data: bytes) -> bytes:
    """Returns JSON without its digest; see :func:`json_values`."""
    return json.dumps(json_values(data)).encode()


def _of_json(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def seal_rows(data: bytes) -> bytes:
    """Fills in the digest of a Parquet file that has :data:`BLANK` under :data:`KEY`."""
    start, end = _place(data)
    digest = hashlib.sha256(data).hexdigest().encode()
    return data[:start] + digest + data[end:]


def check_rows(data: bytes) -> bool:
    """Returns whether a Parquet file has a digest, and verifies it.

    Raises:
        DamagedError: the file has changed.
    """
    start, end = _place(data)
    if start < 0:
        return False
    _compare(data[:start] + BLANK.encode() + data[end:], data[start:end])
    return True


def _place(data: bytes) -> tuple[int, int]:
    start = data.rfind(KEY.encode())
    match = _IN_FOOTER.match(data, start) if start >= 0 else None
    return (-1, -1) if match is None else match.span(1)


def _compare(data: bytes, digest: bytes) -> None:
    if hashlib.sha256(data).hexdigest().encode() != digest:
        raise DamagedError("damaged: it has another digest than when it was written")
