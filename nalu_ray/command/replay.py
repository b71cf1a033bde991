"""Asks the stored networks: what agents do, and what models answer, as JSON for the HTML page.

``report`` starts this module as a process of its own, because it needs torch and ``report`` does
not. Whatever cannot be shown is left out with a note.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nalu_ray.errors import ConfigError, printable
from nalu_ray.results.store import networks
from nalu_ray.results.store.networks import Runs
from nalu_ray.results.store.store import Store, StoreError

if TYPE_CHECKING:
    from nalu_ray.rl.agent.stored import Agent

ENDINGS = (".agent.pt", ".model.pt")
INSTRUCTIONS = (19, 60)
TEXTS, SERIES = 6, 3
MOST_AGENTS = 4
LSTM = "lstm"  # the paper's first agent, with which others are compared
SECONDS = 300

Shown = dict[str, Any]
"""``about``, and ``traces``, ``series`` or ``episodes``; or a ``note`` that says why not."""


def replays(store: Store, tasks: Mapping[str, Runs | None]) -> dict[str, Shown]:
    """Returns what the stored networks of each task do; tasks without networks are left out.

    Args:
        store: where they are.
        tasks: the runs whose networks are shown, by task; None for all.
    """
    having = {
        task: None if runs is None else sorted(runs)
        for task, runs in tasks.items()
        if _has_networks(store, task, runs)
    }
    if not having:
        return {}
    command = [sys.executable, "-m", "nalu_ray.command.replay", store.out]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(having),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
            encoding="utf-8",
        )
        shown: dict[str, Shown] = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        return dict.fromkeys(
            having, _note((error.stderr.strip().splitlines() or ["no reason"])[-1])
        )
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return dict.fromkeys(having, _note(error))
    return shown


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the JSON of the tasks and runs that are read, as JSON, from the input."""
    parser = argparse.ArgumentParser("python -m nalu_ray.command.replay", description=__doc__)
    parser.add_argument("out", help="folder or URI of the results")
    options = parser.parse_args(argv)
    runs_by_task = {
        task: None if runs is None else {(sid, seed) for sid, seed in runs}
        for task, runs in json.load(sys.stdin).items()
    }
    json.dump(
        {task: _shown(options.out, task, runs) for task, runs in runs_by_task.items()}, sys.stdout
    )
    return 0


def _has_networks(store: Store, task: str, runs: Runs | None) -> bool:
    try:
        names = [item.base_name for item in store.listing(f"{store.root}/{task}")]
    except StoreError:
        return False
    settings = None if runs is None else {sid for sid, _ in runs}
    return any(
        name.endswith(ENDINGS) and (settings is None or networks.setting_of(name) in settings)
        for name in names
    )


def _note(error: object) -> Shown:
    return {"note": f"The stored networks cannot be shown: {printable(error)}"}


def _shown(out: str, task: str, runs: Runs | None = None) -> Shown:
    from nalu_ray.rl.rollout import TASK  # noqa: PLC0415 (torch: not for report)

    try:
        return _episodes(out, runs) if task == TASK else _answers(out, task, runs)
    except Exception as error:  # a damaged or foreign file must not keep the page back
        return _note(error)


def _answers(out: str, name: str, runs: Runs | None = None) -> Shown:
    from nalu_ray import registry  # noqa: PLC0415 (as above)
    from nalu_ray.command import readers  # noqa: PLC0415 (as above)
    from nalu_ray.training import best_networks  # noqa: PLC0415 (as above)

    task = registry.task(name)
    if not isinstance(task, readers.TextReader | readers.SeriesReader):
        return {}
    path, model = best_networks.best(out, name, {}, runs=runs)
    setting = task.setting_type.model_validate(model.setting)
    description = {axis: getattr(setting, axis) for axis in task.axes} | dict(model.about)
    about = f"{os.path.basename(path)}: {networks.describe(description)}."
    if isinstance(task, readers.SeriesReader):
        task.prepare()
        series = task.examples(setting, model.weights, model.about["seed"], SERIES)
        drawn = [
            {
                "png": _png(images.numpy()), "names": list(task.names), "values": values.tolist(),
                "targets": targets.tolist(),
            }
            for images, values, targets in series
        ]  # fmt: skip
        return {"about": about, "series": drawn}
    traces = [
        {"words": words, "values": task.after_each(setting, model.weights, words), "target": target}
        for words, target in task.unseen(setting, model.about["seed"], TEXTS)
    ]
    return {"about": about, "traces": traces}


def _png(images: Any) -> str:
    """Returns images, (T, height, width), side by side as PNG in base64, ink dark."""
    import numpy as np  # noqa: PLC0415 (as above)
    from PIL import Image  # noqa: PLC0415 (as above)

    buffer = io.BytesIO()
    Image.fromarray(255 - np.hstack(list(images))).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def _episodes(out: str, runs: Runs | None = None) -> Shown:
    """Plays the best agent of each variant: the best of all first, then the LSTM.

    Where no LSTM is stored, that of the package is played.
    """
    from nalu_ray.command.network_choice import shipped_agent  # noqa: PLC0415 (as above)
    from nalu_ray.rl.agent import choice  # noqa: PLC0415 (as above)
    from nalu_ray.rl.rollout import TASK  # noqa: PLC0415 (as above)

    first = str(choice.best(out, {}, runs)[1].about.get("variant"))
    rows = Store(out).load(TASK)
    stored = {LSTM, *(map(str, rows["variant"].unique()) if "variant" in rows else ())}
    variants = [first, *sorted(stored - {first}, key=lambda name: (name != LSTM, name))]
    episodes: list[Mapping[str, Any]] = []
    for variant in variants[:MOST_AGENTS]:
        is_shipped = False
        try:
            _, agent = choice.best(out, {"variant": variant}, runs)
        except ConfigError:  # its agents were not stored
            if variant != LSTM:
                continue
            (_, agent), is_shipped = shipped_agent({"variant": LSTM}), True
        shown = [_episode(agent, variant, instruction) for instruction in INSTRUCTIONS]
        episodes += [{**episode, "shipped": is_shipped} for episode in shown]
    more = f" Not shown: {', '.join(variants[MOST_AGENTS:])}." if variants[MOST_AGENTS:] else ""
    return {"about": f"Actions are the most likely ones.{more}", "episodes": episodes}


def _episode(agent: Agent, variant: str, instruction: int) -> Mapping[str, Any]:
    import numpy as np  # noqa: PLC0415 (as above)

    from nalu_ray.rl import animation  # noqa: PLC0415 (as above)

    world = agent.world
    limit = max(world.time_limit, 2 * instruction)
    moments = list(animation.play(agent, instruction, episodes=1, time_limit=limit))
    places = np.argwhere(world.free) + world.border
    walls = np.pad(~world.free, world.border, constant_values=True)
    score = agent.about.get("exact")
    exact = f"; in validation, {100 * score:.0f} % exact" if isinstance(score, float) else ""
    texts = [f"t = {m.t}: {m.action or animation.ending(m)}" for m in moments]
    return {
        "variant": variant,
        "algorithm": str(agent.about.get("algorithm", "")),
        "instruction": instruction,
        "outcome": f"{animation.ending(moments[-1])}{exact}",
        "walls": walls.astype(int).tolist(),
        "target": places[moments[0].frame % world.cells].tolist(),
        "moments": [
            [*places[m.frame // world.cells].tolist(), text]
            for m, text in zip(moments, texts, strict=True)
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
