"""Keeps the rows behind the tables of docs/, and makes the tables of them.

    python benchmarks/reference.py add --from results static   # after a sweep of its preset
    python benchmarks/reference.py write                       # the tables, where markers stand
    python benchmarks/reference.py check                       # exits 1 if a table is not its rows'

``docs/rows/<task>`` has the rows: packs as of ``python -m nalu_ray.results compact``, of the steps
that tables read and without what names a machine. ``add`` replaces stored seeds that it finds again
and drops settings that no preset of the task has any more. In a document, a table stands between
``<!-- table: TASK NAME PRESET -->`` and ``<!-- /table -->``; an unknown name is answered with those
there are. ``<!-- table: reproduction -->`` stands for the page of ``report --reproduction``, and
``<!-- table: leaderboard -->`` for the tables of the leaderboard.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from nalu_ray import registry
from nalu_ray.command.exits import Exit, guarded
from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.results.analysis import costs
from nalu_ray.results.analysis.groups import SMOKE
from nalu_ray.results.analysis.selection import observe, runs_of
from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output import leaderboard, reproduction
from nalu_ray.results.output.formats import markdown
from nalu_ray.results.output.save import Stored
from nalu_ray.results.specs import SUCCESS, TaskSpecs
from nalu_ray.results.store.rows import (
    CHANGES,
    CODE,
    COMPLETED,
    DIVERGED,
    OUTCOME,
    PRESET,
    RUN,
    setting_fields,
)
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.deviations import members, searched

DOCS = Path(__file__).parents[1] / "docs"
ROWS = DOCS / "rows"
BLOCK = re.compile(r"(<!-- table: (?P<name>[^>]+?) -->\n)(?P<text>.*?)(<!-- /table -->)", re.DOTALL)
PAGE, BOARD = "reproduction", "leaderboard"
SPEC = ("setting_id", "seeds", "preset")
MANIFEST = ("seconds", "started", "parameters", "versions", "commit", "dirty", "code")
HARDWARE = ("machine", "processor", "cpus", "gpus")

Manifests = Sequence[Mapping[str, Any]]


# -- rows ------------------------------------------------------------------------------------------


def add(source: Path, task: str, rows: Path = ROWS) -> str:
    """Adds a task's stored rows to the reference rows; returns what it did, one line.

    Raises:
        ConfigError: nothing is stored of a preset, or tables need more than the rows that are kept.
    """
    specs = specs_of(task)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        old, told = _read(rows, specs, here / "old")
        new, newly = _read(source, specs, here / "new")
        again = pd.MultiIndex.from_frame(old[RUN]).isin(pd.MultiIndex.from_frame(new[RUN]))
        frame = pd.concat([old[~again], new], ignore_index=True) if len(old) else new
        wanted = {sid for preset, ids in specs.presets.items() if preset != SMOKE for sid in ids}
        kept = frame[frame["setting_id"].isin(wanted)]
        if kept.empty:
            raise ConfigError([f"{task}: no rows of a preset's settings in {source}"])
        manifests = _latest([*told, *newly])
        thin = public_rows(thinned(kept, specs))
        store = Store(str(here / "kept"))
        _store(store, specs, thin, manifests)
        before = Stored(specs, costs.with_costs(kept, manifests))
        if _texts(before) != _texts(_stored(store, task)):
            raise ConfigError([f"{task}: its tables read rows that would not be kept"])
        written = _replace(here / "kept" / task, rows / task)
    runs = kept[RUN].drop_duplicates()
    dropped = frame["setting_id"].nunique() - runs["setting_id"].nunique()
    return (
        f"{task}: {len(runs)} seeds of {runs['setting_id'].nunique()} settings, {len(thin):,} rows,"
        f" {written / 1e3:.0f} kB; {dropped} settings of no preset left out"
    )


def specs_of(task: str) -> TaskSpecs:
    """Returns a task's tables and presets as the code has them today."""
    found = registry.task(task)
    beside = {"presets": members(found), "searched": searched(found)}
    return found.specs().model_copy(update=beside)


def thinned(frame: pd.DataFrame, specs: TaskSpecs) -> pd.DataFrame:
    """Returns the rows that tables read: selected steps, ends, and what was logged once."""
    logged = frame[frame["x"].isna()]
    steps = []
    for spec in specs.tables:
        runs = runs_of(logged, spec.selection)
        steps.append(runs)
        for measure in spec.measures.values():
            if measure.statistic in SUCCESS:
                seen = observe(logged, runs, measure, spec.solved_below)
                steps.append(runs.assign(step=seen.below_at))
    read = pd.concat([part[[*RUN, "step"]] for part in steps]).dropna()
    at = pd.MultiIndex.from_frame(logged[[*RUN, "step"]].astype({"step": float}))
    chosen = at.isin(pd.MultiIndex.from_frame(read))
    once = ~logged.duplicated([*RUN, "metric", "split"], keep=False)
    kept: pd.DataFrame = logged[chosen | once | (logged["metric"] == COMPLETED)]
    return kept


