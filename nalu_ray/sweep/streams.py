"""Standard streams that never raise: a reader that is gone must not fail a trial that prints."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any


class Forgiving:
    """A stream that drops what cannot be written; everything else is the inner stream's.

    Args:
        inner: the stream; None where there is none, as ``2>&-`` leaves it.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        """Writes a text if it can."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._inner.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes lines if it can."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flushes if it can."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._inner.flush()

    def isatty(self) -> bool:
        """Whether it is a terminal's."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return bool(self._inner.isatty())
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextlib.contextmanager
def forgiving() -> Iterator[None]:
    """Makes ``sys.stdout`` and ``sys.stderr`` :class:`Forgiving` while entered."""
    out, err = sys.stdout, sys.stderr
    with (
        contextlib.redirect_stdout(Forgiving(out)),
        contextlib.redirect_stderr(Forgiving(err)),
    ):
        yield
