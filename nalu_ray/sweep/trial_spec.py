"""What a trial is asked to do, and how it tells where it stands: plain values."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict


class TrialSpec(BaseModel):
    """What a worker needs to run one trial: plain values, the same in every process.

    Attributes:
        mark: of the results folder, see :class:`nalu_ray.results.store.store.Store`.
        code: digest of the source that must run it; empty for any.
        preset: of the sweep that asked for it; empty for none.
        changes: fields of the setting that the preset has otherwise, see
            :func:`nalu_ray.sweep.changes.changes`.
    """

    model_config = ConfigDict(frozen=True)

    task: str
    setting: dict[str, Any]
    setting_id: str
    seeds: tuple[int, ...]
    label: str
    steps: int
    out: str
    command: str = ""
    commit: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    memory: int = 0
    processes: int = 0
    mark: str = ""
    code: str = ""
    preset: str = ""
    changes: dict[str, Any] = {}

    @property
    def about(self) -> dict[str, str]:
        """What each row says beside the setting, a column each."""
        if not self.preset:
            return {}
        return {"preset": self.preset, "changes": json.dumps(self.changes, sort_keys=True)}

    @property
    def share(self) -> float:
        """CPUs of each process, the trial's own and those it starts; Ray counts in 1/10,000."""
        return math.floor(self.cpus / (1 + self.processes) * 1e4) / 1e4

    @property
    def threads(self) -> int:
        """Threads that the trial's own process computes with."""
        return max(1, int(self.share))

    @property
    def key(self) -> str:
        """A name for this setting with these seeds: where its unfinished state is kept."""
        return state_key(self.setting_id, self.seeds)


def state_key(setting_id: str, seeds: tuple[int, ...]) -> str:
    """Returns the name under which the state of a setting with these seeds is kept."""
    return f"{setting_id}-{hashlib.sha256(repr(seeds).encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Report:
    """Where a trial stands.

    Attributes:
        step, steps, shown: as in :class:`nalu_ray.task.Progress`.
        seconds: worked so far, without the start of the process.
        resumed: step that it went on from; 0 for a fresh start.
        done: the rows are stored; ``failed`` says why which seeds did not complete.
        messages: warnings since the last report.
    """

    step: int
    steps: int
    shown: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    resumed: int = 0
    done: bool = False
    failed: Mapping[int, str] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
