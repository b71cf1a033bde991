"""The resources of a trial, and the names of the presets; loads nothing that is slow to load."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from nalu_ray.input.values import StrictModel, check_plain

PRESETS = ("smoke", "laptop", "paper")
"""Presets that every task has; a task may have more, such as a protocol of the field."""

_ROUNDING = 0.05  # of n in 1/n, so that 0.33 is a third


class Resources(StrictModel):
    """The resources of one trial."""

    cpus_per_trial: float = Field(1.0, gt=0, description="CPUs per trial")
    gpus_per_trial: float | Literal["auto"] = Field(
        0.0,
        description="GPUs per trial: 1, or 1/n so that n trials share a GPU; auto: measure and use "
        "the fastest of 1, 1/2 and 1/4",
    )
    seeds_per_trial: int = Field(100, ge=1, description="seeds per trial, trained at once")
    seeds_per_gpu: int | None = Field(
        None, ge=1, description="seeds per trial on a whole GPU; 1/n of them on 1/n of a GPU"
    )
    max_concurrent: int | None = Field(None, ge=1, description="maximum number of trials at a time")

    @field_validator("gpus_per_trial", mode="before")
    @classmethod
    def _fills_gpus(cls, value: Any) -> Any:
        if value == "auto":
            return value
        try:
            check_plain(value, float)
            number = float(value)
            parts = 1 / number if 0 < number < 1 else 0.0
            part = round(parts) > 1 and abs(parts - round(parts)) <= _ROUNDING
            # a trial trains on one GPU: of two, one would idle
            fills = part or number in (0, 1)
        except (TypeError, ValueError, OverflowError):
            fills = False
        if not fills:
            raise ValueError(
                "must be 0, 1, 1/n such as 0.5 or 0.25, or auto; a trial uses at most one GPU"
            )
        return number

    @property
    def gpus(self) -> float:
        """GPUs that a trial reserves; 1 for ``auto`` until the share is measured."""
        return 1.0 if self.gpus_per_trial == "auto" else self.gpus_per_trial
