"""Starts Ray on this machine, or joins a running cluster.

A Ray that is started here listens on the loopback only, with a private token. By default, Ray
listens on every address and writes a token file that everybody may read.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import ray
import yaml
from ray._private import ray_constants

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.machine import Capacity, Node, raise_open_files
from nalu_ray.sweep.ray.dashboard import private_token, signed_in, token_command, token_needed
from nalu_ray.sweep.ray.failures import describe
from nalu_ray.sweep.ray.journal import job_config, register
from nalu_ray.sweep.ray.liveness import muted
from nalu_ray.sweep.stopping import StoppedError

# the command prints its own progress, loggers are optional, and Ctrl-C is for the command
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}
LAUNCHED = Path(os.path.expanduser("~/ray_bootstrap_config.yaml"))  # `ray up`'s, on the head
SILENT = ("ray.tune", "ray.train")  # the board shows errors of trials and of storage, each once
CHANGED = ("RAY_", "TUNE_", "PYTHONBREAKPOINT")  # variables that Ray and this module set
OBJECT_STORE_BYTES = 512 * 1024**2
KNOCK_SECONDS = 10
# a value that the user set stays: 1 listens on this machine's address
ADDRESS_FLAG = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
HELP = (
    "RAY_TMPDIR names its folder for sockets and logs (a short path), HOME the one of its token; "
    "with --local, only gridworld needs Ray"
)


@dataclass(frozen=True)
class Session:
    """A connection to Ray.

    Attributes:
        capacity: the machines.
        dashboard: HOST:PORT of the dashboard; empty if it does not run.
        ours: whether the command started this Ray and ends it.
        guarded: whether the dashboard asks for a token.
        link: URL that opens the dashboard signed in, once, from this machine; empty for none.
    """

    capacity: Capacity
    dashboard: str
    ours: bool
    link: str = ""
    guarded: bool = False

    def describe(self) -> str:
        """Returns a line with the dashboard's address, and how to enter."""
        if not self.dashboard:
            return "dashboard: not running"
        until = ", open while this runs" if self.ours else ""
        if self.link and sys.stdout.isatty():  # not in a file that others may read
            return f"dashboard: {self.link}{until}; the link signs in once"
        how = f"; its token: {token_command()}" if self.guarded else ""
        return f"dashboard: http://{self.dashboard}{until}{how}"

    def describe_end(self) -> str:
        """Returns the line about the dashboard after the sweep."""
        return "dashboard: closed with Ray" if self.ours else self.describe()


