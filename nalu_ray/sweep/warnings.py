"""Passes on a process's warnings, those of the ``warnings`` module and logged ones, each once."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Callable
from types import TracebackType

from nalu_ray.errors import printable

_PLACE = re.compile(r"^.*?:\d+: (?=\w+: )", re.DOTALL)


class WarningRelay(logging.Handler):
    """A context that passes on every warning and error except Ray's, each text once.

    Args:
        tell: gets the text.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.tell = tell
        self.seen: set[str] = set()

    def handle(self, record: logging.LogRecord) -> bool:
        """Passes a message on; a failure to do so never reaches the code that logs."""
        with contextlib.suppress(Exception):
            return bool(super().handle(record))
        return False

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] == "ray":
            return
        text = record.getMessage()
        if record.name == "py.warnings":  # "file:line: Category: text", then the line of source
            text = _PLACE.sub("", text).split("\n")[0]
        text = printable(text, keep="\n")
        if text not in self.seen:
            self.seen.add(text)
            self.tell(text)

    def __enter__(self) -> WarningRelay:
        # within another relay, the outer one passes everything on
        self._shown = warnings.showwarning
        logging.captureWarnings(True)
        logging.getLogger().addHandler(self)
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        logging.getLogger().removeHandler(self)
        logging.captureWarnings(False)
        warnings.showwarning = self._shown
