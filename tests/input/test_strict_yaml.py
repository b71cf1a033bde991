"""The one YAML loader: plain values, keys that stand twice, bounds."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nalu_ray.input import strict_yaml
from nalu_ray.input.strict_yaml import YAMLError, load


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:3", "1:3"),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("1e5", 1e5),
        ("1e-3", 1e-3),
        ("1.", 1.0),
        (".5", 0.5),
        ("-2", -2),
        ("+2", 2),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1_0", "1_0"),
        ("0b1", "0b1"),
        ("yes", "yes"),
        ("off", "off"),
        ("none", "none"),
        ("~", None),
        ("", None),
        ("null", None),
        ("TRUE", True),
        ("false", False),
        ("2020-01-01", "2020-01-01"),
        ("=", "="),
        ("-.inf", -math.inf),
        ("'1'", "1"),
        ("[a, 1, {b: 2.0}]", ["a", 1, {"b": 2.0}]),
        (b"\xef\xbb\xbfa: \xc3\xa9", {"a": "é"}),
        ("x: &a {p: 1, q: 2}\ny: {<<: *a, q: 3}", {"x": {"p": 1, "q": 2}, "y": {"p": 1, "q": 3}}),
    ],
)
def test_values_are_yaml_1_2(text: bytes | str, value: Any) -> None:
    found = load(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_one() -> None:
    assert math.isnan(load(".nan"))


def test_a_merged_mapping_may_be_merged_again() -> None:
    text = "a: &a {p: 1}\nb: &b {<<: *a, q: 2}\nc: {<<: *b, p: 3}\nd: {<<: *b}"
    assert load(text)["c"] == {"p": 3, "q": 2}
    assert load(text)["d"] == {"p": 1, "q": 2}


@pytest.mark.parametrize("key", ["p", "penalty"])
def test_what_is_merged_yields_to_what_stands_before_it_and_to_the_mappings_own(key: str) -> None:
    """PyYAML compares keys by identity, which only texts of one character share."""
    text = f"a: &a {{{key}: 1, a: 0}}\nb: &b {{<<: *a, {key}: 2}}\n" + "\n".join(
        f"{name}: {{{merge}}}"
        for name, merge in {
            "again": "<<: *b",
            "first": "<<: [*a, *b]",
            "second": "<<: [*b, *a]",
            "own": f"{key}: 3, <<: [*a, *b]",
        }.items()
    )
    found = load(text)
    assert {name: found[name][key] for name in ("b", "again", "first", "second", "own")} == {
        "b": 2,
        "again": 2,
        "first": 1,
        "second": 2,
        "own": 3,
    }
    assert all(found[name]["a"] == 0 for name in ("again", "first", "second", "own"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<<: [{a: 1}, 3]", "line 1: '<<' needs a mapping or a list of mappings"),
        ("a: 1\nb: 2\na: 3", "line 3: 'a' stands twice in a mapping, first in line 1"),
        ("x: {lr: 1, 'lr': 2}", "'lr' stands twice"),
        ("x: &a {p: 1}\ny: &b {q: 1}\nz:\n  <<: *a\n  <<: *b", "'<<' stands twice"),
        ("? [a]\n: 1", "a key must be a plain value"),
        ("[1", "did not find expected"),
        ("a: 1\n---\nb: 2", "line"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("!!set {a, b}", "could not determine a constructor"),
        ("!!timestamp 2020-01-01", "could not determine a constructor"),
        ("!!binary aGk=", "could not determine a constructor"),
        ("!!int abc", "'abc' is not a whole number"),
        ("!!float abc", "'abc' is not a number"),
        ("!!int 1_0", "'1_0' is not a whole number"),
        ("!!float 1_0", "'1_0' is not a number"),
        ("!!int \u0663", "is not a whole number"),
        ("!!bool maybe", "'maybe' is not true or false"),
        ("!!null 5", "'5' is not null"),
        ("{1: a, 0x1: b}", "'0x1' stands twice"),
        ("{1: a, 1.0: b}", "'1.0' stands twice"),
        ("{true: a, True: b}", "'True' stands twice"),
        ("{~: a, null: b}", "'null' stands twice"),
        ("a: \ud800", "half a character"),
        ("&a [*a]", "alias *a names nothing above"),
        ("*b", "alias *b names nothing above"),
        ("<<: 3", "line 1"),
        (b"a: \xff", "not UTF-8 at byte 3"),
        ("a: \x01", "characters are not allowed"),
        ("a: " + "9" * 5000, "a number of 5,000 digits"),
        ("a: " + "0x" + "f" * 5000, "a number of 5,002 digits"),
        ("[" * 50_000, "nest"),
        ("{a: " * 50_000, "nested more than 40 deep"),
        ("[" + "0," * 60_000 + "]", "more than 50,000 values"),
        ("[" + "0," * 490_000 + "]", "more than 512 KiB"),
    ],
)
def test_what_is_refused_is_said_in_one_line(text: bytes | str, words: str) -> None:
    with pytest.raises(YAMLError) as caught:
        load(text)
    message = str(caught.value)
    assert words in message
    assert len(message) < 250
    assert "\n" not in message


def test_aliases_count_as_all_that_they_repeat() -> None:
    levels = [f"l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * 9)}]" for k in range(1, 12)]
    with pytest.raises(YAMLError, match="more than 50,000 values, aliases written out"):
        load("\n".join(["l0: &l0 [x]", *levels]))
    merged = [f"m{k}: &m{k} {{a{k}: *m{k - 1}, b{k}: *m{k - 1}}}" for k in range(1, 30)]
    with pytest.raises(YAMLError, match="aliases written out"):
        load("\n".join(["m0: &m0 {x: 1}", *merged]))


def test_no_more_of_a_file_is_read_than_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(YAMLError, match="more than 512 KiB"):
        strict_yaml.read(Path("/dev/zero"))
    file = tmp_path / "file.yaml"
    file.write_text("a: 1:3")
    assert strict_yaml.read(file) == {"a": "1:3"}


def test_a_pipe_that_nobody_writes_to_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert strict_yaml.read(tmp_path / "pipe") is None


def test_without_libyaml_it_is_the_same() -> None:
    code = (
        "import sys, yaml; del yaml.CSafeLoader\n"
        "from nalu_ray.input.strict_yaml import load, YAMLError\n"
        "assert load('{a: 1:3, b: 1e5, c: [~]}') == {'a': '1:3', 'b': 1e5, 'c': [None]}\n"
        "for bad in ('a: 1\\na: 2', '[' * 9000, '&a [*a]'):\n"
        "    try: load(bad)\n"
        "    except YAMLError: continue\n"
        "    sys.exit(bad)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
