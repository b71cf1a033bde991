"""What a Parquet file says of itself, looked at before its rows are: is it as large as it seems?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MAGIC = b"PAR1"
COLUMNS = 500
GROUPS = 1000
ROWS = 250_000  # and above that, one for two bytes of the file: numbers do not compress further
UNPACKED = 64 << 20  # bytes, and above that, so many times the file's size:
RATIO = 50
SMALL = 1 << 20  # a file of so many bytes is read at once
_FOOTER = 16 << 20


def check(file: pq.ParquetFile, size: int) -> None:
    """Refuses a file that would unpack to far more than it is, or has columns that rows never have.

    Args:
        file: the open file.
        size: its bytes.

    Raises:
        ValueError: it is refused, with the reason.
    """
    about = file.metadata
    if about.num_columns > COLUMNS:
        raise ValueError(f"{about.num_columns:,} columns, more than {COLUMNS}")
    if not 0 <= about.num_rows <= max(ROWS, size // 2):
        raise ValueError(f"{about.num_rows:,} rows in {size:,} bytes")
    if about.num_row_groups > GROUPS:
        raise ValueError(f"{about.num_row_groups:,} groups of rows, more than {GROUPS}")
    unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    if not 0 <= unpacked <= max(UNPACKED, RATIO * size):
        raise ValueError(f"{unpacked:,} bytes in a file of {size:,}")
    for item in file.schema_arrow:
        if not _is_plain(item.type):
            raise ValueError(f"column {item.name[:60]!r} is of type {str(item.type)[:60]}")


def check_large(stream: Any, size: int) -> None:
    """Does the same for a file that has not been read yet, from its last bytes.

    Raises:
        OSError: it cannot be read.
        ValueError: it is refused.
    """
    end = _last(stream, size, 8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or length > min(_FOOTER, size):
        raise ValueError("it has no end of a Parquet file")
    alone = MAGIC + _last(stream, size, length + 8)
    check(pq.ParquetFile(pa.BufferReader(alone)), size)


def _last(stream: Any, size: int, length: int) -> bytes:
    stream.seek(size - length)
    data = b""
    while len(data) < length and (part := stream.read(length - len(data))):
        data += part
    return data


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating,
        pa.types.is_string, pa.types.is_large_string,
    )  # fmt: skip
    return any(test(kind) for test in tests)
