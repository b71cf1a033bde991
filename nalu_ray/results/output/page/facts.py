"""How a task's rows were made: commands, presets, budget, dates, versions and hardware."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from nalu_ray.errors import printable
from nalu_ray.results.analysis.text import in_full
from nalu_ray.results.specs import BUDGET, TaskSpecs
from nalu_ray.results.store.store import Outcome

MISSING = "not recorded"
_MOST = 6
_LATEST = 4_102_444_800.0  # the year 2100: a later start is no date

Fact = tuple[str, Sequence[str]]
"""A name and its texts, one per line."""


def facts(
    specs: TaskSpecs,
    outcomes: Mapping[tuple[str, int], Outcome],
    manifests: Iterable[Mapping[str, Any]],
) -> list[Fact]:
    """Returns how a task's rows were made; what no manifest says is ``not recorded``.

    Args:
        specs: the task's tables and figures.
        outcomes: how each shown seed ended, by setting id and seed.
        manifests: those of the trials of the shown seeds.
    """
    stored = list(manifests)
    trials = [spec if isinstance(spec := m.get("spec"), dict) else {} for m in stored]
    return [
        ("Command", _listed(str(trial["command"]) for trial in trials if trial.get("command"))),
        ("Preset", _listed(map(_preset, trials))),
        ("Budget", _budget([_mapping(trial.get("setting")) for trial in trials])),
        ("Seeds", _seeds(outcomes)),
        ("Selection", _listed(t.selection.describe() for t in specs.tables) or ["none"]),
        ("Date", _dates(stored)),
        ("Duration", _duration(stored)),
        ("Hardware", _listed(map(_hardware, stored))),
        ("Versions", _listed(map(_versions, stored))),
        ("Commit", _listed(map(_commit, stored))),
    ]


def _listed(texts: Iterable[str]) -> list[str]:
    """Returns distinct texts, the most frequent first; ``not recorded`` if there are none."""
    counts = Counter(printable(text) for text in texts if text)
    lines = [text for text, _ in counts.most_common(_MOST)]
    more = len(counts) - len(lines)
    return [*lines, *([f"and {more} more"] if more > 0 else [])] or [MISSING]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _preset(trial: Mapping[str, Any]) -> str:
    changes = " ".join(f"{k}={in_full(v)}" for k, v in _mapping(trial.get("changes")).items())
    return f"{trial['preset']} {changes}".strip() if trial.get("preset") else ""


def _budget(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for name in BUDGET:
        values = {in_full(setting[name]) for setting in settings if name in setting}
        if values:
            shown = sorted(values, key=_number)
            more = f" and {len(shown) - _MOST} more" if len(shown) > _MOST else ""
            lines.append(f"{name}={', '.join(map(printable, shown[:_MOST]))}{more}")
    return lines or [MISSING]


def _number(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return math.inf, text


def _seeds(outcomes: Mapping[tuple[str, int], Outcome]) -> list[str]:
    settings = len({setting for setting, _ in outcomes})
    lines = [f"{len(outcomes):,} runs: seeds of {settings:,} setting{'s' * (settings != 1)}"]
    reasons = Counter(
        _first_line(item.reason or "no reason given") for item in outcomes.values() if not item.ok
    )
    return lines + [
        f"{count} seed{'s' * (count > 1)} lost: {printable(reason)}"
        for reason, count in reasons.most_common(5)
    ]


def _first_line(text: str) -> str:
    # the step differs from seed to seed, the reason does not
    return re.sub(r" at step \d+", "", (text.splitlines() or [""])[0])[:200]


def _numbers(manifests: Iterable[Mapping[str, Any]], name: str) -> Iterator[float]:
    for manifest in manifests:
        value = manifest.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LATEST:
            yield float(value)


def _dates(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    known = sorted(_numbers(manifests, "started"))
    days = [datetime.fromtimestamp(t, timezone.utc).strftime("%Y-%m-%d") for t in known]
    return [" to ".join(dict.fromkeys([days[0], days[-1]]))] if days else [MISSING]


def _duration(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    seconds = list(_numbers(manifests, "seconds"))
    if not seconds:
        return [MISSING]
    trials = f"{len(seconds):,} trial{'s' * (len(seconds) > 1)}"
    return [f"{_time(sum(seconds))} in {trials}, the longest {_time(max(seconds))}"]


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def _hardware(manifest: Mapping[str, Any]) -> str:
    known = _mapping(manifest.get("hardware"))
    gpus = known.get("gpus")
    parts = [str(known[name]) for name in ("processor", "machine") if known.get(name)]
    parts += [f"{known['cpus']} CPUs"] if known.get("cpus") else []
    if isinstance(gpus, list) and parts:
        parts.append(", ".join(map(str, gpus)) or "no GPU")
    return ", ".join(parts)


def _versions(manifest: Mapping[str, Any]) -> str:
    versions = _mapping(manifest.get("versions"))
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _commit(manifest: Mapping[str, Any]) -> str:
    if not manifest.get("commit"):
        return ""
    return f"{str(manifest['commit'])[:12]}{' with local changes' * bool(manifest.get('dirty'))}"
