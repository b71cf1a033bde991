"""Watches Ray's head and its part on this machine while trials run.

Ray does not tell a driver of their loss: without its raylet the driver waits forever, and without
the GCS it ends after a minute with a C++ message. A dashboard agent that dies ends its raylet, too.
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
# a process on a busy machine may be slow; one that is stopped or stuck stays silent
SILENCE_SECONDS = 30.0
# for a head that restarts with its state (Ray's fault tolerance); Ray waits 60 s
PATIENCE_SECONDS = 30.0
UNWIND_SECONDS = 10.0
# HTTP/2's preface and empty settings: Ray's processes speak gRPC, which answers at once
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
STOPPED = 3  # exit code, as for StoppedError


@dataclass
class RayProcess:
    """A process of Ray without which nothing works.

    Attributes:
        name: what a message calls it.
        host, port: where it listens.
        patience: seconds that nothing may listen there.
        silent: it accepted the last connection and did not answer.
        since: when it was first missed; None while it answers.
    """

    name: str
    host: str
    port: int
    patience: float
    silent: bool = field(default=False, init=False)
    since: float | None = field(default=None, init=False)

    def lost(self) -> bool:
        """Returns whether it was missed at least twice, and for longer than its patience."""
        try:
            self._greet()
        except OSError as error:
            self.silent = isinstance(error, _SilentError)
            before, self.since = self.since, self.since or time.monotonic()
            patience = max(self.patience, SILENCE_SECONDS) if self.silent else self.patience
            return before is not None and time.monotonic() - before >= patience
        self.since, self.silent = None, False
        return False

    def _greet(self) -> None:
        """Connects, and waits for the first byte of an answer.

        Raises:
            OSError: nothing listens there.
            _SilentError: it does not answer, as a process that is stopped.
        """
        with socket.create_connection((self.host, self.port), TIMEOUT_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0").lower() not in ("0", "false", ""):
                return  # it would not answer a plain greeting
            try:
                connection.sendall(GREETING)
                connection.recv(1)
            except TimeoutError as error:
                raise _SilentError from error


class _SilentError(OSError):
    """A process accepts connections and does not answer."""


def parts() -> list[RayProcess]:
    """Returns the processes to watch of the Ray that this process is connected to."""
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
        lost: the lost part; None while there is none.
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
        """Stops watching."""
        self._over.set()
        self._left.set()
        self._thread.join(TIMEOUT_SECONDS)
        self._muted.close()

    def look(self) -> bool:
        """Returns whether a part is lost, now or before."""
        lost = [part for part in self.wanted if part.lost()]
        self.lost = self.lost or next(iter(lost), None)
        return self.lost is not None

    def error(self) -> StoppedError:
        """Returns the error to raise; ends the rest of a Ray that this process started."""
        for process in self._processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        part = self.lost or self.wanted[0]
        at = f"at {part.host}:{part.port}"
        what = "does not answer" if part.silent else "has ended"
        return StoppedError(f"Ray's {part.name} {at} {what} (its logs: {self._logs})")

    def _run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            if self.look():
                break
            self._processes = _started() or self._processes
        else:
            return
        self._muted.enter_context(muted())
        # a signal handler is the only way to interrupt Ray's C++ loops
        _thread.interrupt_main(signal.SIGTERM)
        if not self._left.wait(UNWIND_SECONDS):  # in a call of Ray that never returns
            self._muted.close()
            print(f"error: {self.error()}", file=sys.__stderr__, flush=True)
            self.tidy()
            os._exit(STOPPED)


@contextlib.contextmanager
def watched(tidy: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Watches Ray while the block runs.

    Args:
        tidy: called before the process exits at once, if Ray's calls never return.

    Yields:
        A function that raises StoppedError if a part of Ray is lost already.

    Raises:
        StoppedError: a part of Ray is lost; replaces any other error.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    watch = Watch(parts(), tidy)

    def check() -> None:
        if _looked(watch):
            raise watch.error()

    try:
        yield check
    except (KeyboardInterrupt, SystemExit, Exception) as error:
        # the error may come before the watch has looked twice
        if watch.lost or (isinstance(error, Exception) and _looked(watch)):
            raise watch.error() from None
        raise
    finally:
        watch.stop()


def _looked(watch: Watch) -> bool:
    return any(watch.look() for _ in range(2))


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Drops everything that is written to the process's standard error, also by C++."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _started() -> list[psutil.Process]:
    """Returns the Ray processes that this process started, and their children."""
    started: list[psutil.Process] = []
    for infos in _node().all_processes.values():
        for info in infos:
            with contextlib.suppress(psutil.Error):
                first = psutil.Process(info.process.pid)
                started += [first, *first.children(recursive=True)]
    return started


def _node() -> Any:
    return ray._private.worker._global_node
