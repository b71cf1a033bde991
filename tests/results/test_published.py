"""The published tables against the paper's text, and against one another."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from nalu_ray.results.published import TABLES, Published, load, lookup
from nalu_ray.results.specs import Axis, TableSpec

COUNTS = {1: 96, 2: 48, 3: 9, 4: 8, 5: 30, 6: 144, 7: 132, 8: 140, 9: 84, 10: 48, 11: 6}
BOLD = {1: 49, 2: 8, 3: 2, 4: 1, 5: 0, 6: 15, 7: 30, 8: 14, 9: 7, 10: 8, 11: 0}
OPERATIONS = {"a", "add", "sub", "mul", "div", "square", "sqrt"}
COLUMNS = ["table", "row", "column", "split", "text", "value", "qualifier", "bold"]
SPLITS = {"train", "interpolation", "extrapolation", "validation", "test"}
MODELS = {"random", "lstm", "gru", "rnn_tanh", "rnn_relu", "nac", "nalu", "none"} | {
    *("tanh", "sigmoid", "softsign", "selu", "elu", "relu", "relu6", "crelu", "prelu"),
    *("hardtanh", "threshold", "softshrink", "leaky_relu", "tanhshrink", "softplus"),
}
# One line a cell, read from the paper by eye: first, last and odd cells of each table.
CELLS = [
    (1, "add", "static_relu6", "interpolation", "0.2", 0.2, "", False),
    (1, "div", "recurrent_rnn_relu", "extrapolation", "863.5", 863.5, "", False),
    (1, "div", "recurrent_nalu", "extrapolation", ">999", 999.0, ">", False),
    (1, "sqrt", "recurrent_nalu", "extrapolation", "0.0", 0.0, "", True),
    (2, "lstm", "counting_classification", "test", "98.29%", 98.29, "", False),
    (2, "rnn_relu", "counting_mae_1000", "test", "1.4e10", 1.4e10, "", False),
    (2, "nac", "addition_classification", "test", "97.6%", 97.6, "", True),
    (2, "nalu", "addition_mae_1000", "test", "248.9", 248.9, "", False),
    (3, "lstm_nac", "mae", "train", "80.0", 80.0, "", False),
    (3, "lstm_nalu", "mae", "validation", "0.39", 0.39, "", True),
    (3, "lstm_nalu", "mae", "test", "0.41", 0.41, "", True),
    (4, "segui_affine", "accuracy", "test", "85.1", 85.1, "", False),
    (4, "affine", "accuracy", "test", "88.1", 88.1, "", False),
    (4, "sigmoid_bias", "accuracy", "test", "60.0", 60.0, "", False),
    (4, "tanh_bias", "accuracy", "test", "87.6", 87.6, "", False),
    (4, "linear", "accuracy", "test", "91.4", 91.4, "", False),
    (4, "sigmoid", "accuracy", "test", "62.5", 62.5, "", False),
    (4, "tanh", "accuracy", "test", "88.7", 88.7, "", False),
    (4, "nac", "accuracy", "test", "93.1", 93.1, "", True),
    (5, "hardtanh", "percent_error", "extrapolation", "99.1", 99.1, "", False),
    (5, "leaky_relu", "error", "extrapolation", "77.02", 77.02, "", False),
    (5, "none", "error", "extrapolation", "<0.0001", 1e-4, "<", False),
    (6, "add", "random", "interpolation", "8.659", 8.659, "", False),
    (6, "add", "nalu", "extrapolation", ".0012", 0.0012, "", False),
    (6, "div", "sigmoid", "interpolation", ".0421", 0.0421, "", True),
    (6, "sqrt", "nalu", "extrapolation", "<.0001", 1e-4, "<", True),
    (7, "sqrt", "tanh", "interpolation", "31.6", 31.6, "", False),
    (7, "div", "nalu", "extrapolation", "0.7", 0.7, "", True),
    (8, "random", "a", "extrapolation", "330341", 330341.0, "", False),
    (8, "rnn_relu", "div", "extrapolation", "2902047", 2902047.0, "", True),
    (8, "nac", "add", "interpolation", "<.00001", 1e-5, "<", False),
    (8, "nalu", "a", "train", "<.000001", 1e-6, "<", False),
    (8, "nalu", "div", "extrapolation", ">999999", 999999.0, ">", False),
    (9, "gru", "div", "extrapolation", "94.7", 94.7, "", True),
    (9, "nac", "sqrt", "extrapolation", ">999.9", 999.9, ">", False),
    (10, "nac", "counting_mse_1000", "test", "3", 3.0, "", True),
    (10, "lstm", "addition_mse_1000", "test", "38761851", 38761851.0, "", False),
    (11, "lstm_final", "mae", "train", "0.0085", 0.0085, "", False),
    (11, "lstm_summed", "mae", "test", "29.4", 29.4, "", False),
]


def cells(table: int) -> dict[tuple[str, str, str], Published]:
    frame = load(table)
    keys = zip(frame["row"], frame["column"], frame["split"], strict=True)
    return {key: cell for key in keys if (cell := lookup(table, *key))}


@pytest.mark.parametrize("table", COUNTS)
def test_a_table_is_complete_and_well_formed(table: int) -> None:
    frame = load(table)
    assert list(frame) == COLUMNS
    assert len(frame) == COUNTS[table]
    assert frame["bold"].sum() == BOLD[table]
    assert not frame.duplicated(["row", "column", "split"]).any()
    assert (frame["table"] == table).all()
    assert set(frame["split"]) <= SPLITS
    assert set(frame["qualifier"]) <= {"", "<", ">"}
    assert frame["text"].str.fullmatch(r"[<>]?(\d*\.)?\d+(e\d+)?%?").all()
    assert [str(kind) for kind in frame[["table", "value", "bold"]].dtypes] == [
        "int64",
        "float64",
        "bool",
    ]


@pytest.mark.parametrize(("table", "axis"), [(1, "row"), (6, "row"), (7, "row"), (8, "column")])
def test_operations_carry_their_ids(table: int, axis: str) -> None:
    expected = OPERATIONS if table == 8 else OPERATIONS - {"a"}
    assert set(load(table)[axis]) == expected


@pytest.mark.parametrize(("table", "axis"), [(2, "row"), (5, "row"), (6, "column"), (9, "row")])
def test_models_carry_their_ids(table: int, axis: str) -> None:
    assert set(load(table)[axis]) <= MODELS


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell[:4])))
def test_lookup_gives_the_printed_value(
    cell: tuple[int, str, str, str, str, float, str, bool],
) -> None:
    table, row, column, split, text, value, qualifier, bold = cell
    assert lookup(table, row, column, split) == Published(text, value, qualifier, bold)


def test_lookup_of_an_absent_cell_is_none() -> None:
    assert lookup(8, "random", "a", "train") is None
    assert lookup(1, "add", "recurrent_gru", "interpolation") is None


@pytest.mark.parametrize("table", [0, 12, -1])
def test_an_unknown_table_is_refused_by_name(table: int) -> None:
    with pytest.raises(ValueError, match=rf"{table}; .*1\.\.11"):
        load(table)
    with pytest.raises(ValueError, match=rf"{table}; .*1\.\.11"):
        lookup(table, "add", "nalu", "test")


def test_changing_a_loaded_table_changes_no_other() -> None:
    mine = load(3)
    mine["value"] = -1.0
    assert load(3)["value"].min() == 0.003


def test_the_overview_repeats_the_detailed_tables() -> None:
    """Table 1 is an excerpt of tables 7 and 9; the paper prints one cell differently."""
    differing = []
    for (op, column, split), cell in cells(1).items():
        kind, model = column.split("_", 1)
        same = lookup(7, op, model, split) if kind == "static" else lookup(9, model, op, split)
        assert same is not None
        if cell.qualifier:
            assert same.qualifier == cell.qualifier
        elif same.value != cell.value:
            differing.append((op, column, split, cell.text, same.text))
    assert differing == [("div", "recurrent_rnn_relu", "extrapolation", "863.5", "862.5")]


def test_relative_errors_are_ratios_of_the_raw_ones() -> None:
    """Table 7 is table 6 in per cent of its random column; the paper misprints two cells."""
    raw = cells(6)
    differing = {
        (op, layer, split)
        for (op, layer, split), cell in cells(7).items()
        if abs(ratio(raw[op, layer, split], raw[op, "random", split]) - cell.value) > 0.1
    }
    assert differing == {
        ("sqrt", "tanh", "interpolation"),
        ("sqrt", "sigmoid", "interpolation"),
    }


def test_recurrent_relative_errors_are_ratios_of_the_raw_ones() -> None:
    """Table 9 is table 8 in per cent of its random row, rounded loosely by the paper."""
    raw = cells(8)
    for (model, op, split), cell in cells(9).items():
        if not cell.qualifier:
            relative = ratio(raw[model, op, split], raw["random", op, split])
            assert relative == pytest.approx(cell.value, abs=1.2), (model, op, split)


def ratio(part: Published, whole: Published) -> float:
    return 100 * part.value / whole.value


def test_results_need_neither_torch_nor_ray() -> None:
    code = (
        "import sys, nalu_ray.results.analysis.statistics, nalu_ray.results.published as p;"
        "p.load(7);"
        "print(sorted({'torch', 'ray', 'scipy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_specification_refuses_a_table_that_the_paper_has_not() -> None:
    def spec(number: int | None) -> TableSpec:
        rows = Axis(field="layer")
        return TableSpec(
            name="t", number=number, caption="", rows=rows, measures={}, layout="columns"
        )

    assert [spec(number).number for number in (None, *TABLES)] == [None, *TABLES]
    for number in (TABLES[0] - 1, TABLES[-1] + 1):
        with pytest.raises(ValidationError, match="number"):
            spec(number)
