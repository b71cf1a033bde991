"""What requests do to the memory of the DNC, with all gates open or shut."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nalu_ray.layers.cells._memory import Memory, MemoryRequest, access, empty

SLOTS, WIDTH = 5, 3


def request(
    word: list[float],
    *,
    allocate: float = 1.0,
    free: float = 0.0,
    erase: float = 0.0,
    mode: int = 1,
    key: list[float] | None = None,
) -> MemoryRequest:
    """What one head could ask for; the write gate is open, and keys are looked for sharply."""
    keys = torch.tensor(key or [1.0, 0.0, 0.0]).double().expand(1, 2, WIDTH)
    one = torch.ones(1, 1, dtype=torch.float64)
    return MemoryRequest(
        keys=keys,
        strengths=1e3 * one.expand(1, 2),
        erase=erase * one.expand(1, WIDTH),
        free=free * one,
        allocate=allocate * one,
        gate=one,
        modes=torch.eye(3, dtype=torch.float64)[mode].expand(1, 1, 3),
        word=torch.tensor([word]).double(),
    )


def close(found: Tensor, wanted: list[float], atol: float = 1e-4) -> None:
    torch.testing.assert_close(found, torch.tensor(wanted).double(), rtol=0, atol=atol)


WORDS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]


def written(count: int) -> tuple[Memory, list[int]]:
    """A memory to which ``WORDS`` were allocated, and the slot of each."""
    memory, slots = empty(1, SLOTS, WIDTH, 1, torch.zeros(1).double()), []
    for word in WORDS[:count]:
        _, memory = access(memory, request(word))
        slots.append(int(memory.write.argmax()))
    return memory, slots


def test_allocated_writes_go_to_fresh_slots() -> None:
    memory, slots = written(4)
    assert len(set(slots)) == 4
    for slot, word in zip(slots, WORDS, strict=True):
        close(memory.words[0, slot], word)
    (fresh,) = set(range(SLOTS)) - set(slots)
    close(memory.words[0, fresh], [0.0, 0.0, 0.0])
    close(memory.write[0, slots], [0.0, 0.0, 0.0, 1.0])


def test_a_slot_freed_by_a_read_is_written_to_next() -> None:
    memory, slots = written(4)
    memory = memory._replace(usage=torch.ones_like(memory.usage))  # the fifth as well
    _, memory = access(memory, request([0.0, 0.0, 0.0], key=WORDS[1]))
    close(memory.read[0, 0, slots], [0.0, 1.0, 0.0, 0.0])
    _, memory = access(memory, request([2.0, 2.0, 2.0], free=1.0, erase=1.0))
    close(memory.words[0, slots[1]], [2.0, 2.0, 2.0])
    for place in 0, 2, 3:
        close(memory.words[0, slots[place]], WORDS[place])


def test_without_allocation_writes_go_to_what_is_like_the_key() -> None:
    memory, slots = written(3)
    add = request([0.0, 0.0, 5.0], allocate=0.0, erase=0.5, key=WORDS[2])
    read, memory = access(memory, add)
    close(memory.words[0, slots[2]], [0.0, 0.0, 5.5])
    close(read[0, 0], [0.0, 0.0, 5.5])


@pytest.mark.parametrize(("mode", "reached"), [(0, 0), (2, 2)])
def test_links_lead_back_and_on_in_the_order_of_writing(mode: int, reached: int) -> None:
    memory, slots = written(3)
    at_second = torch.eye(SLOTS, dtype=torch.float64)[slots[1]].reshape(1, 1, SLOTS)
    closed = torch.zeros(1, 1, dtype=torch.float64)
    asked = request(WORDS[1], mode=mode)._replace(gate=closed)
    read, _ = access(memory._replace(read=at_second), asked)
    close(read[0, 0], WORDS[reached])
