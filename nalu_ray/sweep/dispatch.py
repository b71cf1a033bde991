"""What a worker receives and sends back.

The trial that it receives (TrialSpec), the check that its machine may run the trial, and the report
that it sends back (Report).
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pyarrow.fs import FileType
from pydantic import (
    BaseModel,
    ConfigDict,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from nalu_ray import registry
from nalu_ray.errors import ConfigError, explain
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.code_digest import numbers_digest, package_digest
from nalu_ray.task import Progress, Setting

_PASSWORD = re.compile(r"//[^/@\s]+@")
SHARED = (
    "rows are written where trials run, so --out must be a shared folder or a URI such as "
    "s3://bucket/results"
)


class TrialSpec(BaseModel):
    """Everything that a worker needs to run one trial.

    The plan makes it from objects, a worker from plain values (:meth:`plain`).

    Attributes:
        task: name of the task.
        setting: the checked setting; plain values become the task's setting type.
        setting_id: the setting's :attr:`nalu_ray.task.Setting.id`.
        seeds: the block of seeds, trained at once.
        label: name for people, such as ``static nalu mul lr=0.01 seeds 0-99``.
        steps: steps per seed.
        out: folder or URI of the rows.
        command: the command line that started the sweep.
        commit: of the source, if the command knows it.
        cpus, gpus: CPUs and GPUs that it reserves, those of its processes included.
        memory: bytes that it reserves; 0 for none.
        processes: number of processes that it starts beside its own.
        mark: marker file of the results folder, see :class:`nalu_ray.results.store.store.Store`.
        code: digest of the package that must run it; empty for any.
        numbers: digest of the source that the setting's numbers depend on, plugins included, where
            the command runs; empty for any.
        preset: the sweep's preset; empty for none.
        changes: fields that differ from the preset, see
            :func:`nalu_ray.sweep.deviations.changes`.
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
    numbers: str = ""
    preset: str = ""
    changes: dict[str, Any] = {}

    @field_validator("setting", mode="before")
    @classmethod
    def _of_its_task(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Setting):
            return value
        return registry.task(info.data["task"]).setting_type.model_validate(value)

    def plain(self) -> dict[str, Any]:
        """Returns the specification as plain values for Ray, with its key and share."""
        return {**self.model_dump(mode="json"), "key": self.key, "share": self.share}

    def public(self) -> dict[str, Any]:
        """Returns plain values for the manifest, without passwords in URIs."""
        values = self.model_dump(mode="json", exclude={"mark"})
        hidden = {name: _PASSWORD.sub("//***@", values[name]) for name in ("out", "command")}
        return {**values, **hidden}

    @property
    def about(self) -> dict[str, str]:
        """Columns of each row beside the setting's."""
        if not self.preset:
            return {}
        return {"preset": self.preset, "changes": json.dumps(self.changes, sort_keys=True)}

    @property
    def share(self) -> float:
        """CPUs per process, the trial's own included; Ray counts in 1/10,000."""
        return math.floor(self.cpus / (1 + self.processes) * 1e4) / 1e4

    @property
    def threads(self) -> int:
        """Number of threads of the trial's own process."""
        return max(1, int(self.share))

    def numbers_here(self) -> str:
        """Returns the digest of ``numbers`` on this machine; empty if a layer cannot be loaded."""
        try:
            return numbers_digest(registry.task(self.task), self.setting)
        except Exception:  # the start of the trial meets it too, and says why
            return ""

    @property
    def key(self) -> str:
        """Name of this setting with these seeds, under which its state is kept."""
        return state_key(self.setting_id, self.seeds)


def state_key(setting_id: str, seeds: tuple[int, ...]) -> str:
    """Returns the name under which the state of a setting with these seeds is kept.

    Args:
        setting_id: the setting's :attr:`nalu_ray.task.Setting.id`.
        seeds: the block of seeds, in its order.
    """
    return f"{setting_id}-{hashlib.sha256(repr(seeds).encode()).hexdigest()[:16]}"


class NodeError(RuntimeError):
    """This machine must not run the trial."""


def receive(values: Mapping[str, Any]) -> TrialSpec:
    """Returns the trial that :meth:`TrialSpec.plain` sent to this machine.

    Raises:
        NodeError: this machine has other code, another task or other layers than the command, or
            does not see the results folder. The message names the machine.
    """
    # first: other code may have other settings
    check_node(values["out"], values["mark"], values["code"])
    advice = "install the same packages on every node"
    here = f"node {platform.node()}"
    try:
        spec = TrialSpec.model_validate(values)
    except (ConfigError, ValidationError) as error:
        if not values["code"]:
            raise
        why = "; ".join(explain(error) if isinstance(error, ValidationError) else error.messages)
        raise NodeError(f"{here} cannot load the task: {why}; {advice}") from error
    if spec.numbers and spec.numbers != spec.numbers_here():
        raise NodeError(
            f"{here} runs a different version of task {spec.task} or its layers (digest "
            f"{spec.numbers_here()}) from this command ({spec.numbers}): {advice}"
        )
    return spec


def check_node(out: str, mark: str, code: str) -> None:
    """Makes sure that this machine may run trials, however late it joined the cluster.

    Args:
        out: folder or URI of the rows.
        mark: path below it of a file that must exist; empty for none.
        code: digest of the package that this machine must have; empty for any.

    Raises:
        NodeError: it may not; the message names the machine.
    """
    here = platform.node()
    if code not in ("", package_digest()):
        raise NodeError(
            f"node {here} runs different code (digest {package_digest()}) from this command "
            f"({code}): copy the same code to every node"
        )
    store = Store(out)
    file = f"{store.root}/{mark}"
    if mark and store.filesystem.get_file_info(file).type == FileType.NotFound:
        raise NodeError(f"node {here} does not see {store.out} ({file} is not there): {SHARED}")


@dataclass(frozen=True)
class Report(Progress):
    """The progress of a trial.

    Attributes:
        seconds: seconds of work so far, without the start of the process.
        resumed: step from which it resumed; 0 for a fresh start.
        done: whether the rows are stored.
        failed: reason per seed that did not complete.
        messages: warnings since the last report.
    """

    seconds: float = 0.0
    resumed: int = 0
    done: bool = False
    failed: Mapping[int, str] = field(default_factory=dict)
    messages: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Returns the report as a result for Tune, whose loggers accept only texts as keys."""
        lists = {"failed": sorted(self.failed.items()), "messages": list(self.messages)}
        return {**vars(self), "shown": dict(self.shown), **lists}

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> Report:
        """Returns the report behind a result that Tune passes on."""
        values = {field.name: result[field.name] for field in fields(cls)}
        failed, messages = dict(values["failed"]), tuple(values["messages"])
        return cls(**{**values, "failed": failed, "messages": messages})
