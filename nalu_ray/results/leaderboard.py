"""Specifications of a leaderboard: units by operation, their costs, and the sweep of the rate.

A task adds :func:`tables` to its own. The report collects the tables of all tasks on one page.
"""

from __future__ import annotations

from collections.abc import Mapping

from nalu_ray.results.publication import Publication
from nalu_ray.results.specs import ANY_PRESET, TRIAL, Axis, Measure, Selection, TableSpec

SELECTION = Selection()
BY_UNIT = "Best setting of each cell, among all learning rates that were run."


def tables(
    name: str,
    caption: str,
    *,
    units: Axis,
    operations: Axis,
    solved_below: str,
    metric: str = "mse",
    split: str = "extrapolation",
    rate_field: str = "lr",
    selection: Selection = SELECTION,
    presets: tuple[str, ...] = ANY_PRESET,
    problem: tuple[str, ...] = (),
    paper: Mapping[str, str] | None = None,
    publication: Publication | None = None,
) -> tuple[TableSpec, ...]:
    """Returns a task's tables of the leaderboard.

    They are ``<name>``, with the success rate, the step of first success and the sparsity error of
    each unit on each operation; ``<name>_cost``, with parameters and time; and ``<name>_lr``, with
    the success rate and the selecting error at each learning rate, which is left out unless several
    were run.

    Args:
        name, caption: of the first table; the caption names what the others have in common.
        units, operations: the rows and the columns.
        solved_below: metric that holds each seed's success threshold on ``split``.
        metric, split: what must be below it.
        rate_field: the setting's field that is swept.
        selection: picks a seed's step and a cell's setting.
        presets, problem, paper: as of :class:`TableSpec`.
        publication: published values by unit, operation and measure (``rate`` in per cent,
            ``solved_at``, ``sparsity_error``).
    """
    # tables without published values show only what was run
    run = units.model_copy(update={"labels": {}, "more": units.more | units.labels})
    shared = {
        "models": "rows",
        "solved_below": solved_below,
        "selection": selection,
        "presets": presets,
        "paper": dict(paper or {}),
        "board": True,
    }
    of = {"metric": metric, "split": split}
    rate = Measure(**of, label="solved, %", statistic="rate", format=".0f")
    measures = {
        "rate": rate,
        "solved_at": Measure(**of, label="solved at step", statistic="solved_at", format=".3g"),
        "sparsity_error": Measure(
            metric="sparsity_error",
            split="weights",
            label="sparsity error, median over seeds",
            statistic="median",
            format=".1e",
        ),
    }
    selector = Measure(
        metric=selection.metric,
        split=selection.split,
        label=f"{selection.split} {selection.metric}, median over seeds",
        statistic="median",
        format=".1e",
    )
    costs = {
        key: Measure(metric=key, split=TRIAL, label=label, statistic="median", format=form)
        for key, label, form in (
            ("parameters", "parameters", ",.0f"),
            ("seed_step_microseconds", "µs per step and seed", ".1f"),
        )
    }
    by_operation = TableSpec(
        name=name,
        title="Success rates",
        caption=f"{caption} {BY_UNIT}",
        rows=units,
        columns=operations,
        measures=measures,
        problem=problem,
        publication=publication,
        **shared,
    )
    cost = TableSpec(
        name=f"{name}_cost",
        title="Parameters and time",
        caption=f"{caption} Trained parameters per seed, and time per training step and seed, "
        "evaluations included, on the machine that ran them.",
        rows=run,
        measures=costs,
        layout="columns",
        problem=problem,
        **shared,
    )
    by_rate = TableSpec(
        name=f"{name}_{rate_field}",
        title=f"Success by {rate_field}",
        caption=f"{caption} The success rate at each {rate_field}, and the error that chooses "
        "among them: the lowest in a line.",
        rows=run,
        columns=Axis(field=rate_field),
        measures={"rate": rate, "selector": selector},
        problem=(operations.field, *problem),
        least_columns=2,
        **shared,
    )
    return by_operation, cost, by_rate
