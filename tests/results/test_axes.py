"""Headings of tables and figures."""

from __future__ import annotations

import pandas as pd
import pytest
from pydantic import ValidationError

from nalu_ray.results.analysis.axes import Heading, axis_column, headings
from nalu_ray.results.specs import Axis
from nalu_ray.tasks._recurrent_models import MODELS
from nalu_ray.tasks.gridworld import VARIANTS
from nalu_ray.tasks.language import MODELS as MODELS_OF_LANGUAGE
from nalu_ray.tasks.program import MODELS as PROGRAM
from nalu_ray.tasks.recurrent import GATED


def frame(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_rows_with_a_given_memory_stand_apart() -> None:
    settings = frame(
        layer=["lstm", "nac", "nac", "nalu"], memory_init=[110.0, None, 110.0, float("nan")]
    )
    keys = axis_column(settings, MODELS)
    assert keys.tolist() == ["lstm", "nac", "nac@memory_init", "nalu"]
    labels = [heading.label for heading in headings(MODELS, keys)]
    at = labels.index("NAC")
    assert labels[at : at + 3] == ["NAC", "NAC, memory given", "NALU"]


def test_a_memory_that_starts_near_the_identity_is_not_given() -> None:
    keys = axis_column(frame(layer=["nalu"] * 4, memory_init=[3.0, 110.0, 20.0, None]), MODELS)
    started = "nalu@memory_init<20"
    assert keys.tolist() == [started, "nalu@memory_init", "nalu@memory_init", "nalu"]
    labels = [heading.label for heading in headings(MODELS, keys)]
    at = labels.index("NALU")
    assert labels[at + 1 : at + 3] == ["NALU, identity start", "NALU, memory given"]
    assert MODELS.given[started] == "a start"


def test_every_unit_with_a_given_memory_says_so() -> None:
    keys = {name: f"{name}@memory_init" for name in ("nac", "nalu", "nac_nalu")}
    labels = {heading.key: heading.label for heading in headings(MODELS, keys.values())}
    for key in keys.values():
        assert labels[key].endswith(", memory given")
        assert MODELS.given[key].startswith("the recurrence")


def test_rows_of_a_version_without_the_field_do_not() -> None:
    keys = axis_column(frame(layer=["nac"]), MODELS)
    assert keys.tolist() == ["nac"]
    assert "NAC, memory given" not in {heading.label for heading in headings(MODELS, keys)}


def test_numbers_are_short_but_never_the_same_for_two() -> None:
    keys = axis_column(frame(lr=[0.1, 100.0, 1e-5, 0.1234567, 0.1234568, 1e22]), Axis(field="lr"))
    assert keys.tolist() == ["0.1", "100", "1e-05", "0.1234567", "0.1234568", "1e+22"]


def test_a_value_without_a_place_of_its_own_may_stand_apart_too() -> None:
    axis = Axis(field="layer", more={"b": "B"}, apart={"m": {"b": "B, given"}})
    assert headings(axis, ["b@m"]) == (Heading("b@m", "B, given"),)
    assert [h.label for h in headings(axis, ["b@m", "b", "a"])] == ["a", "B", "B, given"]


def test_the_controls_are_last() -> None:
    assert [h.label for h in headings(MODELS, [])][-2:] == [
        "sum (control)",
        "RNN, identity (control)",
    ]


def test_what_is_given_by_hand_is_named_in_every_task() -> None:
    language = MODELS_OF_LANGUAGE
    settings = frame(head=["none", "nalu", "nac", "nalu"], memory_init=[None, 110.0, 3.0, None])
    keys = axis_column(settings, language)
    assert keys.tolist() == ["none", "nalu@memory_init", "nac@memory_init<20", "nalu"]
    assert [language.given.get(key, "") for key in keys] == ["", "the recurrence", "a start", ""]
    labels = {heading.key: heading.label for heading in headings(language, keys)}
    assert labels["nalu@memory_init"] == "LSTM + NALU, memory given"
    assert labels["nac@memory_init<20"] == "LSTM + NAC, identity start"
    assert GATED.given["nalu"] == "a gate that starts open"
    assert GATED.given["nalu@memory_init<20"].endswith("and a gate that starts open")
    assert "nalu" not in MODELS.given  # the other tasks' gates start elsewhere
    assert "comparisons" in PROGRAM.given["nalu_lstm"]
    assert "latch" in VARIANTS.given["nac_core"]


@pytest.mark.parametrize("condition", ["lr<abc", "m < 20", "m>20", "m<", "", "m<nan"])
def test_a_condition_that_is_none_is_refused(condition: str) -> None:
    with pytest.raises(ValidationError, match="write a field, or field<number"):
        Axis(field="layer", apart={condition: {"nalu": "NALU, apart"}})
