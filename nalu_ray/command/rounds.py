"""The rounds of a search whose points depend on results: ask for points, run them, tell scores.

Nothing but the rows is stored. A search resumes by running its rounds again: rounds with stored
rows take no time, and equal scores give equal points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from nalu_ray.command.request import TuneRequest
from nalu_ray.errors import ConfigError, explain
from nalu_ray.results.analysis.groups import Sweep, shows
from nalu_ray.results.analysis.selection import runs_of
from nalu_ray.results.specs import Selection
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.search import Search
from nalu_ray.task import Setting, Task

if TYPE_CHECKING:
    from nalu_ray.sweep.ray.search import Study

ROUND = 5  # points per round and cell of the grid: the same on every machine


def rounds(request: TuneRequest) -> Iterator[TuneRequest]:
    """Yields a request per round, with the points chosen so far; run it before taking the next.

    A grid and a random search have a single round.
    """
    search = request.search
    if search is None or not search.adaptive:
        yield request
        return
    from nalu_ray.sweep.ray.search import Study  # noqa: PLC0415 (Ray is slow to load)

    rule = selection(request.task, request.preset)
    studies = [(cell, Study(search, request.task.name, cell.setting.id)) for cell in request.points]
    chosen: dict[str, Point] = {}
    for first in range(0, search.samples, ROUND):
        count = min(ROUND, search.samples - first)
        suggestions = [(study, _points(cell, study, search, count)) for cell, study in studies]
        chosen |= {point.setting.id: point for _, points in suggestions for point in points}
        yield replace(request, points=tuple(chosen.values()))
        scores = _scores(request, rule, chosen)
        for study, points in suggestions:
            study.tell([scores[point.setting.id] for point in points])


def selection(task: Task[Any], preset: str) -> Selection:
    """Returns the rule by which the task's first table of a preset selects."""
    for table in task.tables:
        if shows(table, Sweep(preset)):
            return table.selection
    return Selection()


def _points(cell: Point, study: Study, search: Search, count: int) -> list[Point]:
    """Returns further points of a cell: its setting with suggested values."""
    setting_type = type(cell.setting)
    try:
        return [
            Point(setting=_with(cell.setting, setting_type, values), seeds=cell.seeds)
            for values in study.suggest(count)
        ]
    except ValidationError as error:  # a rule over several fields
        raise ConfigError(explain(error)) from error


def _with(setting: Setting, setting_type: type[Setting], values: Mapping[str, Any]) -> Setting:
    read = {name: value for name, value in values.items() if name not in setting.unread()}
    return setting_type.model_validate({**setting.model_dump(), **read})


def _scores(request: TuneRequest, rule: Selection, chosen: Mapping[str, Point]) -> dict[str, float]:
    """Returns the median over the requested seeds of what the tables select by, by setting id.

    A seed without a finite value counts as infinite.
    """
    rows = request.store.load(request.task.name)
    runs = runs_of(rows[rows["setting_id"].isin(chosen)], rule)
    keys: Sequence[tuple[str, int]] = list(zip(runs["setting_id"], runs["seed"], strict=True))
    of_run = dict(zip(keys, runs["selector"], strict=True))
    return {
        sid: float(np.median([of_run.get((sid, seed), np.inf) for seed in point.seeds]))
        for sid, point in chosen.items()
    }