@contextlib.contextmanager
def start(capacity: Capacity) -> Iterator[Session]:
    """Starts Ray on this machine and stops it in the end.

    Raises:
        ConfigError: it does not start.
    """
    (node,) = capacity.nodes
    arguments = {
        "address": "local",
        "num_cpus": int(node.cpus),
        "num_gpus": int(node.gpus),  # torch's number, not Ray's own
        "object_store_memory": OBJECT_STORE_BYTES,
        "_memory": node.memory,
        "job_config": job_config(),
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(restored())
        with starting():
            dashboard = stack.enter_context(_ray(**arguments))
        register()
        address = stack.enter_context(signed_in(dashboard))
        yield Session(capacity, dashboard, ours=True, link=address, guarded=token_needed())


@contextlib.contextmanager
def beside(processes: int) -> Iterator[None]:
    """Starts a Ray for trials in this process, which use it themselves; stops it in the end.

    Args:
        processes: number of processes that a trial starts.

    Raises:
        ConfigError: it does not start.
    """
    if ray.is_initialized():  # by the caller, who also ends it
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(restored())
        with starting():
            cpus = max(1, processes)
            connection = _ray(address="local", num_cpus=cpus, include_dashboard=False)
            stack.enter_context(connection)
        yield


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
    if "://" in address:
        named = "RAY_ADDRESS=" if address == os.environ.get("RAY_ADDRESS") else "--address "
        raise ConfigError(
            [
                f"{named}{address}: this is where jobs are submitted (ray job submit), not the "
                "cluster's own address; give its HOST:PORT, such as 10.0.0.1:6379, or auto"
            ]
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(restored())
        try:
            _knock(address)
            dashboard = stack.enter_context(_ray(address=address))
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise ConfigError([f"--address {address}: {error}"]) from error
        yield Session(_capacity(address), dashboard, ours=False, guarded=token_needed())


def _knock(address: str) -> None:
    """Fails at once where no one listens; Ray tries for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and not (host and port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise ValueError("HOST:PORT is needed, such as 10.0.0.1:6379, or auto")
    if host:
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()


@contextlib.contextmanager
def _ray(**arguments: Any) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        for name in SILENT:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if ray.is_initialized():  # by the caller, who also ends it
            yield str(ray._private.worker.get_dashboard_url() or "")
            return
        stack.enter_context(_hanging_up())
        stack.enter_context(_quiet())
        try:
            context = ray.init(log_to_driver=False, logging_level=logging.ERROR, **arguments)
            yield str(context.dashboard_url or "")
        except StoppedError:
            with muted():  # it queries processes that are gone
                ray.shutdown()
            raise
        finally:
            ray.shutdown()


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Gives a notebook or script back its environment, levels of loggers and SIGTERM handler."""
    names = [name for name in os.environ if name.startswith(CHANGED)]
    environment = {name: os.environ[name] for name in names}
    loggers = {name: logging.getLogger(name).level for name in ("ray", *SILENT)}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith(CHANGED)]:
            del os.environ[name]
        os.environ.update(environment)
        for name, level in loggers.items():
            logging.getLogger(name).setLevel(level)
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def _hanging_up() -> Iterator[None]:
    """Exits on SIGHUP as Ray does on SIGTERM, unless SIGHUP is ignored (nohup)."""
    number = getattr(signal, "SIGHUP", None)
    here = threading.current_thread() is threading.main_thread()
    if number is None or not here or signal.getsignal(number) != signal.SIG_DFL:
        yield
        return
    signal.signal(number, lambda *_: sys.exit(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses what Ray prints about its errors; the command explains them itself."""
    printed = ray._private.worker.print_to_stdstream
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        ray._private.worker.print_to_stdstream = printed


def _capacity(address: str) -> Capacity:
    """Returns the running nodes and those that an autoscaler can add."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    nodes = [_node(resources) for resources in [*alive, *_addable(len(alive))]]
    return Capacity(f"the cluster at {address}", tuple(nodes))


def _node(resources: Mapping[str, float]) -> Node:
    # an autoscaler never counts on memory that a node type does not declare
    memory = int(resources.get("memory", 0))
    return Node(resources.get("CPU", 0), resources.get("GPU", 0), memory)


def _addable(alive: int) -> list[dict[str, float]]:
    """Returns the resources of each node that may still start, by the launcher's file or Ray."""
    if LAUNCHED.exists():
        config = yaml.safe_load(LAUNCHED.read_text())
        types, head = config.get("available_node_types", {}), config.get("head_node_type")
        groups = [
            (dict(group.get("resources", {})), group.get("max_workers", config["max_workers"]))
            for name, group in types.items()
            if name != head
        ]
        room = max(0, config["max_workers"] - (alive - 1))
        # in turn, as no type may use all the room
        turns = itertools.zip_longest(*([resources] * most for resources, most in groups))
        return [resources for turn in turns for resources in turn if resources is not None][:room]
    reported = ray._private.state.state.get_cluster_config()
    node_groups = [] if reported is None else reported.node_group_configs
    return [dict(group.resources) for group in node_groups for _ in range(group.max_count - alive)]


# -- starting Ray --------------------------------------------------------------------


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Prepares the start of Ray; if it fails, ends the processes that were started.

    Raises:
        ConfigError: Ray does not start; one line.
    """
    raise_open_files()
    before = set(psutil.Process().children(recursive=True))
    try:
        with loopback(), muted():
            private_token()
            yield
    except BaseException as error:  # also at a signal
        for process in set(psutil.Process().children(recursive=True)) - before:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if isinstance(error, Exception):
            raise ConfigError([f"Ray cannot start here: {describe(error)}; {HELP}"]) from error
        raise


@contextlib.contextmanager
def loopback() -> Iterator[None]:
    """Makes Ray listen on 127.0.0.1 only, unless the user chose otherwise."""
    if ADDRESS_FLAG in os.environ:
        yield
        return
    before = ray_constants.ENABLE_RAY_CLUSTER
    os.environ[ADDRESS_FLAG], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        del os.environ[ADDRESS_FLAG]
        ray_constants.ENABLE_RAY_CLUSTER = before
