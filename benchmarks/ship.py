"""Puts a stored network among those that come with the package: nalu_ray/trained.

    python benchmarks/ship.py results gridworld nac_core "a sum of counters" variant=nac_core
    python benchmarks/ship.py results language nalu "..." head=nalu combine=recurrent

takes the best stored network of a task with these fields, chosen as by ``watch`` and ``predict``,
and writes its file as ``nalu_ray/trained/<task>/<name>``, its entry in the index (the command that
trained it, the scores of its test), and the table of docs/using.md. Entries keep their order; a new
one comes last. ``--command`` is for a command that needs more words today than when it was run.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

import torch

from nalu_ray import trained
from nalu_ray.registry import task as task_named
from nalu_ray.results.store import seal
from nalu_ray.results.store.store import Store
from nalu_ray.rl.agent import choice, stored
from nalu_ray.training import best_networks, tensor_files

DOCUMENT = Path(__file__).parents[1] / "docs" / "using.md"
# splits and metrics of the rows that are kept; None keeps all metrics but no curves
SCORES = {
    "gridworld": (("interpolation", "extrapolation", "greedy", "far"), ("exact",)),
    "language": (("validation", "test"), ("mae", "exact")),
}
SERIES = (("validation", "test"), None)
# what a command line says of the machine and the folder, not of the network
NOT_KEPT = {"--local": 0, "--out": 1, "--cpus-per-trial": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="folder of the results")
    parser.add_argument("task")
    parser.add_argument("name", help="start of the file's name")
    parser.add_argument("summary", help="what the network is, in a few words")
    parser.add_argument("fields", nargs="*", help="key=value words that choose the network")
    parser.add_argument("--command", help="the command that trains it (default: as stored)")
    options = parser.parse_args()
    wanted = dict(word.split("=", 1) for word in options.fields)
    take = _agent if options.task == "gridworld" else _model
    path, data, ending, setting_id, seed, step = take(options.out, options.task, wanted)
    manifest = _manifest(options.out, options.task, path)
    entry = trained.Shipped(
        task=options.task,
        file=f"{options.task}/{options.name}{ending}",
        summary=options.summary,
        command=options.command or _command(manifest["spec"]["command"]),
        version=manifest["versions"]["nalu-ray"],
        code=manifest["code"],
        sha256=hashlib.sha256(data).hexdigest(),
        scores=_scores(options.out, options.task, setting_id, seed, step),
    )
    target = trained.folder() / entry.file
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(data)
    _put(entry)
    _write_table()
    print(f"{target}: {len(data):,} bytes, from {path}")


def _agent(out: str, task: str, wanted: dict[str, str]) -> tuple[str, bytes, str, str, int, None]:
    path, agent = choice.best(out, wanted)
    about = agent.about
    data = Path(path).read_bytes()
    assert stored.about(data) == about
    return path, data, choice.ENDING, about["setting_id"], about["seed"], None


def _model(out: str, task: str, wanted: dict[str, str]) -> tuple[str, bytes, str, str, int, int]:
    """Cuts the best seed out of its trial's file."""
    path, model = best_networks.best(out, task, wanted)
    setting = task_named(task).setting_type.model_validate(model.setting)
    saved: dict[str, Any] = torch.load(io.BytesIO(Path(path).read_bytes()), weights_only=True)
    saved["about"] = [model.about]
    saved["weights"] = {name: value[None].clone() for name, value in model.weights.items()}
    data = tensor_files.to_bytes(saved, best_networks.ModelError)
    about = model.about
    return path, data, best_networks.ENDING, setting.id, about["seed"], about["step"]


def _manifest(out: str, task: str, path: str) -> dict[str, Any]:
    trial = "-".join(Path(path).name.split(".")[0].split("-")[:2])
    data = Path(out, task, f"{trial}.json").read_bytes()
    manifest: dict[str, Any] = seal.json_values(data)
    return manifest


def _command(line: str) -> str:
    words, kept = iter(shlex.split(line)), []
    for word in words:
        if word in NOT_KEPT:
            for _ in range(NOT_KEPT[word]):
                next(words)
        else:
            kept.append(word)
    return shlex.join(kept)


def _scores(out: str, task: str, setting_id: str, seed: int, step: int | None) -> dict[str, float]:
    splits, metrics = SCORES.get(task, SERIES)
    rows = Store(out).load(task)
    rows = rows[(rows["setting_id"] == setting_id) & (rows["seed"] == seed)]
    rows = rows[rows["split"].isin(splits)]
    rows = rows[rows["metric"].isin(metrics)] if metrics else rows[rows["x"].isna()]
    rows = rows if step is None else rows[rows["step"] == step]
    names = rows["split"] + " " + rows["metric"]
    at = [f" {x:g}" if x == x else "" for x in rows["x"]]
    return {
        name + x: round(float(v), 5) for name, x, v in zip(names, at, rows["value"], strict=True)
    }


def _put(entry: trained.Shipped) -> None:
    path = trained.folder() / trained.INDEX
    entries = {item["file"]: item for item in json.loads(path.read_text(encoding="utf-8"))}
    entries[entry.file] = entry.model_dump()
    path.write_text(json.dumps(list(entries.values()), indent=1) + "\n", encoding="utf-8")


def _write_table() -> None:
    lines = [
        "| file | what it is | command, after `python -m nalu_ray.` | scores of its test |",
        "|---|---|---|---|",
    ]
    trained.index.cache_clear()
    for entry in trained.index():
        command = entry.command.removeprefix("python -m nalu_ray.")
        cells = f"`{entry.file}`", entry.summary, f"`{command}`", _in_words(entry)
        lines.append(f"| {' | '.join(cells)} |")
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text[: text.index("| file | what")], text[text.index("| file | what") :]
    after = rest[rest.index("\n\n") :]
    DOCUMENT.write_text(before + "\n".join(lines) + after, encoding="utf-8")


def _in_words(entry: trained.Shipped) -> str:
    scores = entry.scores
    if entry.task == "gridworld":
        shown = {"T = 5 to 12": "interpolation exact", "15": "greedy exact 15"}
        shown |= {"19": "greedy exact 19", "30": "far exact 30", "60": "far exact 60"}
        parts = (f"{scores[name]:.1%} at {label}" for label, name in shown.items())
        return f"exact arrivals in the test: {', '.join(parts)}"
    if entry.task == "language":
        return f"test numbers: error {scores['test mae']:.2f}, {scores['test exact']:.1%} exact"
    parts = (f"{scores[f'test mae_{length}']:.3g} at {length}" for length in (10, 100, 1000))
    return f"test error by number of images: {', '.join(parts)}"


if __name__ == "__main__":
    main()
