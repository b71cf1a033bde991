"""The link that opens the dashboard signed in."""

from __future__ import annotations

import http.client
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
