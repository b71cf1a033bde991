"""A Ray of our own on this machine, or a cluster that runs already."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from nalu_ray.config import ConfigError
from nalu_ray.machine import Capacity, Node
from nalu_ray.results.store import Store

# what is shown is ours, loggers are asked for, and Ctrl-C is for the command
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}
OBJECT_STORE_BYTES = 512 * 1024**2
PROBE_SECONDS = 60
KNOCK_SECONDS = 10


@dataclass(frozen=True)
class Session:
    """A connection to Ray; one of our own ends with the command."""

    capacity: Capacity
    dashboard: str
    ours: bool

    def describe(self) -> str:
        """Returns a line that says how to open the dashboard."""
        if not self.dashboard:
            return "dashboard: not running"
        token = os.environ.get("RAY_AUTH_MODE") == "token"
        until = ", open while this runs" if self.ours else ""
        how = "; its token: ray get-auth-token" if token else ""
        return f"dashboard: http://{self.dashboard}{until}{how}"

    def describe_end(self) -> str:
        """Returns a line that says where the dashboard is once the sweep is over."""
        return "dashboard: closed with Ray" if self.ours else self.describe()


@contextlib.contextmanager
def start(capacity: Capacity) -> Iterator[Session]:
    """Starts Ray on this machine and stops it in the end."""
    (node,) = capacity.nodes
    with _ray(
        address="local",
        num_cpus=int(node.cpus),
        object_store_memory=OBJECT_STORE_BYTES,
        _memory=node.memory,
    ) as dashboard:
        yield Session(capacity, dashboard, ours=True)


@contextlib.contextmanager
def connect(address: str) -> Iterator[Session]:
    """Connects to a cluster, ``auto`` for the one this machine belongs to.

    Raises:
        ConfigError: it cannot be reached.
    """
    if address.startswith("ray://"):
        raise ConfigError(
            [f"--address {address}: run this on the cluster instead, by 'ray job submit'"]
        )
    with contextlib.ExitStack() as stack:
        try:
            _knock(address)
            dashboard = stack.enter_context(_ray(address=address))
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError([f"--address {address}: {error}"]) from error
        yield Session(_capacity(address), dashboard, ours=False)


def _knock(address: str) -> None:
    """Fails at once where no one listens; Ray tries for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()


@contextlib.contextmanager
def _ray(**arguments: Any) -> Iterator[str]:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    # errors of trials are told by the board, once
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    if ray.is_initialized():  # by whoever calls us, who also ends it
        yield str(ray._private.worker.get_dashboard_url() or "")
        return
    try:
        context = ray.init(log_to_driver=False, logging_level=logging.ERROR, **arguments)
        yield str(context.dashboard_url or "")
    finally:
        ray.shutdown()


def _capacity(address: str) -> Capacity:
    """What there is, and what an autoscaler says it can add."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    config = ray._private.state.state.get_cluster_config()
    groups = [] if config is None else config.node_group_configs
    more = [dict(group.resources) for group in groups for _ in range(group.max_count - len(alive))]
    nodes = [
        Node(found.get("CPU", 0), found.get("GPU", 0), int(found.get("memory", 0)))
        for found in [*alive, *more]
    ]
    return Capacity(f"the cluster at {address}", tuple(nodes))


# -- the results folder ----------------------------------------------------------------------------


@ray.remote(num_cpus=0, max_retries=0)
def _sees(path: str) -> bool:
    return os.path.exists(path)


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
    asked = {
        node["NodeManagerAddress"]: _sees.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(path)
        for node in ray.nodes()
        if node["Alive"]
    }
    mistakes = []
    for address, answer in asked.items():
        try:
            if not ray.get(answer, timeout=PROBE_SECONDS):
                mistakes.append(
                    f"node {address} does not see {store.out}: rows are written where trials run, "
                    "so --out must be a shared folder or a URI such as s3://bucket/results"
                )
        except ray.exceptions.RayError as error:
            mistakes.append(f"node {address} cannot run trials: {str(error).splitlines()[-1]}")
    if store.folder is not None:
        os.remove(path)
    if mistakes:
        raise ConfigError(mistakes)
