"""A cluster that ``ray up`` started on the lab's hosts, used as docs/cluster.md says."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from .commands import EAGER
from .hosts import ADDRESSES, ROOT, Lab

DASHBOARD = "http://localhost:8265"
# words: address, token (may be empty); prints the status and what came
ASK = """
import sys, urllib.error, urllib.request
token = sys.argv[2]
headers = {"Authorization": f"Bearer {token}"} if token else {}
try:
    request = urllib.request.Request(sys.argv[1], headers=headers)
    answer = urllib.request.urlopen(request, timeout=60)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status, answer.read().decode())
"""


def on_premise(lab: Lab) -> dict[str, Any]:
    """The shipped file for the lab: other addresses, user and key."""
    text = (ROOT / "cluster" / "on_premise.yaml").read_text(encoding="utf-8")
    config: dict[str, Any] = yaml.safe_load(text)
    head, *workers = (ADDRESSES[name] for name in lab.hosts)
    config["provider"] |= {"head_ip": head, "worker_ips": workers}
    config["auth"] |= {"ssh_user": lab.user, "ssh_private_key": str(lab.key)}
    return without_index(config)


def without_index(config: dict[str, Any]) -> dict[str, Any]:
    """Makes nothing of the locks: what they would fetch is in the lab's environment."""
    for field in ("setup_commands", "head_setup_commands"):
        config[field] = [
            f"true {line}" if "--require-hashes" in line else line for line in config.get(field, [])
        ]
    return config


class Cluster:
    """A cluster on a lab's hosts, its launcher's file, and a tunnel to its dashboard."""

    def __init__(self, lab: Lab, config: dict[str, Any], **environment: str) -> None:
        self.lab, self.environment = lab, environment
        self.file = lab.folder / f"{config['cluster_name']}.yaml"
        self.file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        self.eager = lab.shared / "eager.py"
        self.eager.write_text(EAGER, encoding="utf-8")

    def call(self, *words: str, code: int = 0, **environment: str) -> str:
        return self.lab.call(*words, code=code, **{**self.environment, **environment})

    def up(self) -> None:
        """Starts it, and the tunnel."""
        self.call("bash", "-c", "umask 077 && ray get-auth-token --generate")
        self.call("ray", "up", str(self.file), "-y")
        log = self.lab.folder / "dashboard.log"
        words = ("ray", "dashboard", str(self.file))
        self.tunnel = self.lab.start(*words, log=log, **self.environment)
        self.until(lambda: "authentication_mode" in self.ask("/api/authentication_mode", "")[1])

    @property
    def token(self) -> str:
        return (self.lab.home / ".ray" / "auth_token").read_text(encoding="utf-8").strip()

    def ask(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Asks the dashboard through the tunnel; returns the status (0: no answer) and the text."""
        sent = self.token if token is None else token
        try:
            text = self.lab.call("python", "-I", "-c", ASK, DASHBOARD + path, sent, seconds=120)
        except AssertionError:
            return 0, ""
        status, _, answer = text.partition(" ")
        return int(status), answer

    def state(self, kind: str) -> list[dict[str, Any]]:
        """Returns what Ray's state API lists: nodes, tasks."""
        status, text = self.ask(f"/api/v0/{kind}?limit=1000&detail=true")
        assert status == 200, text
        found: list[dict[str, Any]] = json.loads(text)["data"]["result"]["result"]
        return found

    def nodes(self) -> list[str]:
        """Returns the addresses of the nodes that are alive."""
        return sorted(node["node_ip"] for node in self.state("nodes") if node["state"] == "ALIVE")

    def submit(self, name: str, line: str, eager: bool = False) -> None:
        """Starts a sweep as a job of that name."""
        program = ["python", str(self.eager)] if eager else ["python", "-m", "nalu_ray.tune"]
        self.call(
            *["ray", "job", "submit", "--address", DASHBOARD, "--submission-id", name, "--no-wait"],
            *["--", *program, *line.split()],
        )

    def job(self, name: str) -> str:
        """Returns a job's status, such as RUNNING."""
        return str(json.loads(self.ask(f"/api/jobs/{name}")[1] or "{}").get("status"))

    def finish(self, name: str, seconds: float = 900) -> str:
        """Waits for a job's end, which must be a good one; returns what it printed."""
        self.until(lambda: self.job(name) in ("SUCCEEDED", "FAILED", "STOPPED"), seconds)
        text = str(json.loads(self.ask(f"/api/jobs/{name}/logs")[1])["logs"])
        assert self.job(name) == "SUCCEEDED", text
        return text

    def until(self, happened: Callable[[], Any], seconds: float = 600) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, f"waited too long; {self.lab.all_processes()}"
            time.sleep(1)

    def down(self) -> None:
        """Ends it and the tunnel, and waits until only sshd runs on the hosts."""
        self.call("ray", "down", str(self.file), "-y")
        os.killpg(self.tunnel.pid, signal.SIGTERM)
        _, *workers = self.lab.hosts
        for name in workers:  # where `ray down` leaves Ray's log monitor
            where = f"{self.lab.user}@{ADDRESSES[name]}"
            options = ["-i", str(self.lab.key), "-o", "StrictHostKeyChecking=no"]
            self.call("ssh", *options, where, "nalu-venv/bin/ray", "stop")
        for name in self.lab.hosts:
            self.until(lambda name=name: not self.left(name), 300)

    def left(self, name: str) -> list[str]:
        return [line for line in self.lab.processes(name) if "sshd" not in line]


def results(lab: Lab) -> Path:
    """Where all hosts write."""
    return lab.shared / "results"
