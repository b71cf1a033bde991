"""What a notebook or script uses: sweeps, stored results, published tables, a training loop.

All of it is re-exported by ``nalu_ray``, together with the arithmetic units::

    import nalu_ray as nr

    run = nr.run("static", layer=["nac", "nalu"], op="mul", seeds=20)
    run.table()

Wrong arguments raise :class:`nalu_ray.errors.ConfigError` with the messages of the commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from nalu_ray.errors import ConfigError, did_you_mean, printable
from nalu_ray.input.values import split
from nalu_ray.results import published as tables_of_the_paper
from nalu_ray.results.analysis.text import in_full
from nalu_ray.results.filters import Filter
from nalu_ray.results.output.notebook import FailedSeed, Results
from nalu_ray.results.output.save import Stored
from nalu_ray.results.store.store import Store, StoreError

if TYPE_CHECKING:
    from torch import nn

    from nalu_ray.command.request import TuneRequest
    from nalu_ray.sweep.plan import Plan
    from nalu_ray.training.custom import TrainedModel

__all__ = ["FailedSeed", "Results", "list_tasks", "load_results", "published", "run", "train"]


def run(
    task: str,
    *,
    preset: str | None = None,
    config: str | None = None,
    seeds: int | str | Iterable[int] | None = None,
    out: str = "results",
    ray: bool = False,
    address: str | None = None,
    rerun: bool = False,
    rerun_failed: bool = False,
    fail_fast: bool = False,
    quiet: bool = False,
    resources: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Results:
    """Runs a sweep like ``python -m nalu_ray.tune``: the same settings, seeds, plan and rows.

    Stored seeds are not run again. Failed seeds do not raise an error; they are in ``failed``.

    Args:
        task: name of the task; :func:`list_tasks` has all.
        preset: name of the preset (default: laptop).
        config: a sweep file of your own, instead of the task's presets.
        seeds: 20 for seeds 0 to 19, or a list of seeds (default: the preset's).
        out: folder or URI of the stored rows.
        ray: run on Ray, on all CPUs of this machine or on the cluster of ``address``. By default
            all trials run in this process, one after another. The rows are the same.
        address: the Ray cluster to join, ``auto`` for this machine's; implies ``ray``.
        rerun, rerun_failed, fail_fast: as the flags of the command.
        quiet: print only failures and warnings.
        resources: the resources of a trial, such as ``{"gpus_per_trial": 0.25}``.
        fields: fields of the sweep to override. A list makes a grid, a tuple is one value:
            ``layer=["nac", "nalu"]``, ``train_range=(1, 2)``.

    Returns:
        The rows of these settings and seeds, whatever else is stored.

    Raises:
        ConfigError: an argument is wrong.
        StoreError, StoppedError: rows cannot be written or read, or Ray is lost.
    """
    from nalu_ray.command import screen  # noqa: PLC0415 (keeps torch out of load_results)
    from nalu_ray.command.execution import execute  # noqa: PLC0415 (as above)

    flags = {"preset": preset, "config": config, "out": out, "address": address}
    switches = {"rerun": rerun, "rerun_failed": rerun_failed, "fail_fast": fail_fast}
    switches["local"] = not (ray or address)
    request = _request(task, {**flags, **(resources or {})}, switches, seeds, fields)
    request.options.quiet = quiet
    plan = execute(request, screen.console()).plan
    stored = Stored.load(request.store, request.task.name)
    if stored is None:
        raise StoreError(f"no rows in {request.store.out} that can be read")
    asked = {(point.setting.id, seed) for point in plan.points for seed in point.seeds}
    missing = tuple(_not_done(plan, asked, request.store))
    command = f"python -m nalu_ray.tune {request.command}"
    return Results(replace(stored, only=Filter(runs=frozenset(asked))), command, missing)


def load_results(
    task: str,
    *,
    out: str = "results",
    seeds: int | str | Iterable[int] | None = None,
    **fields: Any,
) -> Results:
    """Reads the stored rows of a task; loads neither torch nor Ray.

    Args:
        task: name of the task.
        out: folder or URI of the stored rows.
        seeds: 20 for seeds 0 to 19, or a list of seeds (default: all).
        fields: only settings with these values; a list has alternatives. ``preset="laptop"`` shows
            the tables of a preset.

    Raises:
        ConfigError: nothing is stored, or a field or value is unknown.
        StoreError: a file cannot be read.
    """
    store = Store(out)
    names = store.tasks()
    if task not in names:
        known = f"{did_you_mean('task', task, names)} (stored in {store.out})"
        raise ConfigError([known if names else f"no rows stored in {store.out}"])
    stored = Stored.load(store, task)
    if stored is None:
        raise ConfigError([f"{task}: no rows in {store.out} that can be read"])
    seeds = seeds if isinstance(seeds, int | str | None) else list(seeds)
    wanted = {name: _texts(value) for name, value in fields.items()}
    only = stored.filtered(wanted, _seeds(seeds), _words(fields, seeds))
    return Results(only, stored.command)


def published(table: int) -> pd.DataFrame:
    """Returns a table of the paper as printed.

    Args:
        table: 1 to 11.

    Returns:
        (values, 8) in reading order: ``table row column split text value qualifier bold``.

    Raises:
        ConfigError: the paper has no such table.
    """
    try:
        return tables_of_the_paper.load(table)
    except ValueError as error:
        raise ConfigError([str(error)]) from error


def list_tasks() -> pd.DataFrame:
    """Returns every task in the paper's order: ``section``, ``title`` and ``presets`` by name."""
    from nalu_ray import registry  # noqa: PLC0415 (loads the tasks, and torch)
    from nalu_ray.sweep.presets import sweep_of  # noqa: PLC0415 (as above)

    known = registry.tasks()
    data = {
        "section": [task.section for task in known.values()],
        "title": [task.title for task in known.values()],
        "presets": [tuple(sweep_of(task).presets) for task in known.values()],
    }
    return pd.DataFrame(data, index=pd.Index(list(known), name="task"))


def train(
    model: nn.Module | Callable[[], nn.Module],
    task: str = "static",
    *,
    preset: str | None = None,
    seeds: int | str | Iterable[int] = 10,
    device: str = "cpu",
    **fields: Any,
) -> TrainedModel:
    """Trains your own network on a task's data with a task's recipe; stores nothing.

    The loop is that of the sweeps, with several seeds at once, each from a start of its own: see
    :func:`nalu_ray.training.custom.train`. The recipe is that of the layer whose network has the
    same parameters as yours; for other networks, name one by ``layer=``.

    Args:
        model: the network, which gets the trained weights; or a function without arguments that
            builds one, such as a class, whose start is then left as it is.
        task: name of a supervised task.
        preset: the preset with the recipe (default: laptop).
        seeds: 10 for seeds 0 to 9, or a list of seeds.
        device: where to train.
        fields: fields of the task: the data, such as ``op="mul"``, or changes of the recipe.

    Returns:
        The network of the seed with the lowest interpolation error, with its errors.

    Raises:
        ConfigError: an argument is wrong, or the network cannot be trained so.
        RuntimeError: every seed diverged.
    """
    import torch  # noqa: PLC0415 (slow to load)

    from nalu_ray.training import custom  # noqa: PLC0415 (as above)
    from nalu_ray.training.supervised import SupervisedTask  # noqa: PLC0415 (as above)

    request = _request(task, {"preset": preset}, {"dry_run": True}, seeds, fields)
    if not isinstance(request.task, SupervisedTask):
        raise ConfigError([f"task={task}: not a supervised task"])
    settings: list[Any] = [point.setting for point in request.points]
    try:
        setting = settings[0]
        if len(settings) > 1:
            network, others = _varying(request)
            alike = custom.like(request.task, settings, model) if not others else []
            setting = _only(network, others, alike, settings)
        request.task.prepare()
        return custom.train(
            request.task, setting, request.points[0].seeds, model, torch.device(device)
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(getattr(error, "messages", [printable(error)])) from error


# -- arguments as the words of a command -----------------------------------------------------------


def _request(
    task: str,
    flags: Mapping[str, Any],
    switches: Mapping[str, bool],
    seeds: int | str | Iterable[int] | None,
    fields: Mapping[str, Any],
) -> TuneRequest:
    """Returns the request that the command makes of the same arguments.

    Raises:
        ConfigError: all mistakes together.
    """
    from nalu_ray.command.flags import parser  # noqa: PLC0415 (as below)
    from nalu_ray.command.request import read  # noqa: PLC0415 (loads torch)

    words = [task, *_words(fields, seeds)]
    words += [f"{_flag(name)}={value}" for name, value in flags.items() if value is not None]
    words += [_flag(name) for name, is_on in switches.items() if is_on]
    options, unknown = parser().parse_known_intermixed_args(words)
    return read(options, unknown, words)


def _words(fields: Mapping[str, Any], seeds: int | str | Iterable[int] | None) -> list[str]:
    """Returns fields and seeds as the command line has them."""
    words = [f"{name}={_word(value)}" for name, value in fields.items()]
    return words if seeds is None else [*words, f"seeds={_seeds_word(seeds)}"]


def _seeds_word(seeds: int | str | Iterable[int]) -> str:
    """Returns seeds as the command line has them: a list of one is ``7,``, as ``7`` is a count."""
    if isinstance(seeds, str) or not isinstance(seeds, Iterable) or not getattr(seeds, "ndim", 1):
        return _word(seeds)
    words = [_word(seed) for seed in seeds]
    return f"{words[0]}," if len(words) == 1 else ",".join(words)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _word(value: Any) -> str:
    """Returns a value as the command line writes it: ``nac,nalu``, ``1:2``, ``none``."""
    if getattr(value, "ndim", None) == 0:  # a number of NumPy or torch
        value = value.item()
    if isinstance(value, Mapping):
        return ";".join(f"{name}:{_word(part)}" for name, part in value.items()) or "{}"
    if isinstance(value, tuple):
        return ":".join(map(_word, value))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(_word, value))
    return in_full(value)


def _texts(value: Any) -> list[str]:
    """Returns a field's value, or those of a list, as texts of stored rows."""
    if isinstance(value, str):
        return split(value)
    several = isinstance(value, Iterable) and not isinstance(value, tuple | Mapping)
    return [in_full(part) for part in (value if several else [value])]


def _seeds(seeds: int | str | Iterable[int] | None) -> tuple[int, ...]:
    if seeds is None:
        return ()
    from nalu_ray.sweep.presets import parse_seeds  # noqa: PLC0415 (rarely needed)

    return parse_seeds(_seeds_word(seeds))


# -- the parts of run and train --------------------------------------------------------------------


def _not_done(plan: Plan, asked: Iterable[tuple[str, int]], store: Store) -> Iterable[FailedSeed]:
    """Yields the seeds without rows: the sweep was stopped before them."""
    stored = store.outcomes(plan.task.name)
    for sid, seed in sorted(asked):
        if (sid, seed) not in stored:
            yield FailedSeed(plan.labels[sid], seed, "not done")


def _varying(request: TuneRequest) -> tuple[str, list[str]]:
    """Returns the field that names networks, and the fields that vary for one network."""
    network = request.task.axes[0]
    of_networks: dict[Any, list[dict[str, Any]]] = {}
    for point in request.points:
        of_networks.setdefault(point.values[network], []).append(point.values)
    several = max(of_networks.values(), key=len)
    return network, [name for name in several[0] if len({str(v[name]) for v in several}) > 1]


def _only(network: str, others: Sequence[str], alike: Sequence[Any], every: Sequence[Any]) -> Any:
    """Returns the one recipe that is left; networks of one recipe differ in their name alone.

    Raises:
        ConfigError: there are none, or several; the message names the fields to give.
    """
    if others:
        text = f"{len(every)} settings; give one value for {', '.join(others)}"
        raise ConfigError([f"one model is trained with one setting, not {text}"])
    recipes = {str(each.model_copy(update={network: ""})): each for each in reversed(alike)}
    if len(recipes) == 1:
        return next(iter(recipes.values()))
    names = ", ".join(str(getattr(each, network)) for each in (alike or every))
    text = "like several" if recipes else "like none"
    raise ConfigError(
        [f"{network}: the model is {text} of these networks; name one to take its recipe: {names}"]
    )