def public_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns rows whose reasons name no file or host: of an error, its type is left."""
    short = frame["reason"].str.partition(":")[0]
    return frame.assign(reason=frame["reason"].where(frame[OUTCOME] == DIVERGED, short))


def public(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what of a manifest says how numbers were made, and nothing that names a machine."""
    spec, hardware = manifest.get("spec", {}), manifest.get("hardware", {})
    about = {name: manifest[name] for name in MANIFEST if name in manifest}
    return {
        **about,
        "spec": {name: spec[name] for name in SPEC if name in spec},
        "hardware": {name: hardware[name] for name in HARDWARE if name in hardware},
        "numerics": {"device": manifest.get("numerics", {}).get("device", "cpu")},
    }


def _read(folder: Path, specs: TaskSpecs, place: Path) -> tuple[pd.DataFrame, Manifests]:
    """Reads a task's rows by today's specifications; a copy has them, the folder stays as it is."""
    store = Store(str(place))
    store.write_specs(specs)
    for path in (folder / specs.task).glob("*.parquet"):
        for name in (path, path.with_suffix(".json")):
            if name.exists():
                shutil.copy(name, place / specs.task)
    return store.load(specs.task), store.manifests(specs.task)


def _latest(manifests: Manifests) -> Manifests:
    return sorted(manifests, key=lambda manifest: float(manifest.get("started") or 0))


def _store(store: Store, specs: TaskSpecs, frame: pd.DataFrame, manifests: Manifests) -> None:
    """Writes rows, a file per setting and trial, then packs them."""
    of_run = {
        (manifest["spec"]["setting_id"], seed): number
        for number, manifest in enumerate(manifests)
        for seed in manifest.get("spec", {}).get("seeds", ())
    }
    runs = zip(frame["setting_id"], frame["seed"], strict=True)
    trial = [of_run.get(run, -1) for run in runs]
    store.write_specs(specs)
    by = ["setting_id", CODE, trial]
    for place, rows in frame.groupby(by, sort=True, dropna=False):
        sid, code, number = cast("tuple[str, str | None, int]", place)
        first = rows.iloc[0]
        values = {name: _plain(first[name]) for name in setting_fields(frame)}
        about = {n: str(first[n]) for n in (PRESET, CHANGES) if n in rows and pd.notna(first[n])}
        key = {"task": specs.task, "setting_id": sid, "code": _plain(code)}
        manifest = public(manifests[number]) if number >= 0 else {}
        store.write(values, key, rows, manifest, known=specs.fields, about=about)
    store.compact(specs.task)


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value.item() if hasattr(value, "item") else value


def _replace(packed: Path, target: Path) -> int:
    """Puts files in the place of those of the target; returns their bytes."""
    target.mkdir(parents=True, exist_ok=True)
    for path in target.iterdir():
        path.unlink()
    files = [path for path in sorted(packed.iterdir()) if path.name != "specs.json"]
    for path in files:
        shutil.copy(path, target)
    return sum(path.stat().st_size for path in files)


# -- tables ----------------------------------------------------------------------------------------


def tables(task: str, rows: Path = ROWS) -> dict[str, str]:
    """Returns a task's tables in Markdown by the names that markers have."""
    return _tables(*_kept(task, rows))


def _tables(stored: Stored, manifests: Manifests) -> dict[str, str]:
    about = {
        _name(stored, table): measured(_of_preset(manifests, table)) for table in stored.tables
    }
    return {name: f"\n{text}\n{about[name]}\n\n" for name, text in _texts(stored).items()}


def _of_preset(manifests: Manifests, table: Table) -> Manifests:
    """Returns those of the table's settings: it has their seeds, whatever preset asked for them."""
    preset = table.sweep.preset if table.sweep else ""
    ids = {m["spec"]["setting_id"] for m in manifests if m["spec"].get("preset") == preset}
    return [each for each in manifests if each["spec"]["setting_id"] in ids] or manifests


def _verdicts(kept: Iterable[Stored]) -> str:
    """Returns the page of ``report --reproduction``."""
    return f"\n{reproduction.page(table for stored in kept for table in stored.tables)}\n"


