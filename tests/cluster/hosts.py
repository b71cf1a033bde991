"""Hosts of their own on this machine: network, processes, home and sshd, but no way outside.

All of it lies in nameless namespaces, below one process that ends when its input does: nothing is
left when the tests end, however they do, and two runs do not see each other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "lab" / "lab.sh"
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# in the first subnet of an AWS account's default network, as moto makes it
GATEWAY = "172.31.0.1"
ADDRESSES = {"head": "172.31.0.10", "w1": "172.31.0.11", "w2": "172.31.0.12"}
UID = 1777
# program -> Debian package
NEEDS = {
    "ip": "iproute2",
    "rsync": "rsync",
    "ssh": "openssh-client",
    "/usr/sbin/sshd": "openssh-server",
    "unshare": "util-linux",
}


class Lab:
    """The hosts, and this side of them.

    Args:
        folder: for keys, logs, the client's home and ``shared``, which every host sees.
        user: who logs in to the hosts, without root's rights.
    """

    def __init__(self, folder: Path, user: str) -> None:
        self.folder, self.user = folder, user
        self.key, self.home = folder / "keys" / "id", folder / "home"
        self.shared = folder / "shared"
        self.hosts: dict[str, subprocess.Popen[bytes]] = {}
        self._prepare()
        self._client = subprocess.Popen(
            [*UNSHARE, "bash", str(SCRIPT), "client"],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._client.stdout is not None
        if self._client.stdout.readline() != b"ready\n":
            self.close()
            raise AssertionError("the lab did not start")

    def _prepare(self) -> None:
        for path in (self.key.parent, self.home, self.shared, self.folder / "etc"):
            path.mkdir()
        self.folder.chmod(0o711)
        self.shared.chmod(0o777)
        for name in ("id", "host"):
            path = str(self.key.with_name(name))
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        entry = f"{self.user}:*:{UID}:{UID}::/home/{self.user}:/bin/bash\n"
        known = Path("/etc/passwd").read_text(encoding="utf-8")
        names = "".join(f"{address} {name}\n" for name, address in ADDRESSES.items())
        etc = {"passwd": known + entry, "hosts": f"127.0.0.1 localhost\n{names}", "resolv.conf": ""}
        for name, text in etc.items():
            (self.folder / "etc" / name).write_text(text, encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        keep = (self.folder, ROOT, sys.prefix, sys.base_prefix)
        return {
            "PATH": os.environ["PATH"],
            "LAB": str(self.folder),
            "KEEP": " ".join(str(path) for path in keep),
            "HIDE": str(Path.home()),
            "GATEWAY": GATEWAY,
            "SSH_USER": self.user,
            "BASE_PYTHON": os.path.realpath(sys.executable),
            "PACKAGES": sysconfig.get_path("purelib"),
            "RAY": str(Path(sys.executable).with_name("ray")),
        }

    # -- hosts -------------------------------------------------------------------------------

    def boot(self, *names: str) -> None:
        """Starts hosts, also ones that were lost, and waits until they answer."""
        for name in names:
            with open(self.folder / f"{name}.log", "wb") as log:
                self.hosts[name] = subprocess.Popen(
                    [*self._enter(), "bash", str(SCRIPT), "host", name, ADDRESSES[name]],
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        for name in names:
            self.wait_for(ADDRESSES[name], 22, self.folder / f"{name}.log")

    def kill(self, name: str) -> None:
        """Ends a host as a loss of power does."""
        self.call("ip", "link", "set", f"v-{name}", "down")  # nobody is told
        os.kill(self._first(name), 9)
        self.hosts[name].wait(timeout=60)

    def processes(self, name: str) -> list[str]:
        """Returns the command lines of what runs on a host; sshd is its first process."""
        lines = self.on(name, "ps", "-e", "-ww", "-o", "pid=,args=").splitlines()
        return [line.strip() for line in lines if "ps -e -ww" not in line]

    def all_processes(self) -> str:
        """Returns them by host, for a failure's text."""
        return "\n".join(
            line[:160] for name in self.hosts for line in [name, *self.processes(name)]
        )

    def on(self, name: str, *words: str) -> str:
        """Runs a command on a host as root, without SSH."""
        inside = ["nsenter", "--target", str(self._first(name)), "-m", "-n", "-p", "-u", "-i"]
        return subprocess.run(
            [*inside, *words], capture_output=True, text=True, check=True, timeout=120
        ).stdout

    def _first(self, name: str) -> int:
        """A host's process 1, below nsenter and unshare."""
        return _child(_child(self.hosts[name].pid))

    # -- this side of them -------------------------------------------------------------------

    def _enter(self) -> list[str]:
        first = str(_child(self._client.pid))
        return ["nsenter", "--target", first, "-m", "-n", "-p", f"--wd={ROOT}"]

    def start(self, *words: str, log: Path, **environment: str) -> subprocess.Popen[bytes]:
        """Starts a command where the hosts can be reached."""
        with open(log, "wb") as file:
            return subprocess.Popen(
                [*self._enter(), *words],
                env=self._env(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def call(self, *words: str, seconds: float = 600, code: int = 0, **environment: str) -> str:
        """Runs a command where the hosts can be reached; returns what it printed."""
        done = subprocess.run(
            [*self._enter(), *words],
            env=self._env(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=seconds,
        )
        end = done.stdout[-5000:]
        assert done.returncode == code, f"{' '.join(words)}: {done.returncode}\n{end}"
        return done.stdout

    def wait_for(self, address: str, port: int, log: Path) -> None:
        """Waits until someone listens there; fails with the log of who should."""
        knock = f"until (exec 3<>/dev/tcp/{address}/{port}) 2>&-; do sleep 0.1; done"
        try:
            self.call("timeout", "300", "bash", "-c", knock, seconds=320)
        except AssertionError:
            text = log.read_text(errors="replace")
            pytest.fail(f"no one listens at {address}:{port}: {text}", pytrace=False)

    def _env(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "LANG": "C.UTF-8",
            **more,
        }

    def close(self) -> None:
        """Ends everything in it."""
        self._client.kill()  # of unshare, which takes the lab along
        for process in (self._client, *self.hosts.values()):
            process.wait(timeout=60)
        for pipe in (self._client.stdin, self._client.stdout):
            if pipe:
                pipe.close()


def _child(pid: int) -> int:
    end = time.monotonic() + 60
    path = Path(f"/proc/{pid}/task/{pid}/children")
    while not (found := path.read_text().split()):
        assert time.monotonic() < end, f"process {pid} has no child"
        time.sleep(0.05)
    return int(found[0])


def require(needs: Mapping[str, str], root: bool = False) -> None:
    """Fails, in one line, where a program is missing; nothing is skipped without a word."""
    missing = sorted({package for program, package in needs.items() if not shutil.which(program)})
    if missing:
        pytest.fail(f"missing: apt-get install {' '.join(missing)}", pytrace=False)
    if root and os.geteuid() != 0:
        pytest.fail("hosts on one machine need root, for namespaces: run as root", pytrace=False)


@contextmanager
def lab(folder: Path, user: str, *names: str) -> Iterator[Lab]:
    """Hosts, for as long as this lasts."""
    require(NEEDS, root=True)
    opened = Lab(folder, user)
    try:
        opened.boot(*names)
        yield opened
    finally:
        opened.close()
