"""Output files (tables, figures, the page), written completely or not at all."""

from __future__ import annotations

from pathlib import Path

from nalu_ray.results.store import raw


def write_bytes(path: Path, data: bytes) -> Path:
    """Writes a file under a temporary name, then renames it; creates its folder.

    Raises:
        OSError: it could not be written, with ``path`` as its file name; nothing is left behind.
    """
    try:
        raw.write_local(str(path.absolute()), data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


def write_text(path: Path, text: str) -> Path:
    """Writes a text as :func:`write_bytes` does."""
    return write_bytes(path, text.encode())
