"""Files of tensors and plain values; reading them runs no code.

Each file is an archive whose comment is a digest of its bytes.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Mapping
from typing import Any

import torch
from pyarrow import fs

from nalu_ray.input.values import LONGEST
from nalu_ray.results.store import atomic_files, seal

_DEEPEST = 4


def to_bytes(saved: dict[str, Any], error: type[Exception]) -> bytes:
    """Returns what :func:`from_bytes` reads.

    Raises:
        error: if ``saved`` holds more than plain values, which could not be read again.
    """
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    data = buffer.getvalue()
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except pickle.UnpicklingError as cause:
        values = {key: value for key, value in saved.items() if key != "weights"}
        raise error(f"more than plain values: {values}") from cause
    return seal.seal(data)


def from_bytes(
    data: bytes, name: str, *, noun: str, form: str, error: type[Exception]
) -> dict[str, Any]:
    """Reads a file's values onto the CPU.

    Args:
        data: contents of the file.
        name: name of the file; messages start with it.
        noun: what the file should be, for messages.
        form: the expected value of its key ``format``.
        error: type of the exceptions raised.

    Raises:
        error: if the file is not of this form.
    """
    try:
        seal.check(data)
        check_size(data)
        saved = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as cause:  # torch's own text recommends to run the file's code
        reason = "it is cut off, or holds more than plain values"
        raise error(f"{name}: cannot be read as {_a(noun)}: {reason}") from cause
    except Exception as cause:  # torch.load raises whatever the bytes lead it to
        raise error(unreadable(name, noun, cause)) from cause
    if not isinstance(saved, dict) or saved.get("format") != form:
        raise error(f"{name}: not written by nalu_ray as {_a(noun)} ({form})")
    return saved


def read(path: str, error: type[Exception]) -> bytes:
    """Returns the bytes of a local file.

    Raises:
        error: if it is missing or cannot be read; the message starts with ``path``.
    """
    try:
        return atomic_files.read(fs.LocalFileSystem(), path)
    except atomic_files.NoFileError as cause:
        raise error(f"{path}: {cause}") from cause
    except OSError as cause:
        raise error(f"{path}: {cause.strerror}") from cause


def check_size(data: bytes) -> None:
    """Refuses a compressed archive: torch compresses nothing, and a bomb would fill the memory.

    Raises:
        ValueError: if any part is compressed.
    """
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return  # torch raises the error
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = archive.infolist()
    unpacked = sum(part.file_size for part in parts)
    if unpacked > len(data) or any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise ValueError(f"{unpacked:,} bytes in a file of {len(data):,}: it is compressed")


def check_values(values: object, name: str, depth: int = 0) -> None:
    """Refuses anything but plain values: tensors, numbers above 64 bits, very long texts.

    Args:
        values: a value, or a mapping or list of them.
        name: start of messages.
        depth: nesting of lists so far.

    Raises:
        ValueError: if a value is not plain.
    """
    if isinstance(values, Mapping | list | tuple) and depth < _DEEPEST:
        pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
        for key, value in pairs:
            if not isinstance(key, str | int) or len(str(key)) > LONGEST:
                raise ValueError(f"{name}: a key that is not a name")
            check_values(value, f"{name}.{key}", depth + 1)
    elif isinstance(values, int):
        if not -(2**63) <= values < 2**63:
            raise ValueError(f"{name}: an integer of more than 64 bits")
    elif isinstance(values, str):
        if len(values) > LONGEST:
            raise ValueError(f"{name}: a text of {len(values):,} characters")
    elif not (values is None or isinstance(values, float)):
        raise ValueError(f"{name}: a {type(values).__name__} is not a plain value")


def misfit(network: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> str | None:
    """Returns how weights differ from those of a network, or None if they fit.

    Args:
        network: the network, on any device, also on ``meta``.
        weights: tensors by name.
    """
    expected = network.state_dict()
    learned = {name for name, _ in network.named_parameters()}
    if missing := sorted(learned - set(weights)):
        return f"weights {missing[0]!r} are missing"
    for name, tensor in weights.items():
        if name not in expected:
            return f"weights {name!r} belong to another network"
        if tensor.is_meta or tensor.layout != torch.strided:
            return f"weights {name} without numbers, or with some left out"
        if tensor.shape != expected[name].shape:
            shapes = f"{list(tensor.shape)} instead of {list(expected[name].shape)}"
            return f"weights {name} of shape {shapes}"
        if tensor.is_complex() or tensor.is_floating_point() != expected[name].is_floating_point():
            return f"weights {name} of type {str(tensor.dtype).removeprefix('torch.')}"
    return None


def unreadable(name: str, noun: str, cause: Exception) -> str:
    """Returns the message, in one line, for a file that cannot be read."""
    reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    return f"{name}: cannot be read as {_a(noun)}: {reason}"


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
