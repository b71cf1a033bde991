"""The time to read many stored files: for a plan, for tables, and for the HTML page.

    python benchmarks/reading.py [--files 2000] [--seeds 1] [--folder FOLDER] [--only plan md html]

It runs one small trial of the static task and stores its rows under the settings of the ``paper``
preset, in as many files as asked: each file has other seeds, and errors of its own. Then it prints
processor and wall-clock seconds of

    plan   how every stored seed ended, read twice by one command as ``tune`` does
    md     ``report static --format md``, with its files
    html   ``report static --html``

Imports are not counted. A folder that has rows already is read as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nalu_ray import registry, report, tune
from nalu_ray.results.store import seal
from nalu_ray.results.store.columns import columns
from nalu_ray.results.store.row_files import encode
from nalu_ray.results.store.rows import COLUMNS, COMPLETED, OF_TRIAL
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.deviations import members
from nalu_ray.sweep.presets import expand, sweep_of
from nalu_ray.task import Setting

TASK, PRESET = "static", "paper"
_TRIAL = ["layer=nac", "op=add", "preset=laptop", "steps=200", "test_size=100"]


def fill(out: str, files: int, seeds: int) -> None:
    """Stores the rows of a small trial in a number of files, with ``seeds`` seeds each."""
    task, store = registry.task(TASK), Store(out)
    setting_type: type[Setting] = task.setting_type
    with tempfile.TemporaryDirectory() as folder:
        tune.main([TASK, *_TRIAL, "--local", "--quiet", "--out", folder, f"seeds={seeds}"])
        source = Store(folder)
        frame, manifest = source.load(TASK), source.manifests(TASK)[0]
    rows = frame[[name for name in COLUMNS if name not in OF_TRIAL]]
    code, known = str(frame["code"][0]), columns(setting_type)
    about = {"preset": PRESET, "changes": "{}"}
    store.write_specs(task.specs().model_copy(update={"presets": members(task)}))
    points = expand(sweep_of(task).presets[PRESET], task.setting_type, {})
    generator = np.random.default_rng(0)
    for point, count in zip(points, _dealt(files, len(points)), strict=True):
        values, key = point.values, {"task": TASK, "setting_id": point.setting.id, "code": code}
        own = {**manifest, "spec": {**manifest["spec"], "setting": values}}
        if count:
            first = store.write(values, key, rows, own, known=known, about=about)
            _repeat(Path(out, TASK, first), count, seeds, generator)


def _dealt(files: int, points: int) -> list[int]:
    """Returns the number of files per setting."""
    return [files // points + (point < files % points) for point in range(points)]


def _repeat(first: Path, count: int, seeds: int, generator: np.random.Generator) -> None:
    """Adds files like the first until there are ``count``, with other seeds and errors."""
    table = pq.read_table(first.with_suffix(".parquet"))
    manifest = seal.json_values(first.with_suffix(".json").read_bytes())
    at = {name: table.column_names.index(name) for name in ("seed", "value")}
    ends = pc.equal(table["metric"], COMPLETED)
    for block in range(1, count):
        factors = pa.array(generator.lognormal(sigma=3.0, size=len(table)))
        own = pc.if_else(ends, table["value"], pc.multiply(table["value"], factors))
        other = table.set_column(at["value"], "value", own)
        other = other.set_column(at["seed"], "seed", pc.add(table["seed"], block * seeds))
        name = first.with_name(f"{first.name[:-12]}{block:012x}")
        name.with_suffix(".parquet").write_bytes(encode(other))
        manifest["spec"]["seeds"] = [*range(block * seeds, (block + 1) * seeds)]
        name.with_suffix(".json").write_bytes(seal.seal_json(manifest))


def read_plan(out: str) -> None:
    """Reads how every stored seed ended, twice."""
    store = Store(out)
    assert store.outcomes(TASK) == store.outcomes(TASK)


def measure(name: str, work: Callable[[], object]) -> None:
    """Prints the processor and wall-clock seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        work()
    used, passed = time.process_time() - processor, time.perf_counter() - wall
    print(f"{name:6}{used:9.2f} s of a processor {passed:9.2f} s", flush=True)


def main() -> None:
    """Prints the durations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1, help="seeds per file")
    parser.add_argument("--folder", help="keep the rows here (default: a temporary folder)")
    parser.add_argument("--only", nargs="+", default=["plan", "md", "html"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = arguments.folder or temporary
        if not Path(out, TASK).exists():
            fill(out, arguments.files, arguments.seeds)
        files = len([*Path(out, TASK).glob("*.parquet")])
        print(f"{files:,} files")
        to = ["--out", out, "--to", f"{temporary}/report"]
        works: dict[str, Callable[[], object]] = {
            "plan": lambda: read_plan(out),
            "md": lambda: report.main([TASK, "--format", "md", *to]),
            "html": lambda: report.main([TASK, "--html", *to]),
        }
        for name in arguments.only:
            measure(name, works[name])


if __name__ == "__main__":
    main()
