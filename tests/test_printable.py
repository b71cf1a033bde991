"""Texts that a terminal may see."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from nalu_ray.command import execution, exits
from nalu_ray.errors import ConfigError, printable
from nalu_ray.input.values import check_text
from nalu_ray.sweep.warnings import WarningRelay


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"), ("größer ×10⁻³ √ ‡", "größer ×10⁻³ √ ‡"), ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc", "a\\nb\\tc"), ("\x9b2J\x7f", "\\x9b2J\\x7f"), ("\udce4", "\\udce4"),
        ("\u202egnp.exe", "\\u202egnp.exe"), ("\u2028", "\\u2028"), ("👩\u200d🔬", "👩\u200d🔬"),
        (ValueError("no\r"), "no\\r"),
    ],
)  # fmt: skip
def test_what_a_terminal_would_act_on_is_written_out(text: object, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_it_is_one_line_that_any_stream_takes(text: str) -> None:
    shown = printable(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert printable(shown) == shown


def test_lines_may_be_kept() -> None:
    assert printable("a\n\x1bb", keep="\n") == "a\n\\x1bb"


def test_texts_of_settings() -> None:
    check_text("op", '{"a": [1, [2]], "b": "é"}')
    check_text("op", "a" * 10_000)
    check_text("op", "[" * 32)
    for text in ("a" * 10_001, "a\x00", "[" * 33, '{"a":' * 33, "a\nb"):
        with pytest.raises(ValueError, match=r"^op"):
            check_text("op", text)


def test_warnings_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        with WarningRelay(lambda text: print(f"warning: {text}", file=sys.stderr)):
            logging.getLogger("x").warning("of \x1b[2J")
        raise ConfigError(["no \x1b]0;title\x07", "two\nlines"])

    assert exits.guarded(command) == 2
    err = capsys.readouterr().err
    assert err == "warning: of \\x1b[2J\nerror: no \\x1b]0;title\\x07\nerror: two\nlines\n"


def test_reasons_of_failures() -> None:
    console = Console(file=io.StringIO(), width=200)
    execution.print_lines(console, ["failed: 1 seed: \x1b[31mred\x1b[0m"])
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "failed: 1 seed: \\x1b[31mred\\x1b[0m\n"
