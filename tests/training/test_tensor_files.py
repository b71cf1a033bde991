"""Files of tensors that are damaged, packed, or made to do harm: refused before they are read."""

from __future__ import annotations

import contextlib
import io
import random
import zipfile
from typing import Any

import pytest
import torch

from nalu_ray.results.store import seal
from nalu_ray.training import tensor_files


class NoneError(ValueError):
    """What is raised here."""


def read(data: bytes) -> dict[str, Any]:
    return tensor_files.from_bytes(data, "x.pt", noun="model", form="a", error=NoneError)


def written() -> bytes:
    return tensor_files.to_bytes({"format": "a", "weights": torch.arange(500.0)}, NoneError)


def test_a_sealed_file_is_torchs_own() -> None:
    data = written()
    assert seal.is_sealed(data)
    assert torch.load(io.BytesIO(data), weights_only=True)["format"] == "a"
    assert zipfile.ZipFile(io.BytesIO(data)).comment.startswith(seal.MARK)
    assert torch.equal(read(data)["weights"], torch.arange(500.0))


def test_no_flipped_bit_is_read() -> None:
    data, draw = written(), random.Random(3)
    right = torch.arange(500.0)
    for _ in range(300):
        spoiled = bytearray(data)
        place = draw.randrange(8 * len(data))
        spoiled[place // 8] ^= 1 << place % 8
        with contextlib.suppress(NoneError):
            assert torch.equal(read(bytes(spoiled))["weights"], right)  # a bit of the mark


def test_a_file_of_before_the_digest_is_read() -> None:
    buffer = io.BytesIO()
    torch.save({"format": "a"}, buffer)
    assert read(buffer.getvalue()) == {"format": "a"}


def packed(size: int, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        archive.writestr("archive/data.pkl", b"\0" * size)
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def test_an_archive_that_unpacks_to_more_than_it_is_is_not_unpacked() -> None:
    data = packed(1 << 26)
    assert len(data) < 1 << 17
    with pytest.raises(NoneError, match=r"67,108,866 bytes in a file of [\d,]+: it is compressed"):
        read(data)
    with pytest.raises(NoneError, match="it is compressed"):
        read(seal.seal(packed(10)))
    with pytest.raises(NoneError, match="cannot be read as a model"):
        read(packed(100, zipfile.ZIP_STORED))


def test_values_that_are_not_plain() -> None:
    tensor_files.check_values({"a": [1, 2.5, None, True, "x", {"b": (1,)}]}, "about")
    for wrong, why in {
        "number": (10**400, "64 bits"), "tensor": (torch.ones(1), "Tensor is not a plain value"),
        "text": ("a" * 10_001, "10,001 characters"), "deep": ([[[[[[1]]]]]], "list is not a plain"),
        "key": ({(1,): 2}, "not a name"), "bytes": (b"a", "bytes is not a plain"),
    }.values():  # fmt: skip
        with pytest.raises(ValueError, match=f"^about.*{why}"):
            tensor_files.check_values({"x": wrong}, "about")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, None),
        ({"weight": None}, "weights 'weight' are missing"),
        ({"other": torch.ones(1)}, "weights 'other' belong to another network"),
        ({"weight": torch.ones(3, 2)}, "weights weight of shape [3, 2] instead of [2, 3]"),
        ({"bias": torch.ones(2, dtype=torch.complex64)}, "weights bias of type complex64"),
        ({"bias": torch.ones(2, dtype=torch.int64)}, "weights bias of type int64"),
        ({"bias": torch.ones(2, dtype=torch.float64)}, None),
    ],
)
def test_weights_that_do_not_fit(changed: dict[str, Any], why: str | None) -> None:
    with torch.device("meta"):
        network = torch.nn.Linear(3, 2)
    weights = {"weight": torch.ones(2, 3), "bias": torch.ones(2)} | changed
    fitting = {name: value for name, value in weights.items() if value is not None}
    assert tensor_files.misfit(network, fitting) == why
