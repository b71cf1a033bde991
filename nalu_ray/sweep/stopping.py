"""Errors that end a sweep instead of failing a seed: unusable storage, or a lost Ray."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from nalu_ray.results.store.errors import StoreError

GOES_ON = "finished trials are stored; once this works again, rerun the same command to resume"

# full, read-only, broken or unmounted disks
_NUMBERS = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EROFS", "EIO", "ESTALE", "ENODEV", "ENOTCONN")
    if hasattr(errno, name)
}
_TEXTS = (
    *(os.strerror(getattr(errno, name)) for name in ("ENOSPC", "EROFS", "EIO")),
    "Disk quota exceeded",
    "PytorchStreamWriter failed",  # torch gives no reason
    "local disk is full",  # Ray, about its own folder
)


class StoppedError(RuntimeError):
    """Storage or Ray can no longer be used; rows and states are kept."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; {GOES_ON}")


def storage(error: BaseException | None) -> StoreError | None:
    """Returns an error, or its cause, as an error of storage; None for other errors.

    A library may hide the system's error in the cause, in the context, or in the text.
    """
    for part in _chain(error):
        if isinstance(part, StoreError):
            return part
        if isinstance(part, OSError) and part.errno in _NUMBERS:
            return StoreError(_line(part))
        if isinstance(part, Exception) and any(text in str(part) for text in _TEXTS):
            return StoreError(_line(part))
    return None


def raise_storage(error: BaseException) -> None:
    """Raises an error of storage as a StoreError; returns for other errors.

    Raises:
        StoreError: the error is one of storage.
    """
    broken = storage(error)
    if broken is error:
        raise broken
    if broken is not None:
        raise broken from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error, its causes and its contexts, each once."""
    waiting, seen = [error], set()
    while waiting:
        part = waiting.pop(0)
        if not isinstance(part, BaseException) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        # `cause` is Ray's, `exceptions` a group's; the context counts even after `from None`
        waiting += [getattr(part, "cause", None), part.__cause__, part.__context__]
        waiting += getattr(part, "exceptions", ())


def _line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if any(text in line for text in _TEXTS)]
    return f"{type(error).__name__}: {(telling or lines or [''])[0].strip()}"
