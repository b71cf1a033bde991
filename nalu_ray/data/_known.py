"""Files of known content: checked before use, seen under their name only once they are whole."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

BLOCK = 1 << 20

Report = Callable[[str, int, int], None]
"""Told what goes on and how many bytes of how many are done; 0 of 0 where nobody can tell."""


class DataError(RuntimeError):
    """Data cannot be had; says what was tried and what to do."""


class WrongFile(DataError):
    """What was read is not the file that it should be; says how it differs."""


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Returns the next bytes, at most so many; none at the end."""


@dataclass(frozen=True)
class KnownFile:
    """A file of which name, size in bytes and MD5 are known."""

    name: str
    size: int
    md5: str

    def map(self, folder: Path) -> Tensor:
        """Returns the checked bytes of the file, (size,) uint8.

        They are mapped, so processes share the pages. A write stays in the process that does it.

        Raises:
            OSError: there is no such file in the folder, or it cannot be read.
            WrongFile: it is another.
        """
        path = folder / self.name
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise WrongFile(f"{self.name}: no file, but a folder, a pipe or a device")
        if (size := status.st_size) != self.size:
            raise WrongFile(f"{self.name}: {size:,} bytes instead of {self.size:,}")
        content = np.memmap(path, dtype=np.uint8, mode="c")
        self._check(hashlib.md5(content.data, usedforsecurity=False).hexdigest())
        return torch.from_numpy(content)

    def save(self, stream: Readable, folder: Path, work: Path, report: Report) -> None:
        """Copies a stream into the folder, if it is this file to the last byte.

        Args:
            stream: the file's bytes.
            folder: where the file appears, at once and whole.
            work: a folder of the same file system, for what is not whole yet.
            report: told the bytes copied.

        Raises:
            OSError: the stream broke off, or the file could not be written.
            WrongFile: the stream is not this file.
        """
        part, digest, done = work / self.name, hashlib.md5(usedforsecurity=False), 0
        with open(part, "wb") as file:
            while block := stream.read(BLOCK):
                done += len(block)
                if done > self.size:
                    raise WrongFile(f"{self.name}: more than {self.size:,} bytes")
                digest.update(block)
                file.write(block)
                report(self.name, done, self.size)
        if done < self.size:
            raise WrongFile(f"{self.name}: {done:,} bytes instead of {self.size:,}")
        self._check(digest.hexdigest())
        part.replace(folder / self.name)

    def _check(self, md5: str) -> None:
        if md5 != self.md5:
            raise WrongFile(f"{self.name}: MD5 {md5} instead of {self.md5}")
