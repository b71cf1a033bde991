"""The dashboard's token, and the link that opens it signed in."""

from __future__ import annotations

import http.client
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nalu_ray.sweep.machine import Capacity
from nalu_ray.sweep.ray import cluster, dashboard


def get(url: str) -> tuple[int, dict[str, str]]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", parts.path)
    response = connection.getresponse()
    return response.status, dict(response.getheaders())


def test_the_link_sets_the_cookie_and_leads_to_the_dashboard() -> None:
    target = "http://127.0.0.1:8265/#/jobs/01000000"
    with dashboard.link(target, "secret") as link:
        assert link.startswith("http://127.0.0.1:")
        assert "secret" not in link
        for wrong in (f"{link}x", link.rsplit("/", 1)[0] + "/"):
            status, headers = get(wrong)
            assert status == 404
            assert "Set-Cookie" not in headers
        status, headers = get(link)
        assert (status, headers["Location"]) == (302, target)
        assert headers["Set-Cookie"] == (
            "ray-authentication-token=secret; Path=/; HttpOnly; SameSite=Strict"
        )
        # later it leads there, too, but lets nobody in who is not signed in
        status, headers = get(link)
        assert (status, headers["Location"]) == (302, target)
        assert "Set-Cookie" not in headers
    with pytest.raises(ConnectionRefusedError):
        get(link)


def test_a_terminal_gets_the_link_and_a_file_the_command_for_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = cluster.Session(
        Capacity("test", ()), "127.0.0.1:8265", True, "http://link/key", guarded=True
    )
    line = session.describe()
    assert line.startswith("dashboard: http://127.0.0.1:8265, open while this runs; its token: ")
    assert line.endswith("ray get-auth-token")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert session.describe() == (
        "dashboard: http://link/key, open while this runs; the link signs in once"
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / ".ray" / "auth_token"


def test_a_fresh_token_is_its_owners_alone(home: Path) -> None:
    before = os.umask(0)
    try:
        dashboard.private_token()
    finally:
        os.umask(before)
    assert oct(home.stat().st_mode & 0o777) == "0o600"
    assert oct(home.parent.stat().st_mode & 0o777) == "0o700"
    assert re.fullmatch("[0-9a-f]{64}", home.read_text())


def test_a_token_that_is_there_is_kept_and_closed(home: Path) -> None:
    home.parent.mkdir()
    home.write_text("secret")
    home.chmod(0o644)
    dashboard.private_token()
    assert home.read_text() == "secret"
    assert oct(home.stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize(
    ("name", "value"),
    [("RAY_AUTH_MODE", "disabled"), ("RAY_AUTH_TOKEN", "x"), ("RAY_AUTH_TOKEN_PATH", "/x")],
)
def test_no_token_is_made_where_none_is_read(
    name: str, value: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    dashboard.private_token()
    assert not home.exists()
