"""What goes wrong with a results folder."""

from __future__ import annotations

from nalu_ray.errors import printable


class StoreError(RuntimeError):
    """The results folder cannot be read or written; stored rows are unchanged."""


class ReadError(StoreError):
    """A file of the results folder exists but cannot be read; its content may be intact."""

    def __init__(self, path: str, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__(
            f"cannot read {printable(path)}: {printable(reason)}; nothing was changed; once it can "
            "be read, rerun the same command to resume"
        )
