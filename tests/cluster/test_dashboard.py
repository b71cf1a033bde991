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
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from nalu_ray.sweep.ray import dashboard
from tests.conftest import PYTHONPATH

from .commands import until
from .hosts import require

pytestmark = [pytest.mark.cluster, pytest.mark.browser, pytest.mark.timeout(900)]

RAY = str(Path(sys.executable).with_name("ray"))
LINE = "static layer=nac,nalu op=mul steps=1000000 seeds=10 --seeds-per-trial 10"
NAMES = ("static nac mul lr=0.2 seeds 0-9", "static nalu mul lr=0.2 seeds 0-9")
WAIT = 240_000
MANY = "static layer=nac op=add steps=2000 seeds=72 --seeds-per-trial 1"
MORE_THAN_A_PAGE = 12  # rows of the dashboard's tables: ten


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
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield started
        started.close()


def token_field(page: Page) -> Locator:
    return page.get_by_placeholder("Enter your authentication token")


@contextmanager
def browser(address: str, token: str) -> Iterator[Page]:
    """A browser that was asked for the token and given it."""
    with chromium() as started:
        page = started.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(WAIT)
        page.goto(f"{address}/#/jobs")
        field = token_field(page)
        field.fill("wrong")
        page.get_by_role("button", name="Submit").click()
        expect(page.get_by_role("alert")).to_be_visible(timeout=WAIT)
        field.fill(token)
        page.get_by_role("button", name="Submit").click()
        expect(field).to_have_count(0, timeout=WAIT)
        yield page


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


def submit(address: str, token: str, name: str, line: str, out: Path) -> None:
    """Submits a sweep as a job."""
    job = ["job", "submit", "--address", address, "--submission-id", name, "--no-wait", "--"]
    sweep = ["python", "-m", "nalu_ray.tune", *line.split(), "--address", "auto", "--out", str(out)]
    # refused while the node's agent is not up yet
    until(
        lambda: (
            subprocess.run([RAY, *job, *sweep], env=environment(token), check=False).returncode == 0
        )
    )


def test_one_of_many_trials_is_found_by_its_name_and_by_its_state(tmp_path: Path) -> None:
    """The link of a local sweep signs in; a trial is found without turning a page of 72 trials."""
    require({"/usr/bin/chromium": "chromium"})
    token = secrets.token_hex(16)
    with ray_with_token(token) as address, chromium() as started:
        submit(address, token, "static-72", MANY, tmp_path / "results")
        with dashboard.link(f"{address}/#/jobs/static-72", token) as link:
            page = started.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(WAIT)
            page.goto(link)
            expect(page.get_by_text("RUNNING").first).to_be_visible(timeout=WAIT)
            expect(token_field(page)).to_have_count(0)
            stranger = started.new_context().new_page()  # the link has been used
            stranger.set_default_timeout(WAIT)
            stranger.goto(link)
            expect(token_field(stranger)).to_be_visible(timeout=WAIT)
            stranger.close()

        for finished in (0, MORE_THAN_A_PAGE):
            until(lambda n=finished: len(of_state("FINISHED", address, token)) >= n, 600)
            page.goto(f"{address}/#/jobs/static-72")
            page.reload()
            page.get_by_role("heading", name="Task Table").click()
            until(lambda: of_state("RUNNING", address, token))
            (name, *_) = of_state("RUNNING", address, token) + of_state("FINISHED", address, token)
            page.get_by_label("Name", exact=True).first.fill(name)
            expect(page.locator("tr", has_text=name).first).to_be_visible(timeout=WAIT)
            page.get_by_label("Name", exact=True).first.fill("")
            page.get_by_label("State", exact=True).first.fill("RUNNING")
            until(lambda: shown_and_running(page, address, token), 300)


def shown_and_running(page: Page, address: str, token: str) -> bool:
    """Whether a trial that runs has a row on the first page of the running tasks."""
    shown = page.locator("tr", has_text="static nac add lr=").all_inner_texts()
    return any(name in text for name in of_state("RUNNING", address, token) for text in shown)


def of_state(state: str, address: str, token: str) -> list[str]:
    """The names of the trials in a state."""
    return [
        task["name"]
        for task in tasks(address, token)
        if task["state"] == state and task["name"].startswith("static nac add")
    ]


def test_a_sweep_in_the_browser(tmp_path: Path) -> None:
    require({"/usr/bin/chromium": "chromium"})
    token = secrets.token_hex(16)
    with ray_with_token(token) as address, browser(address, token) as page:
        submit(address, token, "static-1", LINE, tmp_path / "results")

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
