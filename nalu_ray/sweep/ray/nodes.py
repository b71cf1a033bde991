"""Checks before a sweep that every node has the same code, sees the results, and has its GPUs."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from nalu_ray.errors import ConfigError
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.device import REHEARSE
from nalu_ray.sweep.dispatch import SHARED

PROBE_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """The answer of a node.

    Attributes:
        version: version of the package on the node.
        code: digest of its source files.
        sees: whether the probe file exists there.
    """

    version: str
    code: str
    sees: bool


def check_nodes(store: Store, task: str, *, gpus: bool = False) -> None:
    """Makes sure that every node runs this package and sees the results folder.

    Args:
        store: the results folder.
        task: name of the task.
        gpus: also make sure that torch finds the GPUs that nodes declare to Ray.

    Raises:
        ConfigError: a node does not, by name.
    """
    path = (
        os.curdir
        if store.folder is None
        else store.write_text(task, f"probe-{uuid.uuid4().hex}", "")
    )
    try:
        here = Answer(*_probe()(path))
        answers = ask(path)
    finally:
        if store.folder is not None:
            with contextlib.suppress(OSError):  # a missing folder fails the next write
                os.remove(path)
    mistakes = _mistakes(here, answers, store.out)
    if not mistakes and gpus and not os.environ.get(REHEARSE):
        mistakes = missing_gpus(ask_gpus())
    if mistakes:
        raise ConfigError(mistakes)


def ask(path: str) -> list[tuple[str, Answer | str]]:
    """Returns each node's address and its answer, or why there is none."""
    probe = ray.remote(num_cpus=0, max_retries=0)(_probe())
    asked = [
        (
            node["NodeManagerAddress"],
            probe.options(
                name=f"check of node {node['NodeManagerAddress']}",
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote(path),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]
    return [(address, _answer(reference)) for address, reference in asked]


def ask_gpus() -> list[tuple[str, float, int | str]]:
    """Returns each GPU node's address, Ray's number of GPUs, and torch's, or why it is unknown."""
    probe = ray.remote(num_cpus=0, max_retries=0)(_gpu_probe())
    asked = [
        (
            node["NodeManagerAddress"],
            node["Resources"]["GPU"],
            probe.options(
                name=f"GPUs of node {node['NodeManagerAddress']}",
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote(),
        )
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("GPU")
    ]
    return [(address, count, _gpus(reference)) for address, count, reference in asked]


def missing_gpus(answers: Iterable[tuple[str, float, int | str]]) -> list[str]:
    """Returns a line per node where torch finds fewer GPUs than Ray counts."""
    lines = []
    for address, declared, seen in answers:
        if isinstance(seen, str):
            lines.append(f"node {address}: its GPUs cannot be counted: {seen}")
        elif seen < declared:
            lines.append(
                f"node {address} declares {declared:g} GPUs to Ray, but torch finds {seen} there: "
                "install a CUDA build of torch and a driver for it, or start Ray with the right "
                "--num-gpus"
            )
    return lines


def _gpus(reference: Any) -> int | str:
    try:
        return int(ray.get(reference, timeout=PROBE_SECONDS))
    except ray.exceptions.RayError as error:
        return str(error).splitlines()[-1]


def _gpu_probe() -> Callable[[], int]:
    """Returns the function that counts a node's GPUs; sent whole, like :func:`_probe`'s."""

    def probe() -> int:
        import os  # noqa: PLC0415 (there, not here)
        import subprocess  # noqa: PLC0415
        import sys  # noqa: PLC0415

        # Ray hides all GPUs from a task that reserves none
        kept = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
        code = "import torch; print(torch.cuda.device_count())"
        done = subprocess.run(
            [sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=True
        )
        return int(done.stdout.split()[-1])

    return probe


def _answer(reference: Any) -> Answer | str:
    try:
        return Answer(*ray.get(reference, timeout=PROBE_SECONDS))
    except ray.exceptions.RayError as error:
        return str(error).splitlines()[-1]


def _probe() -> Callable[[str], tuple[str, str, bool]]:
    """Returns the function that runs on a node; sent whole, as the node may have other code."""

    def probe(path: str) -> tuple[str, str, bool]:
        import os  # noqa: PLC0415 (there, not here)

        import nalu_ray  # noqa: PLC0415

        try:
            from nalu_ray.sweep.code_digest import package_digest  # noqa: PLC0415

            code = package_digest()
        except ImportError:  # a version with another layout
            code = "unknown"
        return nalu_ray.__version__, code, os.path.exists(path)

    return probe


def _mistakes(here: Answer, answers: Iterable[tuple[str, Answer | str]], out: str) -> list[str]:
    mistakes = []
    for address, answer in answers:
        if isinstance(answer, str):
            mistakes.append(f"node {address} cannot run trials: {answer}")
            continue
        if answer.version != here.version:
            mistakes.append(
                f"node {address} has nalu_ray {answer.version}, this command {here.version}: "
                "install the same version on every node"
            )
        elif answer.code != here.code:
            mistakes.append(
                f"node {address} runs different code of nalu_ray {answer.version} (digest "
                f"{answer.code}) from this command ({here.code}): copy the same code to every node"
            )
        if not answer.sees:
            mistakes.append(f"node {address} does not see {out}: {SHARED}")
    return mistakes
