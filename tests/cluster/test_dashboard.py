"""What a browser shows of a sweep: the driver's progress, and each trial by its name with a log."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.conftest import PYTHONPATH

from .commands import until
from .hosts import require

pytestmark = [pytest.mark.cluster, pytest.mark.browser, pytest.mark.timeout(900)]

RAY = str(Path(sys.executable).with_name("ray"))
LINE = "static layer=nac,nalu op=mul steps=1000000 seeds=10 --seeds-per-trial 10"
NAMES = ("static nac mul lr=0.2 seeds 0-9", "static nalu mul lr=0.2 seeds 0-9")
WAIT = 240_000


@contextmanager
def ray_with_token(token: str) -> Iterator[str]:
    """A Ray on this machine that lets in who has the token, beside any other; its dashboard."""
    dashboard, agent = free_port(), free_port()
    options = ["--head", "--block", "--port=0", "--num-cpus=2", "--object-store-memory=100000000"]
    ports = [f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={agent}"]
    head = subprocess.Popen(
        [RAY, "start", *options, *ports],
        env=environment(token),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: listens(dashboard))
        yield f"http://127.0.0.1:{dashboard}"
    finally:
        head.terminate()  # it takes what it started along
        head.wait(timeout=120)
        until(lambda: not listens(dashboard))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0


def environment(token: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": PYTHONPATH,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
    }


@contextmanager
def browser(address: str, token: str) -> Iterator[Page]:
    """A browser that was asked for the token and given it."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(WAIT)
        page.goto(f"{address}/#/jobs")
        field = page.get_by_placeholder("Enter your authentication token")
        field.fill("wrong")
        page.get_by_role("button", name="Submit").click()
        expect(page.get_by_role("alert")).to_be_visible(timeout=WAIT)
        field.fill(token)
        page.get_by_role("button", name="Submit").click()
        expect(field).to_have_count(0, timeout=WAIT)
        yield page
        chromium.close()


def tasks(address: str, token: str) -> list[dict[str, Any]]:
    """The tasks that the dashboard lists."""
    url = f"{address}/api/v0/tasks?detail=1&limit=10000"
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        listed: list[dict[str, Any]] = json.load(answer)["data"]["result"]["result"]
    return listed


def refreshed(page: Page) -> Page:
    """The page, with its log read again."""
    page.get_by_role("button", name="Refresh", exact=True).first.click()
    page.wait_for_timeout(1000)
    return page


def test_a_sweep_in_the_browser(tmp_path: Path) -> None:
    require({"/usr/bin/chromium": "chromium"})
    token = secrets.token_hex(16)
    with ray_with_token(token) as address, browser(address, token) as page:
        submit = ["job", "submit", "--address", address, "--submission-id", "static-1", "--no-wait"]
        out = ["--address", "auto", "--out", str(tmp_path / "results")]
        submitted = [RAY, *submit, "--", "python", "-m", "nalu_ray.tune", *LINE.split(), *out]
        # refused while the node's agent is not up yet
        until(
            lambda: subprocess.run(submitted, env=environment(token), check=False).returncode == 0
        )

        page.goto(f"{address}/#/jobs")
        expect(page.get_by_text("static-1").first).to_be_visible(timeout=WAIT)
        expect(page.get_by_text("RUNNING").first).to_be_visible(timeout=WAIT)

        page.goto(f"{address}/#/jobs/static-1")
        while not page.get_by_text("seeds, 0 failed").count():  # our line, in the driver's log
            page.get_by_role("button", name="Refresh", exact=True).click()
            page.wait_for_timeout(2000)
        for name in ("Ray Core Overview", "Task Timeline", "Cluster status and autoscaler"):
            page.get_by_role("heading", name=name).click()  # out of the picture
        page.get_by_role("heading", name="Task Table").click()
        for name in NAMES:
            expect(page.get_by_text(name).first).to_be_visible(timeout=WAIT)
        expect(page.get_by_text("RUNNING x 2")).to_be_visible(timeout=WAIT)
        # Tune has polled for a while; none of its calls is listed
        recorded = [task["name"] for task in tasks(address, token)]
        assert set(NAMES) <= set(recorded)
        assert not [name for name in recorded if name.endswith((".train", ".reset", ".save"))]
        page.set_viewport_size({"width": 1280, "height": 1900})  # docs/figures/dashboard.png
        page.wait_for_timeout(2000)
        page.screenshot(path=tmp_path / "job.png")

        (trial,) = (task["task_id"] for task in tasks(address, token) if task["name"] == NAMES[1])
        page.locator(f'a[href$="tasks/{trial}"]').first.click()
        for text in (f"trial: {NAMES[1]}", "layer=nalu", "seed-steps/s"):
            until(lambda text=text: refreshed(page).get_by_text(text).count())
        page.screenshot(path=tmp_path / "trial.png")

        page.goto(f"{address}/#/jobs/static-1")
        page.get_by_test_id("progress-bar-segment").first.click()
        expect(page.get_by_text("static trials, slot").first).to_be_visible(timeout=WAIT)
        for level in ("static trials, slot", "Slot.__init__"):  # each opens to the next
            page.locator("tr", has_text=level).first.locator("svg").first.click()
        expect(page.get_by_text(re.compile("static (nac|nalu) mul")).first).to_be_visible()
        page.screenshot(path=tmp_path / "overview.png")

        page.goto(f"{address}/#/actors")
        expect(page.get_by_text("static trials, slot").first).to_be_visible(timeout=WAIT)
        page.screenshot(path=tmp_path / "actors.png", full_page=True)
    assert (tmp_path / "job.png").stat().st_size > 20_000
