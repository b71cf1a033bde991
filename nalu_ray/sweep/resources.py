"""What a trial asks of the machine or the cluster; a part of each sweep and of the command line."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from nalu_ray.values import Plain, check_plain

_ROUNDING = 0.05  # of n in 1/n, so that 0.33 is a third


class Resources(Plain):
    """What one trial asks of the machine or the cluster."""

    cpus_per_trial: float = Field(1.0, gt=0, description="CPUs a trial reserves")
    gpus_per_trial: float | Literal["auto"] = Field(
        0.0, description="GPUs a trial reserves, or a fraction 1/n; auto: as many as fit share one"
    )
    seeds_per_trial: int = Field(100, ge=1, description="seeds trained at once, stacked")
    seeds_per_gpu: int | None = Field(
        None, ge=1, description="seeds at once on a GPU, 1/n of them on 1/n of it"
    )
    max_concurrent: int | None = Field(None, ge=1, description="most trials at a time")

    @field_validator("gpus_per_trial", mode="before")
    @classmethod
    def _fills_gpus(cls, value: Any) -> Any:
        if value == "auto":
            return value
        try:
            check_plain(value, float)
            found = float(value)
            parts = 1 / found if 0 < found < 1 else 0.0
            part = round(parts) > 1 and abs(parts - round(parts)) <= _ROUNDING
            fills = part or (found >= 0 and found.is_integer())
        except (TypeError, ValueError, OverflowError):
            fills = False
        if not fills:
            raise ValueError("a whole number of GPUs, 1/n of one such as 0.5 or 0.25, or auto")
        return found

    @property
    def gpus(self) -> float:
        """GPUs that a trial reserves; one, while it is not known how many trials fit on it."""
        return 1.0 if self.gpus_per_trial == "auto" else self.gpus_per_trial
