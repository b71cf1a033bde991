"""What a trial is to do, and its reports of where it stands."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic import BaseModel, ConfigDict, SerializeAsAny, ValidationInfo, field_validator

from nalu_ray import registry
from nalu_ray.task import Setting


class TrialSpec(BaseModel):
    """What a worker needs to run one trial.

    It is made of objects by the plan, or of plain values (:meth:`plain`) in a process of Ray's.

    Attributes:
        task: name of the task.
        setting: checked already; plain values become the task's setting.
        setting_id: :attr:`nalu_ray.task.Setting.id` of it.
        seeds: the block, trained at once.
        label: name for people, such as ``static nalu mul lr=0.01 seeds 0-99``.
        steps: steps per seed.
        out: folder or URI of the rows.
        command: command line that asked for it.
        commit: of the source, where the command knows it.
        cpus, gpus: that it reserves, those of its processes included.
        memory: bytes that it reserves; 0 for none.
        processes: number of processes that it starts beside its own.
        mark: of the results folder, see :class:`nalu_ray.results.store.store.Store`.
        code: digest of the source that must run it; empty for any.
        preset: of the sweep that asked for it; empty for none.
        changes: fields of the setting that the preset has otherwise, see
            :func:`nalu_ray.sweep.changes.changes`.
    """

    model_config = ConfigDict(frozen=True)

    task: str
    setting: SerializeAsAny[Setting]
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

    @field_validator("setting", mode="before")
    @classmethod
    def _of_its_task(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Setting):
            return value
        return registry.task(info.data["task"]).setting_type.model_validate(value)

    def plain(self) -> dict[str, Any]:
        """Returns all of it as plain values for Ray, with what is computed from them."""
        return {**self.model_dump(mode="json"), "key": self.key, "share": self.share}

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

    def plain(self) -> dict[str, Any]:
        """Returns it as a result of Tune's: loggers take lists and names, no numbers as keys."""
        lists = {"failed": sorted(self.failed.items()), "messages": list(self.messages)}
        return {**vars(self), "shown": dict(self.shown), **lists}

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> Report:
        """Returns the report that a result of Tune's was made from."""
        values = {field.name: result[field.name] for field in fields(cls)}
        failed, messages = dict(values["failed"]), tuple(values["messages"])
        return cls(**{**values, "failed": failed, "messages": messages})
