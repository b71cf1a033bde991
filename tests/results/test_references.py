"""The best constant's row and column."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

from nalu_ray.results.analysis.table import build
from nalu_ray.results.output.captions import captions
from nalu_ray.results.output.grid import statistics
from nalu_ray.results.output.terminal import show_briefly
from nalu_ray.results.store.store import COLUMNS
from nalu_ray.tasks.static import TASK as STATIC
from nalu_ray.training.metrics import constant_errors
from nalu_ray.training.supervised import SupervisedRun
from tests.results.samples import TABLE_6, TABLE_7, frame, mse, run
from tests.runs import finish


def test_the_best_constants_errors() -> None:
    target = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [6.0, 3.0]], [[5.0, 1.0]] * 3])
    errors = constant_errors(target)
    # by hand: means 3 and 1, medians 2 and 0
    assert errors["constant_mse"].tolist() == pytest.approx([(4 + 1 + 9 + 1 + 1 + 4) / 6, 0])
    assert errors["constant_mae"].tolist() == pytest.approx([(1 + 0 + 4 + 0 + 0 + 3) / 6, 0])


def _rows() -> pd.DataFrame:
    runs = []
    for layer, seeds in (("nac", 3), ("nalu", 2)):
        for seed in range(seeds):
            logs = mse({9: 1.0}, {9: 30.0}, random_mse=10.0, constant_mse=4.0 + seed)
            runs.append(run({"layer": layer, "op": "add"}, seed, logs))
    return frame(*runs)


def test_a_column_beside_random_where_it_is_stored() -> None:
    table = build(TABLE_6, _rows())
    assert [column.label for column in table.columns[:2]] == ["Random", "Best constant"]
    # of the setting with most seeds: 4, 5, 6
    cell = table.cells["add", "constant", "extrapolation"]
    assert (cell.value, cell.n, cell.published, cell.bold) == (5.0, 3, None, False)
    assert table.cells["sub", "constant", "extrapolation"].value is None
    assert any(text.startswith("Best constant: ") for text in captions(table))
    assert not any("Best constant" in line for line in statistics(table).lines)


def test_after_training_a_line_of_its_score_and_none_of_the_random_model() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    show_briefly(build(TABLE_6, _rows()), console)
    text = console.export_text()
    lines = [" ".join(line.split()) for line in text.splitlines()]
    # its score, and no median behind it
    assert {"a + b Best constant I 5.000", "a + b Best constant E 5.000"} <= {*lines}
    assert "Random" not in text


def test_in_a_relative_table_it_is_relative_too() -> None:
    cell = build(TABLE_7, _rows()).cells["add", "constant", "extrapolation"]
    assert cell.value == pytest.approx(50.0)
    assert cell.text == "50.0"


def test_rows_of_a_version_without_it_make_no_column() -> None:
    old = frame(run({"layer": "nac", "op": "add"}, 0, mse({9: 1.0}, {9: 2.0}, random_mse=10.0)))
    for spec in (TABLE_6, TABLE_7):
        table = build(spec, old)
        assert "constant" not in {heading.key for heading in table.columns}
        assert not any("Best constant" in text for text in captions(table))


def test_a_tasks_table_has_the_score_of_its_own_sets() -> None:
    """From targets to a cell: the mean's error, relative to that of an untrained network."""
    values = {"layer": "nac", "op": "mul", "steps": 1, "evaluations": 1, "test_size": 30}
    setting = STATIC.setting_type.model_validate(values)
    training = SupervisedRun(STATIC, setting, [0, 1, 2], torch.device("cpu"))
    rows = finish(training).assign(**values, task="static", setting_id=setting.id)
    table = build(STATIC.tables[0], rows.reindex(columns=[*COLUMNS, *values]))
    for split, batch in training.sets.items():
        targets = batch.targets.double().numpy()[:, :, 0]
        constants = ((targets - targets.mean(1, keepdims=True)) ** 2).mean(1)
        logged = rows[(rows["split"] == split) & (rows["metric"] == "random_mse")]["value"]
        cell = table.cells["mul", "constant", split]
        assert cell.value == pytest.approx(100 * np.median(constants) / logged.median(), rel=1e-5)
        assert cell.n == 3
