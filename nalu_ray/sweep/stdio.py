"""Standard streams that outlast their reader: a print that fails ends neither command nor trial."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

ERRORS = "nalu_ray.plain"
PLAIN = {
    **{"–": "-", "—": "-", "−": "-", "‑": "-", "×": "x", "±": "+-", "…": "...", "•": "*"},
    **{"·": "*", "√": "sqrt ", "²": "^2", "³": "^3", "÷": "/", "≤": "<=", "≥": ">=", "≈": "~"},
    **{"∞": "inf", "‡": "++", "░": ".", "█": "#", "▌": "#", "▐": "#"},
    **{"“": '"', "”": '"', "‘": "'", "’": "'", "→": "->", "\u00a0": " ", "\u202f": " "},
    **{"σ": "sigma", "μ": "mu", "µ": "u", "γ": "gamma", "λ": "lambda"},
}


class Stream:
    """A standard stream that goes silent once it cannot be written; else it is the inner one.

    What the inner one's encoding lacks is written in ASCII.

    Attributes:
        error: why nothing is written any more; none while all is well.
    """

    def __init__(self, inner: Any) -> None:
        self.inner, self.error = inner, None
        with contextlib.suppress(AttributeError, OSError, ValueError):
            inner.reconfigure(errors=ERRORS)

    error: Exception | None

    @property
    def lost(self) -> str | None:
        """Why text was lost that somebody may want: not where the reader has left."""
        gone = (errno.EPIPE, errno.EIO, errno.ECONNRESET)  # EIO: a terminal that was closed
        if not isinstance(self.error, OSError) or self.error.errno in gone:
            return None
        return self.error.strerror

    def write(self, text: str) -> int:
        """Writes a text, or drops it."""
        if self.error is None:
            try:
                self.inner.write(text)
            except UnicodeEncodeError:  # it could not be made to write such text otherwise
                self.write(text.encode("ascii", ERRORS).decode("ascii"))
            except (AttributeError, OSError, ValueError) as error:  # the last: it was closed
                self._give_up(error)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes texts, or drops them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Hands on what was written, or drops it."""
        if self.error is None:
            try:
                self.inner.flush()
            except (AttributeError, OSError, ValueError) as error:
                self._give_up(error)

    def isatty(self) -> bool:
        """Whether it is a terminal's; not one that was closed."""
        with contextlib.suppress(AttributeError, OSError, ValueError):
            return bool(self.inner.isatty())
        return False

    def _give_up(self, error: Exception) -> None:
        self.error = error
        # what it still holds would fail again as the interpreter ends
        with contextlib.suppress(AttributeError, OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.inner.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextlib.contextmanager
def lasting() -> Iterator[Stream]:
    """Makes ``sys.stdout`` and ``sys.stderr`` a :class:`Stream` each; yields the first.

    A stream that was closed before the program began leads to nowhere.
    """
    before = sys.stdout, sys.stderr
    _occupy()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        out, err = (Stream(nowhere if inner is None else inner) for inner in before)
        sys.stdout, sys.stderr = out, err
        try:
            yield out
        finally:
            out.flush()
            err.flush()
            sys.stdout, sys.stderr = before


def _occupy() -> None:
    """Opens what was closed of the first three files: else a file of results might become one."""
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_ascii, text)), error.end


def _ascii(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    if parts[0].isascii() and all(map(unicodedata.combining, parts[1:])):
        return parts[0]
    return PLAIN.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(ERRORS, _plain)
