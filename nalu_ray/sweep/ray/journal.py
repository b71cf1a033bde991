"""The driver's progress as a log file of its Ray job, for the dashboard.

A job that ``ray job submit`` started has its output there already. Any other driver is a job
without a log, so this module writes one. In a Ray that the command starts, it registers the driver
as a submitted job, whose page shows the log. On a joined cluster, the log is one of the job's
"other logs".
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray._private.utils import get_entrypoint_name
from ray.dashboard.modules.job.common import (
    JOB_ID_METADATA_KEY,
    JOB_LOGS_PATH_TEMPLATE,
    JobInfo,
    JobInfoStorageClient,
    JobStatus,
)
from ray.experimental.internal_kv import _internal_kv_put
from ray.job_config import JobConfig
from rich.console import Console

from nalu_ray.sweep.plan import Plan
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.speeds import Speeds
from nalu_ray.sweep.stdio import Stream

SUBMISSION = "nalu-ray"  # a Ray of the command's own has this job only
WIDTH = 200

log = logging.getLogger(__name__)


def job_config() -> JobConfig:
    """Returns the configuration of the driver's job, for :func:`register`."""
    return JobConfig(metadata={JOB_ID_METADATA_KEY: SUBMISSION})


def register() -> None:
    """Lists this driver as a submitted job of the Ray that it has just started."""
    if _submission() != SUBMISSION:  # the caller has started Ray
        return
    about = JobInfo(
        status=JobStatus.RUNNING,
        entrypoint=get_entrypoint_name(),
        start_time=int(time.time() * 1000),
        driver_node_id=ray.get_runtime_context().get_node_id(),
    )
    key = JobInfoStorageClient.JOB_DATA_KEY.format(job_id=SUBMISSION)
    _internal_kv_put(key, json.dumps(about.to_json()), overwrite=True, namespace="job")


def path() -> Path | None:
    """Returns the file of the driver's log; None for a job whose output Ray keeps."""
    submitted = _submission()
    if submitted not in ("", SUBMISSION):
        return None
    job = ray.get_runtime_context().get_job_id()
    name = JOB_LOGS_PATH_TEMPLATE.format(submission_id=submitted)
    node: Any = ray._private.worker._global_node
    return Path(node.get_logs_dir_path(), name if submitted else f"driver-{job}.log")


def _submission() -> str:
    """Returns the name under which this driver was submitted; empty if it was not."""
    worker: Any = ray._private.worker.global_worker
    config = worker.core_worker.get_job_config()
    return str(config.metadata.get(JOB_ID_METADATA_KEY, ""))


@contextlib.contextmanager
def journal(plan: Plan) -> Iterator[Board | None]:
    """Yields a board on the driver's log file, None where Ray keeps the driver's output."""
    try:
        file = path()
        stream = None if file is None else open(file, "a", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        log.warning("the dashboard cannot show the driver's progress: %s", error)
        stream = None
    if stream is None:
        yield None
        return
    with stream:
        lasting: Any = Stream(stream)
        # the command's own board keeps the measured speeds
        shown = replace(plan, speeds=Speeds())
        with Board(Console(file=lasting, width=WIDTH), shown) as board:
            board.note(
                f"{plan.task.title}: {len(plan.trials):,} trials, {plan.slots} at a time, "
                f"{plan.seeds:,} seeds; each trial is a task of this job"
            )
            yield board
            board.note(
                f"ended: {board.trials_done:,} of {len(plan.trials):,} trials done, "
                f"{board.seeds_failed:,} seeds failed"
            )
