"""One trial: a setting with a block of seeds, from start to stored rows. It does not use Ray.

The trial writes its own rows wherever it runs, so finished work is stored even if the command that
started it is gone.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from nalu_ray.errors import raise_interruption
from nalu_ray.registry import task as find_task
from nalu_ray.results.store import states
from nalu_ray.results.store.columns import columns
from nalu_ray.results.store.rows import COMPLETED, FAILED, failed_rows
from nalu_ray.results.store.store import Store, StoreError
from nalu_ray.sweep import device, out_of_memory, stopping
from nalu_ray.sweep.dispatch import NodeError, Report, TrialSpec
from nalu_ray.sweep.provenance import provenance
from nalu_ray.task import Progress, Run, Task

log = logging.getLogger(__name__)

__all__ = ["STATE_SECONDS", "Report", "Trial", "TrialSpec"]

STATE_SECONDS = 30.0


class Trial:
    """Runs a :class:`TrialSpec`; however it ends, each seed gets a final row.

    From time to time the trial saves its state beside the results. The next trial of the same
    setting with the same seeds resumes from it, whatever ended this one.

    Args:
        spec: what to run.
        report_seconds: minimum time between two reports, in seconds.
        state_seconds: minimum time between two saved states, in seconds.
        check: called at an error of the run, before it is stored; raises StoppedError if the error
            is not the seeds' fault.

    Attributes:
        failed: reason per seed that did not complete.
        traceback: of the error that ended the trial; empty without one.
    """

    def __init__(
        self,
        spec: TrialSpec,
        *,
        report_seconds: float = 1.0,
        state_seconds: float = STATE_SECONDS,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.spec, self.check = spec, check
        self.report_seconds, self.state_seconds = report_seconds, state_seconds
        self.started, self._began = time.time(), time.monotonic()
        self.run: Run | None = None
        self.failed: dict[int, str] = {}
        self.traceback = ""
        self.made_by: dict[str, Any] = {}
        self.numerics: dict[str, Any] = {}
        self.resumed: dict[str, Any] = {}
        self._before = 0.0
        self._has_state = self._others_state = False

    @functools.cached_property
    def store(self) -> Store:
        """The store of the rows and states."""
        return Store(self.spec.out, self.spec.mark)

    @functools.cached_property
    def code(self) -> str | None:
        """Digest of the source that its numbers depend on; None if a layer cannot be loaded."""
        return self.spec.numbers_here() or None

    def __iter__(self) -> Iterator[Report]:
        """Trains to the end and stores the rows; yields reports. Never raises a task's error.

        Raises:
            StoreError: the rows could not be stored, or the task could not use its storage; the
                last state is kept.
            NodeError: it reserved a GPU that this machine does not have.
            StoppedError: what all trials need is lost; the last state is kept.
        """
        last = Report(0, self.spec.steps)
        try:
            self.start()
            for last in self._reports():
                if last.step < last.steps:
                    yield last
            self._finish_or_keep()
        except NodeError:  # nor is this the seeds' fault
            raise
        except Exception as error:  # a failure is a result: it is stored, and the sweep continues
            raise_interruption(error)
            stopping.raise_storage(error)  # not the seeds' fault
            self.check()
            self.fail(error, last.step)
        finally:
            self.close()
        device.free(self.spec)
        # a killed process may have left part of a state; a state of other code is left to that code
        if (self._has_state or self.store.folder) and not (self._others_state and self.failed):
            states.drop(self.store, self.spec.task, self.spec.key)
        yield replace(last, seconds=self.seconds, done=True, failed=self.failed)

    @property
    def seconds(self) -> float:
        """Seconds of work so far, those before a resumed state included."""
        return self._before + time.monotonic() - self._began

    def start(self, *, resume: bool = True) -> None:
        """Builds the run; with ``resume``, restores its last state."""
        import torch  # noqa: PLC0415 (slow to load, and not needed to plan)

        # a process loads torch once, for all its trials
        self.started, self._began = time.time(), time.monotonic()
        torch.set_num_threads(self.spec.threads)
        deterministic = bool(getattr(self.spec.setting, "deterministic", False))
        self.numerics = device.set_numerics(deterministic)
        # the code as it is now, not as it is when rows are written
        self.made_by = {**self._provenance(), "code": self.code}
        self.run = self._build()
        if not resume:
            return
        try:
            state = states.load(self.store, self.spec.task, self.spec.key)
            if state is not None:
                self._has_state = True
                self._resume(state)
        except Exception as error:  # another version, or damaged: start over
            raise_interruption(error)
            stopping.raise_storage(error)  # the state may be intact
            if out_of_memory.is_oom(error):  # a fresh start would, too
                raise
            name = self.spec.label
            log.warning("%s: cannot resume from its last state, starting over: %s", name, error)
            self.close()
            self.resumed = {}
            self.run = self._build()

    def _build(self) -> Run:
        import torch  # noqa: PLC0415 (as above)

        task: Task[Any] = find_task(self.spec.task)
        here = device.device_of(self.spec)
        self.numerics["device"] = here.type
        if here.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        return task.start(self.spec.setting, self.spec.seeds, here)

    def _resume(self, state: bytes) -> None:
        import torch  # noqa: PLC0415 (as above)

        from nalu_ray.training.tensor_files import check_size  # noqa: PLC0415 (loads torch)

        try:
            check_size(state)
            # on the CPU, wherever it was saved: the run moves its parts to its device
            saved = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
        except Exception as error:  # torch's message recommends running the file's code
            path = states.path(self.store, self.spec.task, self.spec.key)
            raise ValueError(f"{path} is cut off, or holds more than plain values") from error
        if saved.get("code") != self.code:
            self._others_state = True
            raise ValueError(f"other code wrote it (digest {saved.get('code')}, here {self.code})")
        seconds, step = _checked(saved)
        self._running().load_state_dict(saved["run"])
        self._before = seconds
        self.resumed = {"step": step, "commit": saved["commit"]}

    def close(self) -> None:
        """Closes the run, which ends what it started."""
        run, self.run = self.run, None
        if run is not None:
            try:
                run.close()
            except Exception as error:  # its results are stored already
                log.warning("%s: cannot be closed: %s", self.spec.label, error)

    def advance(self) -> Progress:
        """Trains up to the run's next report."""
        return self._running().advance()

    def finish(self) -> pd.DataFrame:
        """Stores the rows of a finished run and returns them.

        Raises:
            StoreError: they cannot be stored.
            RuntimeError: :meth:`start` was not called, or the run did not say how each seed ended.
        """
        run = self._running()
        rows = run.rows()
        final = rows[rows["metric"] == COMPLETED]
        if sorted(final["seed"]) != sorted(self.spec.seeds):
            raise RuntimeError("the run did not give each seed one 'completed' row")
        self._write(rows, run.files())
        self._others_state = False  # superseded by rows
        self.failed = _lost(rows)
        return rows

    def _finish_or_keep(self) -> None:
        """Finishes the run; if its rows cannot be stored, tries to save its state instead."""
        try:
            self.finish()
        except Exception as error:
            if stopping.storage(error) is not None:
                with contextlib.suppress(StoreError):  # the first error is the one to report
                    self._save(self.spec.steps)
            raise

    def fail(self, error: BaseException, step: int) -> None:
        """Stores a failed row per seed, and the traceback beside them.

        Seeds that the run had trained to their end keep their rows and files; see
        :attr:`nalu_ray.task.Run.ended`.

        Args:
            error: what ended the trial.
            step: the last step of the seeds.

        Raises:
            StoreError: they cannot be stored.
        """
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        name = f"{self.spec.setting_id}-{self.spec.seeds[0]}-{int(self.started)}.traceback.txt"
        self.traceback = text
        ended, files = self._ended()
        traceback.clear_frames(error.__traceback__)  # they keep memory in use
        self.close()
        path = self.store.write_text(self.spec.task, name, text)
        what = out_of_memory.reason(self.spec, error) or f"{type(error).__name__}: {error}"
        reason = f"{what} (traceback: {path})"
        self.fail_with(reason, step, out_of_memory.outcome(error), ended, files)

    def fail_with(
        self,
        reason: str,
        step: int,
        outcome: str = FAILED,
        ended: pd.DataFrame | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Stores a final row per seed.

        Args:
            reason: why the seeds failed, for people to read.
            step: the last step of the seeds.
            outcome: ``failed`` or ``out_of_memory``.
            ended: rows of the seeds that did not fail.
            files: files of these, by name.
        """
        done = set() if ended is None else {*ended["seed"]}
        lost = [seed for seed in self.spec.seeds if seed not in done]
        rows = failed_rows(lost, step, reason, outcome)
        self._write(rows if ended is None else pd.concat([ended, rows]), files)
        self.failed = {**_lost(ended), **dict.fromkeys(lost, reason)}

    def _ended(self) -> tuple[pd.DataFrame | None, Mapping[str, bytes]]:
        """Returns rows and files of the seeds that a failed run had trained to their end."""
        try:
            if seeds := getattr(self.run, "ended", ()):
                rows = self._running().rows()
                return rows[rows["seed"].isin(seeds)], self._running().files()
        except Exception as error:  # what failed the run may fail these, too
            log.warning("%s: seeds that had ended are lost: %s", self.spec.label, error)
        return None, {}

    def _running(self) -> Run:
        if self.run is None:
            raise RuntimeError("start() first")
        return self.run

    def _reports(self) -> Iterator[Report]:
        first = int(self.resumed.get("step", 0))
        if first >= self.spec.steps:  # only its rows are missing
            yield self._report(Progress(first, self.spec.steps))
            return
        reported = saved = time.monotonic()
        while True:
            progress = self.advance()
            if progress.step >= progress.steps:
                yield self._report(progress)
                return
            now = time.monotonic()
            if now - reported < self.report_seconds:
                continue
            if now - saved >= self.state_seconds:
                try:
                    self._save(progress.step)
                except StoreError as error:  # the run itself is fine
                    log.warning("%s: its state cannot be saved: %s", self.spec.label, error)
                saved = now
            yield self._report(progress)
            reported = now

    def _report(self, progress: Progress) -> Report:
        first = int(self.resumed.get("step", 0))
        return Report(progress.step, progress.steps, progress.shown, self.seconds, first)

    def _save(self, step: int) -> None:
        import torch  # noqa: PLC0415 (as above)

        buffer = io.BytesIO()
        about: dict[str, Any] = {"seconds": self.seconds, "step": step}
        about |= {"commit": self.made_by["commit"], "code": self.code}
        torch.save({"run": self._running().state_dict(), **about}, buffer)
        spec, data = self.spec, buffer.getvalue()
        owner: dict[str, Any] = {"setting_id": spec.setting_id, "seeds": spec.seeds}
        states.save(self.store, spec.task, spec.key, data, **owner)
        self._has_state, self._others_state = True, False

    def _write(self, rows: pd.DataFrame, beside: Mapping[str, bytes] | None = None) -> None:
        plain = self.spec.public()
        manifest = {
            "spec": plain,
            "seconds": self.seconds,
            "started": self.started,
            "resumed": self.resumed,
            "parameters": self._parameters(),
            "numerics": {**self.numerics, **self._peak()},
            **(self.made_by or {**self._provenance(), "code": self.code}),
        }
        key = {"task": self.spec.task, "setting_id": self.spec.setting_id, "code": self.code}
        known = columns(type(self.spec.setting))
        about = self.spec.about
        self.store.write(plain["setting"], key, rows, manifest, beside, known=known, about=about)

    def _peak(self) -> dict[str, int]:
        peak = device.peak_bytes() if self.numerics.get("device") == "cuda" else None
        return {} if peak is None else {"peak_gpu_bytes": peak}

    def _parameters(self) -> int | None:
        """Returns the number of trained parameters per seed; None if it is not known."""
        try:
            return find_task(self.spec.task).parameters(self.spec.setting)
        except Exception:  # the start met it too, and says why
            return None

    def _provenance(self) -> dict[str, Any]:
        local = provenance()
        # a node of a cluster holds the code without its history
        if local["commit"] is not None or self.spec.commit is None:
            return local
        return {**local, "commit": self.spec.commit, "no_commit": None}


def _lost(rows: pd.DataFrame | None) -> dict[int, str]:
    """Returns why seeds diverged, by seed."""
    if rows is None:
        return {}
    bad = rows[(rows["metric"] == COMPLETED) & (rows["value"] != 1.0)]
    return {int(seed): str(why) for seed, why in zip(bad["seed"], bad["reason"], strict=True)}


def _checked(saved: Mapping[str, Any]) -> tuple[float, int]:
    """Returns the seconds and steps of work in a state.

    Raises:
        ValueError: they are not such numbers.
    """
    seconds, step = saved["seconds"], saved["step"]
    if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise ValueError(f"seconds={seconds!r}: must be a number of 0 or more")
    if not isinstance(step, int) or step < 0:
        raise ValueError(f"step={step!r}: must be a whole number of 0 or more")
    return float(seconds), step
