"""Checks before a sweep that every node has the same code and sees the results folder."""

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


def check_nodes(store: Store, task: str) -> None:
    """Makes sure that every node runs this package and sees the results folder.

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
    if mistakes := _mistakes(here, answers, store.out):
        raise ConfigError(mistakes)


def ask(path: str) -> list[tuple[str, Answer | str]]:
    """Returns each node's address and its answer, or why there is none."""
    probe = ray.remote(num_cpus=0, max_retries=0)(_probe())
    asked = [
        (
            node["NodeManagerAddress"],
            probe.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(path),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]
    return [(address, _answer(reference)) for address, reference in asked]


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
                f"node {address} has other code (digest {answer.code}) of nalu_ray "
                f"{answer.version} than this command ({here.code}): copy the same code to every "
                "node"
            )
        if not answer.sees:
            mistakes.append(f"node {address} does not see {out}: {SHARED}")
    return mistakes
