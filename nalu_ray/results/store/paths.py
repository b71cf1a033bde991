"""Paths on the command line: ``~`` is expanded in every option that takes a path."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "NALU_RAY_CACHE"


def expanded(path: str) -> str:
    """Returns a path with a leading ``~`` or ``~user`` expanded; a URI unchanged.

    Raises:
        FileNotFoundError: the user's home folder is unknown.
    """
    full = path if "://" in path else os.path.expanduser(path)
    if full.startswith("~"):
        text = f"no home folder is known; for a file of that name write ./{path}"
        raise FileNotFoundError(errno.ENOENT, text, path)
    return full


def place(text: str) -> str:
    """Reads an option that is a folder or a URI."""
    try:
        return expanded(text)
    except FileNotFoundError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error


def file(text: str) -> Path:
    """Reads an option that is a file of this machine."""
    return Path(place(text))


def cache_folder() -> Path:
    """Returns the folder that ``NALU_RAY_CACHE`` names, or the one in the user's cache."""
    folder = os.environ.get(CACHE_VARIABLE)
    return (
        Path(expanded(folder))
        if folder
        else platformdirs.user_cache_path("nalu-ray", appauthor=False)
    )
