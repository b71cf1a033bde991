"""Standard streams that survive write errors, so that no print ends a command or a trial."""

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
    """A standard stream that drops its output after the first write error.

    Characters that its encoding lacks are written in ASCII.

    Attributes:
        error: the first write error; None without one.
    """

    def __init__(self, inner: Any) -> None:
        self.inner, self.error = inner, None
        with contextlib.suppress(AttributeError, OSError, ValueError):
            inner.reconfigure(errors=ERRORS)

    error: Exception | None

    @property
    def lost(self) -> str | None:
        """The reason if wanted output was lost; None if the reader left by itself."""
        gone = (errno.EPIPE, errno.EIO, errno.ECONNRESET)  # EIO: a closed terminal
        if not isinstance(self.error, OSError) or self.error.errno in gone:
            return None
        return self.error.strerror

    def write(self, text: str) -> int:
        """Writes a text, or drops it after an error."""
        if self.error is None:
            try:
                self.inner.write(text)
            except UnicodeEncodeError:  # the stream could not be reconfigured
                self.write(text.encode("ascii", ERRORS).decode("ascii"))
            except (AttributeError, OSError, ValueError) as error:  # ValueError: it was closed
                self._give_up(error)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes texts, or drops them after an error."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flushes the stream, or drops its buffer after an error."""
        if self.error is None:
            try:
                self.inner.flush()
            except (AttributeError, OSError, ValueError) as error:
                self._give_up(error)

    def isatty(self) -> bool:
        """Returns whether the stream is an open terminal."""
        with contextlib.suppress(AttributeError, OSError, ValueError):
            return bool(self.inner.isatty())
        return False

    def _give_up(self, error: Exception) -> None:
        self.error = error
        # its buffer would fail again when the interpreter exits
        with contextlib.suppress(AttributeError, OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.inner.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextlib.contextmanager
def lasting() -> Iterator[Stream]:
    """Replaces ``sys.stdout`` and ``sys.stderr`` by a :class:`Stream` each; yields the first.

    Output to a stream that was closed before the program started is dropped.
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
    """Reopens closed standard files, so that no results file gets one of their numbers."""
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
