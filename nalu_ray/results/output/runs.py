"""A list of the stored files, with the setting and the seeds of each."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd

from nalu_ray.results.analysis.axes import setting_labels, stored_column
from nalu_ray.results.analysis.text import spans
from nalu_ray.results.filters import EVERYTHING, Filter
from nalu_ray.results.output.formats import inert
from nalu_ray.results.store.rows import OUTCOME, PRESET, RUN, run_keys
from nalu_ray.results.store.store import Store

HEAD = ("task", "setting", "setting_id", "preset", "seeds", "ended", "file")


def listing(store: Store, task: str, only: Filter = EVERYTHING) -> str:
    """Returns CSV with a line per setting of a stored file whose rows count.

    Columns: task; setting, by the fields that name it and those that vary; its id; preset; seeds;
    how many seeds completed, diverged or failed; name of the Parquet file.

    Args:
        store: where the rows are.
        task: the task.
        only: which settings, presets and seeds are listed.
    """
    rows, specs = store.load(task), store.specs(task)
    shown = run_keys(only.rows(rows))
    settings = rows.drop_duplicates("setting_id").reset_index(drop=True)
    axes = [name for name in (specs.axes if specs else ()) if name in settings]
    labels = setting_labels(settings, axes)
    # trials of one setting may be of several presets
    ran = rows.drop_duplicates(RUN)
    presets = ran.get(PRESET, pd.Series("", index=ran.index)).astype(object).fillna("")
    preset_of = dict(zip(ran[RUN].itertuples(index=False, name=None), presets, strict=True))
    for position, sid in enumerate(settings["setting_id"]):
        named = [str(stored_column(settings, name)[position]) for name in axes]
        labels[sid] = " ".join(filter(None, [*named, labels[sid].replace(", ", " ")]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    stored = store.runs(task)
    keys = zip(stored["setting_id"], stored["seed"], strict=True)
    stored = stored[np.array([(str(sid), int(seed)) in shown for sid, seed in keys], bool)]
    for names, runs in stored.groupby(["file", "setting_id"], sort=False):
        file, sid = map(str, names)
        preset = preset_of[sid, int(runs["seed"].iloc[0])]
        if only.presets and preset not in only.presets:
            continue
        ended = runs[OUTCOME].value_counts()
        counts = " ".join(f"{count} {name}" for name, count in ended.items())
        seeds = ",".join(spans(map(int, runs["seed"])))
        record = [task, labels[sid], sid, preset, seeds, counts, file]
        writer.writerow(map(inert, record))
    return out.getvalue()
