"""Whether Ray is still there: its head and this machine's part of it, asked while trials run.

Ray does not tell a driver: without its raylet it waits for ever, and without the GCS it ends after
a minute with a line of C++. A dashboard agent that dies takes its raylet along.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil
import ray

from nalu_ray.sweep.stopping import StoppedError

POLL_SECONDS = 1.0
TIMEOUT_SECONDS = 5.0
# a head that restarts with what it knew (Ray's fault tolerance) is waited for; Ray gives it 60
PATIENCE_SECONDS = 30.0
UNWIND_SECONDS = 10.0
STOPPED = 3  # exit code, as for StoppedError


@dataclass
class RayProcess:
    """A process of Ray's that nothing works without.

    Attributes:
        name: what a message calls it.
        host, port: where it listens.
        patience: seconds that it may be away.
    """

    name: str
    host: str
    port: int
    patience: float
    since: float | None = field(default=None, init=False)

    def lost(self) -> bool:
        """Whether it has not answered for longer than its patience, and at least twice."""
        try:
            socket.create_connection((self.host, self.port), TIMEOUT_SECONDS).close()
        except OSError:
            before, self.since = self.since, self.since or time.monotonic()
            return before is not None and time.monotonic() - before >= self.patience
        self.since = None
        return False


def parts() -> list[RayProcess]:
    """Returns what must live of the Ray that this process is connected to."""
    context = ray.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    patience = 0.0 if _started() else PATIENCE_SECONDS
    wanted = [RayProcess("head (gcs_server)", host.strip("[]"), int(port), patience)]
    for node in ray.nodes():
        if node["NodeID"] == context.get_node_id():
            here, number = node["NodeManagerAddress"], int(node["NodeManagerPort"])
            wanted.append(RayProcess("part on this machine (raylet)", here, number, 0.0))
    return wanted


class Watch:
    """Interrupts the main thread once a part of Ray is lost; see :func:`watched`.

    Attributes:
        lost: the part, once there is one.
    """

    def __init__(self, wanted: list[RayProcess], tidy: Callable[[], None]) -> None:
        self.wanted, self.tidy = wanted, tidy
        self.lost: RayProcess | None = None
        self._processes = _started()
        self._logs = _node().get_logs_dir_path()
        self._over, self._left = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="nalu_ray_liveness")
        self._muted = contextlib.ExitStack()
        self._thread.start()

    def stop(self) -> None:
        """Ends looking."""
        self._over.set()
        self._left.set()
        self._thread.join(TIMEOUT_SECONDS)
        self._muted.close()

    def look(self) -> bool:
        """Whether a part is lost, now or before."""
        lost = [part for part in self.wanted if part.lost()]
        self.lost = self.lost or next(iter(lost), None)
        return self.lost is not None

    def error(self) -> StoppedError:
        """Returns what to tell, and ends what is left of a Ray that this process started."""
        for process in self._processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        part = self.lost or self.wanted[0]
        at = f"at {part.host}:{part.port}"
        return StoppedError(f"Ray's {part.name} {at} has ended (its logs: {self._logs})")

    def _run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            if self.look():
                break
            self._processes = _started() or self._processes
        else:
            return
        self._muted.enter_context(muted())
        # by a signal's handler: the one way into Ray's loops of C++
        _thread.interrupt_main(signal.SIGTERM)
        if not self._left.wait(UNWIND_SECONDS):  # in a call of Ray's that answers nobody
            self._muted.close()
            print(f"error: {self.error()}", file=sys.__stderr__, flush=True)
            self.tidy()
            os._exit(STOPPED)


@contextlib.contextmanager
def watched(tidy: Callable[[], None]) -> Iterator[None]:
    """Watches over Ray while something runs on it.

    Args:
        tidy: what is still to be done where the process ends at once, since Ray answers nobody.

    Raises:
        StoppedError: a part of it is lost; whatever else was raised for that is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = Watch(parts(), tidy)
    try:
        yield
    except (KeyboardInterrupt, SystemExit, Exception) as error:
        # an error may come before the watch has looked twice
        if watch.lost or (isinstance(error, Exception) and _looked(watch)):
            raise watch.error() from None
        raise
    finally:
        watch.stop()


def _looked(watch: Watch) -> bool:
    return any(watch.look() for _ in range(2))


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Drops what is written to the process's standard error, by C++ too."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _started() -> list[psutil.Process]:
    """Returns the processes of Ray's that this process has started, and those that they have."""
    started: list[psutil.Process] = []
    for infos in _node().all_processes.values():
        for info in infos:
            with contextlib.suppress(psutil.Error):
                first = psutil.Process(info.process.pid)
                started += [first, *first.children(recursive=True)]
    return started


def _node() -> Any:
    return ray._private.worker._global_node
