"""What a Ray of our own is started with: on this machine's loopback, behind a token, or not at all.

Ray writes a fresh token file that everybody may read, and listens on every address.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import psutil
from ray._private import ray_constants

from nalu_ray.cluster.exposure import readable_by_others
from nalu_ray.errors import ConfigError
from nalu_ray.sweep.ray.failures import describe
from nalu_ray.sweep.ray.liveness import muted

# Ray's own name for it; a value that is set already is left, 1 for this machine's own address
ADDRESS_FLAG = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
TOKEN = Path("~/.ray/auth_token")
FILES_WANTED = 65_536
HELP = (
    "RAY_TMPDIR names its folder for sockets and logs (a short path), HOME the one of its token; "
    "--local runs without Ray"
)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Prepares for a Ray of our own; if it does not start, what was begun is ended.

    Raises:
        ConfigError: it does not, in one line.
    """
    _raise_files_limit()
    before = set(psutil.Process().children(recursive=True))
    try:
        with loopback(), muted():
            private_token()
            yield
    except BaseException as error:  # a signal too leaves nothing behind
        for process in set(psutil.Process().children(recursive=True)) - before:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if isinstance(error, Exception):
            raise ConfigError([f"Ray cannot start here: {describe(error)}; {HELP}"]) from error
        raise


@contextlib.contextmanager
def loopback() -> Iterator[None]:
    """Makes a Ray that is started here listen on 127.0.0.1, unless asked otherwise."""
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


def private_token() -> None:
    """Makes the token that Ray would make, or the one that is there, readable by its owner only.

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


def _raise_files_limit() -> None:
    """Raises how many files may be open, as Ray asks to; the command refused too few."""
    try:
        import resource  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
