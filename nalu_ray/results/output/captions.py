"""Writes the sentences of a table: its title, captions and notes, the same in every format."""

from __future__ import annotations

from nalu_ray.results.analysis.cells import LOST, NEVER
from nalu_ray.results.analysis.groups import described
from nalu_ray.results.analysis.references import CONSTANT, REFERENCES
from nalu_ray.results.analysis.table import DOUBTED, Table
from nalu_ray.results.specs import TableSpec

# metric -> the model whose error it is
_MODELS = {"random_mse": "an untrained network"}
PAPER = "Trask et al. (2018)"
FEW_SEEDS = "marked * where fewer than six seeds give only their range"


def title(table: Table) -> str:
    """Returns the table's number in the paper, else its title."""
    number, name = table.spec.number, table.spec.name
    named = table.spec.title or name.replace("_", " ").capitalize()
    return f"{named}." if number is None else f"Table {number}."


def captions(table: Table, marks: bool = True) -> tuple[str, ...]:
    """Returns the sentences that explain a table, the caption first.

    Args:
        table: the table.
        marks: whether bold and missing cells are explained.
    """
    spec = table.spec
    sentences = [described(spec.caption, table.problem, table.sweep)]
    sentences.append(f"Ours: {_statistics(spec)}; {_seeds(table)}.")
    relative = {m.relative_to for m in spec.measures.values() if m.relative_to}
    if relative:
        names = ", ".join(sorted(_MODELS.get(name, name) for name in relative))
        sentences.append(
            f"100 = as bad as {names} (median over the seeds of the cell's setting), 0 = perfect."
        )
    if spec.reference:
        model = _MODELS.get(spec.reference)
        error = f"error of {model}" if model else spec.reference
        with_ = f" with {table.reference}" if table.reference else ""
        sentences.append(f"Random: median {error}{with_} over the seeds of one setting.")
    if any(heading.key == CONSTANT for heading in (*table.rows, *table.columns)):
        sentences.append(
            "Best constant: the constant answer with the smallest error on the set (the mean "
            "target for squared errors, the median for absolute ones); median over the seeds of "
            "one setting."
        )
    more = (
        _given(table),
        table.budgets,
        table.recipes,
        table.searched,
        _tuned(table),
        _earlier(table),
    )
    sentences += [text for text in more if text]
    if any(cell.published for cell in table.cells.values()):
        sentences.append(f"In parentheses: {source(table)}.")
    if any(DOUBTED in cell.published.text for cell in table.cells.values() if cell.published):
        sentences.append(f"{DOUBTED}: {spec.doubt}.")
    without = "no result among these" if table.only else "not run"
    if marks:
        sentences.append(f"Bold: best of ours, ties included. –: {without}.")
    if table.only:
        sentences.append(f"Of the stored rows only these: {table.only}.")
    if table.not_run:
        which = "no result among these" if table.only else "no result of ours"
        sentences.append(f"Not shown, because they have {which}: {table.not_run}.")
    return tuple(sentences)


def _statistics(spec: TableSpec) -> str:
    """Returns what the numbers are; by measure, if the measures differ in it."""
    rule = spec.selection.describe()
    shown = {
        "selected": f"the run (seed and setting) {rule}",
        "mean": f"the mean over the seeds of one setting; setting and step {rule}",
        "median": f"the median over the seeds of one setting; setting and step {rule}",
        "rate": f"{_share(spec)} that solved it, with Wilson's 95 % interval; "
        f"a seed has solved it if its error at the selected step is below {spec.threshold}; "
        f"setting and step are {rule}",
        "solved_at": f"the first logged step at which the error is below {spec.threshold}: the "
        "median over the solved seeds of the setting, with the 95 % interval between order "
        f"statistics; {NEVER}: no seed solved it",
    }
    labels: dict[str, list[str]] = {}
    for measure in spec.measures.values():
        labels.setdefault(measure.statistic, []).append(f'"{measure.label}"')
    if len(labels) == 1:
        return shown[next(iter(labels))]
    return ". ".join(f"{', '.join(of)}: {shown[statistic]}" for statistic, of in labels.items())