def _board(kept: Iterable[Stored], known: Mapping[str, Mapping[str, str]]) -> str:
    """Returns those of the known tables that stand on the leaderboard."""
    return "".join(
        known[stored.specs.task][_name(stored, table)]
        for stored in kept
        for table in leaderboard.tables([stored])
    )


def _kept(task: str, rows: Path) -> tuple[Stored, Manifests]:
    with tempfile.TemporaryDirectory() as folder:
        place, specs = Path(folder), specs_of(task)
        _, manifests = _read(rows, specs, place)
        return _stored(Store(str(place)), task), manifests


def _stored(store: Store, task: str) -> Stored:
    stored = Stored.load(store, task)
    assert stored is not None, task
    return stored


def _texts(stored: Stored) -> dict[str, str]:
    return {_name(stored, table): markdown(table, brief=True) for table in stored.tables}


def _name(stored: Stored, table: Table) -> str:
    return f"{stored.specs.task} {table.spec.name} {table.label}".rstrip()


def measured(manifests: Manifests) -> str:
    """Returns a sentence on the versions, the processors and the time behind rows."""

    def all_of(*path: str) -> str:
        values: set[str] = set()
        for manifest in manifests:
            value: Any = manifest
            for name in path:
                value = value.get(name) or {}
            values |= {str(part) for part in (value if isinstance(value, list) else [value])}
        return " and ".join(sorted(values - {"{}"}))

    versions = f"nalu-ray {all_of('versions', 'nalu-ray')}, torch {all_of('versions', 'torch')}"
    devices = [all_of("hardware", "processor"), all_of("hardware", "gpus")]
    hours = sum(float(manifest.get("seconds") or 0) for manifest in manifests) / 3600
    return (
        f"Measured by {versions} on {', '.join(filter(None, devices))}: {len(manifests)} trials,"
        f" {hours:.1f} hours of one process."
    )


def blocks(document: str) -> Iterator[re.Match[str]]:
    """Yields a document's marked tables."""
    return BLOCK.finditer(document)


def update(text: str, known: Mapping[str, Mapping[str, str]]) -> str:
    """Returns a document with its tables made anew; those of tasks without rows stay.

    Args:
        text: the document.
        known: a task's tables by name, by task.

    Raises:
        ConfigError: a marker names a table that the task's rows do not make.
    """

    def made(block: re.Match[str]) -> str:
        name = block["name"]
        of_task = known.get(name.split()[0])
        if of_task is None:
            return block[0]
        if name not in of_task:
            raise ConfigError([did_you_mean("table", name, of_task)])
        return f"{block[1]}{of_task[name]}{block[4]}"

    return BLOCK.sub(made, text)


def refresh(docs: Path, *, write: bool) -> list[str]:
    """Compares every document with the rows in ``docs/rows``; returns those that differ.

    Args:
        docs: the folder of the documents.
        write: bring them up to date.
    """
    rows = docs / "rows"
    tasks = [path.name for path in sorted(rows.glob("*")) if path.is_dir()]
    kept = {task: _kept(task, rows) for task in tasks}
    known = {task: _tables(*kept[task]) for task in tasks}
    known[BOARD] = {BOARD: _board((stored for stored, _ in kept.values()), known)}
    known[PAGE] = {PAGE: _verdicts(stored for stored, _ in kept.values())}
    differ = []
    for path in sorted(docs.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        new = update(text, known)
        if new != text:
            differ.append(path.name)
            if write:
                path.write_text(new, encoding="utf-8")
    return differ


# -- command ---------------------------------------------------------------------------------------


def _main(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("add", "write", "check"))
    parser.add_argument("tasks", nargs="*", help="of add: the tasks")
    parser.add_argument("--from", dest="source", type=Path, default=Path("results"))
    parser.add_argument("--docs", type=Path, default=DOCS)
    options = parser.parse_intermixed_args(argv)
    if options.action == "add":
        _check_tasks(options.tasks, options.source)
        for task in options.tasks:
            print(add(options.source, task, options.docs / "rows"))
        return Exit.DONE
    write = options.action == "write"
    differ = refresh(options.docs, write=write)
    for name in differ:
        print(f"{name}: {'written' if write else 'not the table of the rows'}")
    return Exit.DONE if write or not differ else Exit.FAILED_SEEDS


def _check_tasks(tasks: Collection[str], source: Path) -> None:
    stored = Store(str(source)).tasks()
    if not tasks:
        raise ConfigError([f"add: name a task; stored in {source}: {', '.join(stored) or 'none'}"])
    if wrong := [did_you_mean("stored task", task, stored) for task in tasks if task not in stored]:
        raise ConfigError(wrong)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    return guarded(lambda: _main(argv))


if __name__ == "__main__":
    sys.exit(main())
