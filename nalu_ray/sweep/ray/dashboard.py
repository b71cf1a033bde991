"""Ray's dashboard: its token, and a link that signs in the first browser that follows it.

Ray's dashboard takes its token from a dialog or from a cookie, never from its address. A host's
ports share cookies, so a page at another port of 127.0.0.1 can set the cookie and then lead there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import ray
from ray._private.authentication.authentication_constants import (
    AUTHENTICATION_TOKEN_COOKIE_NAME as COOKIE,
)
from ray._private.authentication.http_token_authentication import get_auth_headers_if_auth_enabled

from nalu_ray.cluster.exposure import readable_by_others
from nalu_ray.input import invocation

HOST = "127.0.0.1"
TOKEN = Path("~/.ray/auth_token")
SILENT_SECONDS = 10  # a connection that asks for nothing is closed


def private_token() -> None:
    """Creates Ray's token file readable by its owner only, or restricts an existing one.

    Raises:
        OSError: it cannot be written.
    """
    path = TOKEN.expanduser()
    if os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return
    if "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if readable_by_others(path):
            path.chmod(0o600)
        return
    with os.fdopen(number, "w") as file:
        file.write(secrets.token_hex(32))


def token_command() -> str:
    """Returns the command that prints Ray's token, as it can be typed here."""
    return f"{invocation.program('ray')} get-auth-token"


def token_needed() -> bool:
    """Returns whether Ray asks for its token."""
    return os.environ.get("RAY_AUTH_MODE") == "token"


@contextlib.contextmanager
def signed_in(dashboard: str) -> Iterator[str]:
    """Yields a link that opens the job's page signed in; empty if there is no use for one.

    Without a token, or where the browser is on another machine, there is none.

    Args:
        dashboard: HOST:PORT of the dashboard.
    """
    header = get_auth_headers_if_auth_enabled({})
    scheme, _, token = header.get("authorization", "").partition(" ")
    here = dashboard.startswith(f"{HOST}:") and "SSH_CONNECTION" not in os.environ
    if not (here and token_needed() and scheme == "Bearer" and token):
        yield ""
        return
    job = ray.get_runtime_context().get_job_id()
    with link(f"http://{dashboard}/#/jobs/{job}", token) as address:
        yield address


@contextlib.contextmanager
def link(target: str, token: str) -> Iterator[str]:
    """Serves a link that opens ``target``, the first time with the dashboard's cookie; yields it.

    Later it opens the dashboard as its plain address does: the browser that is signed in goes on,
    any other is asked for the token. So a link that is left in a terminal or a log lets nobody in.

    Args:
        target: a URL of the dashboard, at 127.0.0.1.
        token: Ray's token. Whoever follows the link first may use the dashboard, as with the token.
    """
    key = secrets.token_urlsafe(16)
    server = _Server((HOST, 0), _handler(f"/{key}", target, token))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="nalu_ray_login")
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/{key}"
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Writes nothing: a browser may leave at any moment."""


def _handler(path: str, target: str, token: str) -> type[BaseHTTPRequestHandler]:
    unused = threading.Semaphore()

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENT_SECONDS

        def do_GET(self) -> None:
            if not secrets.compare_digest(self.path.encode(), path.encode()):
                self.send_error(404)
                return
            self.send_response(302)
            if unused.acquire(blocking=False):
                cookie = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"
                self.send_header("Set-Cookie", cookie)
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Writes nothing: the console is the command's."""

    return Handler
