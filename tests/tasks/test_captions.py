"""Captions, percentages, shades and labels say what the rows were run with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from nalu_ray.registry import tasks
from nalu_ray.results.analysis.table import Table, build
from nalu_ray.results.analysis.text import filled
from nalu_ray.results.output import figures
from nalu_ray.results.output.captions import captions
from nalu_ray.results.specs import Axis, FigureSpec, TableSpec
from nalu_ray.results.store.rows import COLUMNS, COMPLETED

BRACES = re.compile(r"\{(\w+)\}")
NAMES = sorted(tasks())


def specs_of(name: str) -> list[TableSpec | FigureSpec]:
    specs = tasks()[name].specs()
    return [*specs.tables, *specs.figures]


def spec_of(name: str, of: str, kind: type[Any] = TableSpec) -> Any:
    (spec,) = [s for s in specs_of(name) if s.name == of and isinstance(s, kind)]
    return spec


def rows_of(
    name: str, *settings: Mapping[str, Any], logged: Sequence[tuple[str, str, float]] = ()
) -> pd.DataFrame:
    """A seed of each setting, as it is stored; ``logged`` has metric, split and value."""
    task, rows = tasks()[name], []
    for changes in settings:
        setting = task.setting_type.model_validate(changes)
        fields = {
            field: json.dumps(value) if isinstance(value, list | dict) else value
            for field, value in setting.model_dump(mode="json").items()
        }
        base = {"task": name, "setting_id": setting.id, "seed": 0, "step": 10, "reason": None}
        for metric, split, value in [*logged, (COMPLETED, "train", 1.0)]:
            numbers = {"metric": metric, "split": split, "value": value, "x": None}
            numbers["outcome"] = COMPLETED if metric == COMPLETED else None
            rows.append({**base, **numbers, **fields})
    return pd.DataFrame(rows).reindex(columns=[*COLUMNS, *task.setting_type.model_fields])


def caption(name: str, of: str, *settings: Mapping[str, Any]) -> str:
    return captions(build(spec_of(name, of), rows_of(name, *settings)))[0]


def texts(spec: TableSpec | FigureSpec) -> list[str]:
    """Every text of a specification that is printed."""
    axes = [axis for axis in vars(spec).values() if isinstance(axis, Axis)]
    labels = [label for axis in axes for label in (*axis.labels.values(), *axis.more.values())]
    if isinstance(spec, FigureSpec):
        return [spec.caption, spec.x_label, spec.y_label, *labels]
    return [spec.caption, *(measure.label for measure in spec.measures.values()), *labels]


@pytest.mark.parametrize("name", NAMES)
def test_texts_name_fields_of_the_tasks_settings_and_are_filled(name: str) -> None:
    fields = tasks()[name].setting_type.model_fields
    rows = rows_of(name, {})
    for spec in specs_of(name):
        named = {field for text in texts(spec) for field in BRACES.findall(text)}
        words = [text for known in spec.words.values() for text in known.values()]
        named |= {field for text in words for field in BRACES.findall(text)}
        assert {*named, *spec.words, *spec.paper} <= set(fields), spec.name
        done = filled(spec, rows)
        assert not any("{" in text for text in texts(done)), spec.name
        assert "[" not in done.caption
        assert filled(done, rows) == done
        # where it knows what the paper has, the caption of the defaults names what they have not
        assert ("Unlike the paper" in done.caption) == any(
            str(fields[field].default) != value and json.dumps(fields[field].default) != value
            for field, value in spec.paper.items()
            if not isinstance(fields[field].default, tuple)
        )


@pytest.mark.parametrize("name", NAMES)
def test_no_number_in_a_caption_is_the_default_of_a_field(name: str) -> None:
    defaults = {
        str(part)
        for info in tasks()[name].setting_type.model_fields.values()
        for part in (info.default if isinstance(info.default, tuple) else (info.default,))
        if isinstance(part, int) and not isinstance(part, bool) and part > 1
    }
    # lengths of the tested series are no fields, as is the longest
    allowed = {"10", "100", "1000"} if name.startswith("mnist") else set()
    allowed |= {"10"} if name == "comparison" else set()  # sizes are powers of ten
    for spec in specs_of(name):
        here = BRACES.sub(
            "", " ".join([spec.caption, *(v for w in spec.words.values() for v in w)])
        )
        numbers = set(re.findall(r"(?<![\w.(])\d+(?![\w.)])", here))
        assert not numbers & defaults - allowed, (spec.name, numbers & defaults)


@pytest.mark.parametrize(
    ("name", "of", "changes", "words"),
    [
        ("identity", "identity", {"test_limit": 100, "train_limit": 7},
         "the integers -100 to 100 after training on -7 to 7"),
        ("identity", "identity", {"test_limit": 100},
         "Unlike the paper, whose values are in parentheses: test_limit=100 (1000)."),
        ("static", "static",
         {"inputs": 20, "section": 4, "train_range": "1:2", "test_range": "2:6"},
         "20 inputs, drawn from 1 to 2 in training and from 2 to 6 in extrapolation; a and b are "
         "sums of 4 inputs each."),
        ("recurrent", "recurrent", {"reference_hidden": 7}, "untrained LSTM of 7 units"),
        ("recurrent", "recurrent_summary", {"reference_hidden": 7}, "untrained LSTM of 7 units"),
        ("recurrent", "recurrent_raw", {"length": 4, "test_length": 40},
         "Trained on sequences of 4 steps, extrapolated to 40."),
        ("recurrent", "recurrent_raw", {}, "T is the training loss, on the first training batch;"),
        ("recurrent", "recurrent_raw", {"shared_inputs": True},
         "T is the training loss, on a batch per seed that is not used in training;"),
        ("mnist_counting", "mnist_counting_mae", {"length": 5, "test_images": 200},
         "Trained on series of 5; tested with the first 200 test images."),
        ("mnist_addition", "mnist_addition_exact", {"length": 5}, "Trained on series of 5;"),
        ("language", "language", {}, "with one split into training,"),
        ("language", "language_states", {"division": "seed"}, "with a separate split into"),
        ("language", "language_exact", {"division": "seed"}, "with a separate split into"),
        ("program", "program",
         {"train_digits": 1, "validation_digits": 2, "test_digits": 3, "nesting": 3},
         "up to 1 digits in training, exactly 2 in validation and 3 in the test. Unlike "
         "the paper"),
        ("program", "program", {"nesting": 3}, "Programs of nesting 3: matching digits"),
        ("program", "program", {"variant": "addition"}, "Sums of two numbers: matching digits"),
        ("parity", "parity", {"test_size": 50, "min_distance": 20},
         "on 50 images whose digits"),
        ("parity", "parity", {"min_distance": 20}, "at least 20 pixels apart"),
        ("gridworld", "gridworld",
         {"instructions": "3:6", "test_instructions": "3:9", "test_time_limit": 30},
         "Trained T: 3 to 6; other T: the rest of 3 to 9; episodes of up to 30 steps."),
    ],
)  # fmt: skip
def test_tables_say_what_was_run(name: str, of: str, changes: dict[str, Any], words: str) -> None:
    assert words in caption(name, of, changes)


@pytest.mark.parametrize(
    ("name", "of", "changes", "words"),
    [
        ("mnist_counting", "mnist_counting_length", {"length": 5},
         "networks were trained on series of 5."),
        ("mnist_addition", "mnist_addition_learning", {"length": 5}, "training on series of 5."),
        ("program", "program_test", {"train_digits": 1, "validation_digits": 2, "test_digits": 3},
         "up to 1 digits in training, exactly 2 in validation and 3 in the test"),
        ("language", "language_learning", {"division": "seed"}, "with a separate split into"),
        ("gridworld", "gridworld_arrival", {"test_time_limit": 30}, "arrival counts as 30."),
        ("gridworld", "gridworld", {"m": 2}, "arriving at T gives 2."),
        ("identity", "identity", {"figure_limit": 9}, "figure_limit=9 (20)"),
    ],
)  # fmt: skip
def test_figures_say_what_was_run(name: str, of: str, changes: dict[str, Any], words: str) -> None:
    spec = spec_of(name, of, FigureSpec)
    points = [(spec.metric, spec.split, 1.0)]
    rows = rows_of(name, changes, logged=points).assign(x=1.0)
    title = figures.draw(spec, rows).get_suptitle()
    assert words in " ".join(title.replace("\\$", "$").split())


def percent(limit: int, error: float) -> Table:
    points = [("mae", "extrapolation", error), ("mse", "interpolation", 0.1)]
    return build(
        spec_of("identity", "identity"), rows_of("identity", {"test_limit": limit}, logged=points)
    )


@pytest.mark.parametrize(
    ("limit", "error", "text"),
    # predicting 0 is off by 2 (1 + ... + L) / (2 L + 1): 50.25 for 100, 500.25 for 1000, 2/3 for 1
    [(100, 45.8, "91.1"), (1000, 250.0, "50.0"), (1000, 45.8, "9.2"), (1, 1.0, "150.0")],
)
def test_the_percentage_is_of_what_predicting_zero_scores(
    limit: int, error: float, text: str
) -> None:
    assert percent(limit, error).cells["relu", "", "percent_error"].text == text


@pytest.mark.parametrize(
    ("name", "of", "changes", "shade"),
    [
        ("identity", "identity", {"train_limit": 7}, (-7, 7)),
        ("gridworld", "gridworld", {"instructions": "3:6"}, (3, 6)),
    ],
)
def test_the_training_range_is_shaded(
    name: str, of: str, changes: dict[str, Any], shade: tuple[float, float]
) -> None:
    spec = spec_of(name, of, FigureSpec)
    rows = rows_of(name, changes, logged=[(spec.metric, spec.split, 1.0)]).assign(x=1.0)
    (axes,) = figures.draw(spec, rows).axes
    (patch,) = axes.patches
    assert (patch.get_x(), patch.get_x() + patch.get_width()) == shade


def small(text: str, **more: Any) -> TableSpec:
    return TableSpec(
        name="t", caption=text, rows=Axis(field="layer"), measures={}, layout="columns", **more
    )


def test_several_values_are_listed_and_many_counted() -> None:
    rows = rows_of("mnist_counting", *({"length": length} for length in (20, 3, 10)))
    assert filled(small("at {length}"), rows).caption == "at 3 or 10 or 20"
    rows = rows_of("mnist_counting", *({"length": length} for length in range(1, 8)))
    assert filled(small("at {length}"), rows).caption == "at 1 or 2 or 3 or 4 others"


def test_rows_without_the_field_leave_its_name() -> None:
    rows = rows_of("identity", {}).drop(columns="train_limit")
    spec = small("from -{train_limit}", paper={"train_limit": "5"})
    assert filled(spec, rows).caption == "from -train_limit"
    figure = spec_of("identity", "identity", FigureSpec)
    assert filled(figure, rows).shade is None


def test_stored_values_are_text_and_no_templates() -> None:
    rows = rows_of("identity", {}).assign(train_limit="{test_limit} {0.__class__}", batch="[[[")
    assert filled(small("{train_limit} {batch}"), rows).caption == "{test_limit} {0.__class__} [[["


@pytest.mark.parametrize("value", [0, -3, "nan", "1e999", "[1]", "[1, null]", "[[", "\x1b"])
def test_a_damaged_field_ends_nothing(value: object) -> None:
    points = [("mae", "extrapolation", 1.0), ("mse", "interpolation", 1.0)]
    rows = rows_of("identity", {}, logged=[*points, ("absolute_error", "figure", 1.0)])
    damaged = [value] * len(rows)
    rows = rows.assign(x=1.0, train_limit=damaged, test_limit=damaged)
    table = build(spec_of("identity", "identity"), rows)
    assert captions(table)[0].isprintable()
    figure = figures.draw(spec_of("identity", "identity", FigureSpec), rows)
    assert figures.encode(figure, "svg")
