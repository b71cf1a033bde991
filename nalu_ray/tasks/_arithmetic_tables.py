"""Tables 1 and 6 to 9, and the figure of training: static and recurrent arithmetic as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec, learning_figure
from nalu_ray.tasks._operands import StaticOperation, axis

SPLITS = ("interpolation", "extrapolation")
RELATIVE = {
    split: Measure(
        metric="mse", split=split, label=split.capitalize(), relative_to="random_mse", format=".1f"
    )
    for split in SPLITS
}


def tables(
    half: Literal["static", "recurrent"],
    numbers: tuple[int, int],
    across: Mapping[str, Any],
    *,
    summary: Axis,
    untrained: str,
    legend: str,
    splits: Iterable[str],
    reference_by: tuple[str, ...],
    data: str,
    words: Mapping[str, Mapping[str, str]] | None = None,
    misprints: Iterable[Mapping[str, Any]] = ({}, {}),
    **common: Any,
) -> tuple[TableSpec, ...]:
    """Returns the table of relative errors, its half of Table 1, and the table of raw errors.

    Args:
        half: the half of Table 1, and the name of the tables.
        numbers: of the first and of the last table in the paper.
        across: rows, columns and models of these two tables.
        summary: the models of Table 1.
        untrained: what captions call the network whose error is 100.
        legend: what the last caption says of its letters and of "Random".
        splits: of the last table.
        reference_by: setting's fields that the untrained network depends on.
        data: last sentence of the captions.
        words: of the last caption.
        misprints: ``doubtful`` and ``doubt`` of the first table and of the half of Table 1.
        common: further fields of all three tables.
    """
    title = half.capitalize()
    relative = f"mean squared error relative to {untrained}. {data}"
    common |= {"solved_below": "solved_mse"}
    in_half, in_summary = misprints
    return (
        TableSpec(
            name=half,
            number=numbers[0],
            caption=f"{title} arithmetic: {relative}",
            measures=RELATIVE,
            **across,
            **in_half,
            **common,
        ),
        TableSpec(
            name=f"{half}_summary",
            number=1,
            caption=f"{title} half: {relative}",
            rows=axis(get_args(StaticOperation), others=False),
            columns=summary,
            measures=RELATIVE,
            **in_summary,
            **common,
        ),
        TableSpec(
            name=f"{half}_raw",
            number=numbers[1],
            caption=f"{title} arithmetic: mean squared error. {legend} {data}",
            words=words or {},
            measures={
                split: Measure(metric="mse", split=split, label=split[0].upper(), format=".4g")
                for split in splits
            },
            layout="subrows",
            reference="random_mse",
            reference_by=reference_by,
            **across,
            **common,
        ),
    )


def learning(half: str, lines: Axis, panels: Axis, **common: Any) -> FigureSpec:
    """Returns the figure of the extrapolation error during training."""
    return learning_figure(
        name=f"{half}_learning",
        caption="Extrapolation error during training.",
        metric="mse",
        split="extrapolation",
        lines=lines,
        panels=panels,
        relative_to="random_mse",
        y_label="error (100 = untrained network)",
        **common,
    )
