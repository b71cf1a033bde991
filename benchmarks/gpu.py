"""Checks and measures training on a GPU, and writes one Markdown table.

    benchmarks/gpu.sh [gpu.md]
    python benchmarks/gpu.py --device cpu --tasks identity --seeds 10 --preset smoke --minutes 1

In this order, until the minutes are over; what is left out says so. In each part, the tasks of
``FIRST`` come first:

* correct: a replica is the seed alone, the device computes what the CPU does, a resumed run is the
  uninterrupted one, and every task's ``smoke`` setting runs to its end;
* speed: seed-steps per second of a task's first setting with a NALU, or of its first, beside one
  core of the CPU, and beside the roof, the speed if the device never waited for the host (by
  ``torch.profiler``);
* memory: the peak of the device's tensors, beside ``Task.device_memory``;
* step: the ways to carry out a step (the field ``engine``), and reading at every step who diverged;
* shared: two trials of half the seeds in two processes on one GPU, beside one trial.

It exits with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import torch
from torch import Tensor
from torch._C._autograd import DeviceType

from nalu_ray import registry
from nalu_ray.seeding import Streams
from nalu_ray.sweep import device as devices
from nalu_ray.sweep import out_of_memory
from nalu_ray.sweep.gpu_sharing import seed_steps_per_second
from nalu_ray.sweep.presets import expand, load_sweep
from nalu_ray.task import Run, Task
from nalu_ray.training import freezing, step, supervised
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask
from nalu_ray.training.tensor_files import check_size

CPU = torch.device("cpu")
MIB = 1024**2
FIRST = ("static", "recurrent", "identity")  # tasks, as time may not suffice for all
CORE_SEEDS = 10  # of the CPU's speed
# until operations are recorded and tried
WARM_STEPS = step.PLAIN_STEPS + step.TRIED_STEPS + 1
DRAWN_COPIES = 3  # of a batch or set in host memory: drawn, on the way, pinned
STEPS = 5  # of a comparison: rounding grows with every step
REPLICA, DEVICE, RESUMED = 1e-3, 1e-2, 1e-5  # largest relative differences
HEADER = ("part", "task", "seeds", "what", "here", "beside", "ratio", "verdict")


@dataclass(frozen=True)
class Line:
    """A row of the table; ``beside`` is what the figure compares with."""

    part: str
    task: str
    seeds: int
    what: str
    here: str = ""
    beside: str = ""
    ratio: str = ""
    verdict: str = ""


class Bench:
    """All checks and measurements on a device, within a time limit."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device, self.preset = torch.device(options.device), options.preset
        self.seeds, self.seconds = options.seeds, options.seconds
        self.begin, self.minutes = time.monotonic(), options.minutes
        self.end = self.begin
        others = [name for name in registry.names() if name not in FIRST]
        self.tasks = [registry.task(name) for name in options.tasks or [*FIRST, *others]]
        self.missing: dict[str, str] = {}
        self.cores: dict[str, float] = {}

    def lines(self) -> Iterator[Line]:
        """Yields the table's rows."""
        blocks = len(self.seeds)
        # each part, and the share of the minutes after which it ends
        parts: list[tuple[str, float, Callable[[Any], Iterator[Line]]]] = [
            ("correct", 0.35, self.correct),
            *(
                ("speed", 0.35 + 0.4 * (i + 1) / blocks, functools.partial(self.speed, seeds=seeds))
                for i, seeds in enumerate(self.seeds)
            ),
            ("step", 0.9, self.steps),
            ("shared", 1.0, self.shared),
        ]
        for part, share, measure in parts:
            self.end = self.begin + 60 * self.minutes * share
            for task in self.tasks:
                try:
                    if part == "correct":
                        task.prepare()
                    elif task.name in self.missing or not isinstance(task, SupervisedTask):
                        continue
                    yield from measure(task)
                except TimeoutError:
                    yield Line(part, task.name, 0, "left out", verdict="no time left")
                except Exception as error:  # a failure is a result
                    if out_of_memory.is_oom(error):  # fewer seeds may fit
                        yield Line(part, task.name, 0, "left out", verdict="out of memory")
                        self.free()
                        continue
                    self.missing.setdefault(task.name, str(error))
                    first = (str(error).strip() or "no reason given").splitlines()[0][:120]
                    yield Line(part, task.name, 0, type(error).__name__, first, verdict="FAILED")
                self.free()

    # -- correct -----------------------------------------------------------------------------

    def correct(self, task: Task[Any]) -> Iterator[Line]:
        """Yields whether a task's numbers are right on the device."""
        self.need(5)
        setting = self.setting(task, "smoke")
        run = task.start(setting, [0, 1], self.device)
        began = time.monotonic()
        try:
            while (progress := run.advance()).step < progress.steps:
                self.need(0)
            rows = run.rows()
        finally:
            run.close()
        ended = rows[rows["metric"] == "completed"]
        verdict = "ok" if len(ended) == 2 and (ended["value"] == 1).all() else "FAILED"
        took = f"{time.monotonic() - began:.1f} s"
        yield Line("correct", task.name, 2, "smoke to its end", took, verdict=verdict)
        if not isinstance(task, SupervisedTask):
            return
        block, alone = self.trained(task, range(5)), self.trained(task, [3])
        about = functools.partial(Line, "correct", task.name, 5)
        yield compared(about("replica and seed alone"), block[3], alone[0], REPLICA)
        if self.device != CPU:
            there = self.trained(task, range(5), CPU)
            yield compared(about("this device and CPU"), block, there, DEVICE)
        resumed = self.trained(task, range(5), resume=True)
        yield compared(about("resumed and uninterrupted"), resumed, block, RESUMED)

    def trained(
        self,
        task: SupervisedTask[Any],
        seeds: Sequence[int],
        where: torch.device | None = None,
        resume: bool = False,
    ) -> Tensor:
        """Returns the parameters after some steps."""
        setting = self.setting(task, "smoke").model_copy(update={"steps": 10 * STEPS})
        run = task.start(setting, seeds, where or self.device)
        run._train(STEPS // 2 if resume else STEPS)
        if resume:
            state = through_a_file({"run": run.state_dict()})
            run = task.start(setting, seeds, where or self.device)
            run.load_state_dict(state["run"])
            run._train(STEPS)
        return run.replicas.flat.detach().cpu()

    # -- speed and memory --------------------------------------------------------------------

    def speed(self, task: SupervisedTask[Any], seeds: int) -> Iterator[Line]:
        """Yields speed and memory of a block."""
        setting = self.setting(task)
        wanted = task.device_memory(setting, seeds)
        needs: list[tuple[float, float, str]] = [(wanted, self.room(), self.device.type)]
        if self.device.type != "cpu":
            needs.append((drawn_bytes(task, setting, seeds), self.host_room(), "host"))
        for needed, free, where in needs:
            if needed > free:
                line = Line("speed", task.name, seeds, "left out", f"{needed / MIB:,.0f} MiB")
                beside = f"{free / MIB:,.0f} MiB, {where}"
                yield replace(line, beside=beside, verdict="too large")
                return
        core = self.core(task)
        self.need(4 * self.seconds)
        run = task.start(setting, range(seeds), self.device)
        rate = self.rate(run)
        beside = f"{core:,.0f} on a core, {CORE_SEEDS} seeds"
        ratio = f"{rate / core:.2f}"
        yield Line("speed", task.name, seeds, "seed-steps/s", f"{rate:,.0f}", beside, ratio)
        yield self.roof(task, run, seeds, rate)
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated()
            yield Line(
                *("memory", task.name, seeds, "peak of tensors, MiB", f"{peak / MIB:,.0f}"),
                *(f"{wanted / MIB:,.0f} estimated", f"{peak / wanted:.2f}"),
                "ok" if peak <= wanted else "estimate too low",
            )

    def core(self, task: SupervisedTask[Any]) -> float:
        """Returns seed-steps per second on a core of the CPU, measured once per task."""
        if task.name not in self.cores:
            self.need(6 * self.seconds)
            run = task.start(self.setting(task), range(CORE_SEEDS), CPU)
            self.cores[task.name] = self.rate(run)
        return self.cores[task.name]

    def roof(self, task: Task[Any], run: SupervisedRun, seeds: int, rate: float) -> Line:
        """Returns a row about how much of a step the device works."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profile:
            run._train(run.step + STEPS)
        events = profile.key_averages()
        if self.device.type == "cuda":
            kernels = [e for e in events if e.device_type == DeviceType.CUDA]
            busy = sum(event.self_device_time_total for event in kernels)
        else:
            kernels = [e for e in events if e.key.startswith("aten::")]
            busy = sum(event.self_cpu_time_total for event in kernels)
        share = min(1.0, busy / STEPS / 1e6 / (seeds / rate))
        count = sum(event.count for event in kernels) // STEPS
        what = f"busy share; {count:,} launches a step"
        roof = f"{rate / max(share, 1e-9):,.0f} seed-steps/s if always busy"
        return Line("speed", task.name, seeds, what, f"{100 * share:.0f} %", roof)

    def rate(self, run: Run) -> float:
        """Returns seed-steps per second, warmed up."""
        if not isinstance(run, SupervisedRun):
            raise TypeError("no supervised run")
        run._train(run.step + WARM_STEPS, max(5.0, 3 * self.seconds))
        self.wait()
        first, began = run.step, time.monotonic()
        run._train(run.setting.steps, self.seconds)
        self.wait()
        return len(run.seeds) * (run.step - first) / (time.monotonic() - began)

    # -- ways to carry out a step ------------------------------------------------------------

    def steps(self, task: SupervisedTask[Any]) -> Iterator[Line]:
        """Yields the speeds of the engines, and of reading every step's check."""
        seeds, setting = self.seeds[0], self.setting(task)
        self.need(2 * self.seconds)
        plainly = setting.model_copy(update={"engine": "plain"})
        plain = self.rate(task.start(plainly, range(seeds), self.device))
        auto = plain
        for engine in ("auto", "graph", "compile"):
            if engine != "auto" and self.device.type != "cuda":
                continue  # compiling takes a minute per task
            self.need(60 if engine == "compile" else 4 * self.seconds)
            other = setting.model_copy(update={"engine": engine})
            try:
                rate = self.rate(task.start(other, range(seeds), self.device))
            except ValueError as error:  # what it cannot record it refuses by name
                yield Line("step", task.name, seeds, f"engine={engine}", str(error)[:120])
                continue
            auto = rate if engine == "auto" else auto
            yield versus(Line("step", task.name, seeds, f"engine={engine}"), rate, plain, "plain")
        if self.device.type == "cuda":
            every = functools.partial(freezing.DeviceFreezer, every=1)
            with mock.patch.object(supervised, "freezer", every):
                rate = self.rate(task.start(setting, range(seeds), self.device))
            what = "who diverged is read every step"
            every_so = f"every {freezing.EVERY}"
            yield versus(Line("step", task.name, seeds, what), rate, auto, every_so)

    def shared(self, task: SupervisedTask[Any]) -> Iterator[Line]:
        """Yields the speed of two trials at the same time, of half the seeds each."""
        seeds = max(2, self.seeds[min(1, len(self.seeds) - 1)])
        self.need(40 + 6 * self.seconds if self.device.type == "cuda" else 4 * self.seconds)
        setting = self.setting(task)
        one = self.rate(task.start(setting, range(seeds), self.device))
        self.free()
        words = [sys.executable, __file__, "--device", self.device.type, "--tasks", task.name]
        words += ["--seeds", str(seeds // 2), "--preset", self.preset, "--trial"]
        words += ["--seconds", str(3 * self.seconds)]
        pair = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        answers = [process.communicate()[0] for process in pair]
        if any(process.returncode for process in pair):
            raise RuntimeError("one of two trials on one GPU failed; its error is printed above")
        samples = [json.loads(answer.splitlines()[-1]) for answer in answers]
        two = seed_steps_per_second(samples, seeds // 2)
        line = Line("shared", task.name, seeds, "two trials of half the seeds")
        yield versus(line, two, one, "one")

    def trial(self) -> list[tuple[float, int]]:
        """Returns times and steps of one trial, for :meth:`shared`."""
        (task,) = self.tasks
        assert isinstance(task, SupervisedTask)
        run = task.start(self.setting(task), range(self.seeds[0]), self.device)
        samples = [(time.monotonic(), 0)]  # one clock for both processes
        run._train(WARM_STEPS, max(5.0, 3 * self.seconds))
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and run.step < run.setting.steps:
            samples.append((time.monotonic(), run.step))
            run._train(run.setting.steps, self.seconds / 8)
        return [*samples, (time.monotonic(), run.step)]

    # -- help --------------------------------------------------------------------------------

    def setting(self, task: Task[Any], preset: str | None = None) -> Any:
        """Returns the first setting of a preset; by default the measured one, without an end.

        That is the first with a NALU, if there is one.
        """
        sweep = load_sweep(task.name)
        points = expand(sweep.presets[preset or self.preset], task.setting_type, {})
        first = points[0].setting
        if preset:
            return first
        with_nalu = (p.setting for p in points if "nalu" in map(p.values.get, task.axes))
        endless = {"steps": 10**7, "evaluations": 1}
        return next(with_nalu, first).model_copy(update=endless)

    def need(self, seconds: float) -> None:
        """Raises TimeoutError if so many seconds are not left."""
        if time.monotonic() + seconds > self.end:
            raise TimeoutError

    def room(self) -> float:
        """Returns the bytes that a block may take on the device."""
        if self.device.type == "cuda":
            return 0.9 * float(torch.cuda.mem_get_info()[0])
        return self.host_room()

    def host_room(self) -> float:
        """Returns the bytes that a block may take in the host's memory."""
        return 0.5 * float(psutil.virtual_memory().available)

    def free(self) -> None:
        """Frees what the last measurement took."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def wait(self) -> None:
        """Waits until the device has done its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a state as a trial that resumes reads it: plain values, and tensors on the CPU."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    check_size(buffer.getvalue())
    buffer.seek(0)
    saved: dict[str, Any] = torch.load(buffer, map_location="cpu", weights_only=True)
    return saved


def drawn_bytes(task: SupervisedTask[Any], setting: Any, seeds: int) -> float:
    """Returns the host memory of a block of seeds: the largest batch or set on its way to a GPU."""
    largest = 0.0
    for split in ("train", *task.splits):
        shared = split == "train" and setting.shared_inputs
        batch = task.sample(setting, split, Streams(task.name, (0, 1), split, shared=shared))
        # a leading axis of 1 is shared by all seeds
        sizes = [
            x.nbytes * (seeds / 2 if len(x) == 2 else 1) for x in (*batch.inputs, batch.targets)
        ]
        largest = max(largest, sum(sizes))
    return DRAWN_COPIES * largest


def compared(line: Line, mine: Tensor, other: Tensor, most: float) -> Line:
    """Completes a row about two tensors that ought to be equal."""
    difference = float((mine - other).norm() / other.norm().clamp_min(1e-12))
    verdict = "ok" if difference <= most else "FAILED"
    beside = f"{most:.0e} allowed"
    return replace(line, here=f"{difference:.1e}", beside=beside, verdict=verdict)


def versus(line: Line, rate: float, base: float, name: str) -> Line:
    """Completes a row that compares two speeds."""
    beside = f"{base:,.0f} {name}"
    return replace(
        line, here=f"{rate:,.0f} seed-steps/s", beside=beside, ratio=f"{rate / base:.2f}"
    )


def markdown(lines: Sequence[Line], device: torch.device) -> str:
    """Returns the table, with a line about the machine above."""
    name = platform.processor() or platform.machine()
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        name = f"{about.name}, {about.total_memory / 1024**3:.0f} GiB, CUDA {torch.version.cuda}"
    rows = [HEADER, ("---",) * len(HEADER), *map(astuple, lines)]
    table = "\n".join(f"| {' | '.join(str(part) for part in row)} |" for row in rows)
    return f"{name}; torch {torch.__version__}, Python {platform.python_version()}\n\n{table}\n"


def main(words: Sequence[str] | None = None) -> int:
    """Runs everything; returns 1 if a check failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tasks", nargs="+", choices=registry.names(), help="default: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument(
        "--preset", default="laptop", help="whose NALU, or first setting, is measured"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="time of a measurement")
    parser.add_argument("--minutes", type=float, default=7.5, help="time of everything")
    parser.add_argument("--out", default="gpu.md", help="file of the table")
    parser.add_argument("--trial", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device cuda: torch {torch.__version__} finds no GPU")
    torch.set_num_threads(1)
    devices.set_numerics(deterministic=False)
    bench = Bench(options)
    if options.trial:
        print(json.dumps(bench.trial()))
        return 0
    lines = []
    for line in bench.lines():
        lines.append(line)
        print("  ".join(str(part) for part in astuple(line) if part), flush=True)
        # after each line: a machine may be taken away
        Path(options.out).write_text(markdown(lines, bench.device), encoding="utf-8")
    return int(any(line.verdict == "FAILED" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