def _share(spec: TableSpec) -> str:
    if spec.pooled is None:
        return "the share of seeds of one setting"
    return f"the share of all runs, those of one setting per {spec.pooled} together,"


def source(table: Table) -> str:
    """Returns where the published values of a table are from."""
    spec = table.spec
    return spec.publication.source if spec.publication else f"table {spec.number} of {PAPER}"


def _given(table: Table) -> str:
    """Names what the columns are given by hand that others learn."""
    given = table.spec.columns.given if table.spec.columns else {}
    texts = [f"{given[c.key]} ({c.label})" for c in table.columns if given.get(c.key)]
    return f"Given by hand: {', '.join(texts)}." if texts else ""


def _tuned(table: Table) -> str:
    """Names the fields, beside the budget, in which shown settings differ from the preset."""
    tuned = table.sweep.tuned if table.sweep else {}
    shown = {cell.setting_id for cell in table.cells.values() if cell.setting_id}
    changes = [set(tuned.get(sid, {}).items()) for sid in sorted(shown)]
    everywhere = set.intersection(*changes) if changes else set()
    somewhere = {name for of in changes for name, _ in of - everywhere}
    texts = []
    if everywhere:
        values = ", ".join(f"{name}={value}" for name, value in sorted(everywhere))
        texts.append(f"Changed from the preset: {values}.")
    if somewhere:
        texts.append(f"Changed from the preset in some cells: {', '.join(sorted(somewhere))}.")
    return " ".join(texts)


def _earlier(table: Table) -> str:
    """Names the models that are shown with a setting of an earlier version of the preset."""
    earlier = table.sweep.earlier if table.sweep else frozenset()
    by_row = table.spec.compared == "rows"
    old = {
        row if by_row else column
        for (row, column, _), cell in table.cells.items()
        if cell.setting_id in earlier
    }
    models = [
        heading.label for heading in (table.rows if by_row else table.columns) if heading.key in old
    ]
    return f"From an earlier version of the preset: {', '.join(models)}." if models else ""


def _seeds(table: Table) -> str:
    counts = [cell.n for place, cell in table.cells.items() if cell.n and not REFERENCES & {*place}]
    if not counts:
        return "nothing stored yet"
    low, high = min(counts), max(counts)
    seeds = f"{low}" if low == high else f"{low} to {high}"
    worst = {measure.worst for measure in table.spec.measures.values()}
    value = "infinite and unsolved" if None in worst else "having nothing right"
    lost = f"; a diverged or failed seed counts as {value}"
    all_lost = f"; {LOST}: all seeds of the cell diverged or failed"
    of_cells = all_lost * any(cell.text == LOST for cell in table.cells.values())
    counted = "seed" if table.spec.pooled is None else "run"
    return f"{seeds} {counted}{'s' * (high > 1)} per cell{lost * _any_lost(table)}{of_cells}"


def _any_lost(table: Table) -> bool:
    return any(cell.diverged or cell.failed for cell in table.cells.values())


def statistics_note(table: Table) -> str:
    """Returns the sentence that explains :func:`statistics`."""
    cells = [cell for cell in table.cells.values() if cell.n]
    medians = any(cell.median is not None for cell in cells)
    note = "Over the seeds of each cell's setting"
    note += ": median [95 % interval between order statistics]" * medians
    intervals = [cell.confidence for cell in cells if cell.median is not None]
    intervals += [cell.difference.confidence for cell in cells if cell.difference]
    if any((confidence or 0) < 0.95 for confidence in intervals):
        note += f", {FEW_SEEDS}"
    limit = table.spec.threshold
    if any(cell.rate for cell in cells):
        note += f"; solved: the seeds whose error at the selected step is below {limit}, with the "
        note += "Wilson 95 % interval"
    if any(cell.difference for cell in cells):
        note += f"; difference: from {paired_with(table)}, seed by seed"
    return note + "."


def paired_with(table: Table) -> str:
    """Returns the label of the row or column that differences are taken from."""
    names = {heading.key: heading.label for heading in (*table.rows, *table.columns)}
    return names[table.spec.paired_with or ""]
