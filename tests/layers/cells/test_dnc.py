"""The DNC against its equations, written out in NumPy, and what its memory guarantees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from nalu_ray.layers import DNC, State
from nalu_ray.layers.cells._memory import Memory

BATCH, STEPS, INPUTS, HIDDEN = 3, 7, 4, 6
SLOTS, WIDTH, READS = 5, 3, 2
EPSILON = 1e-6
Array = NDArray[np.float64]


def make(seed: int = 0, **options: Any) -> DNC:
    """One with parameters large enough for the memory to be used."""
    sizes = {"slots": SLOTS, "width": WIDTH, "reads": READS} | options
    cell = DNC(INPUTS, HIDDEN, **sizes).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.normal_(generator=generator)
    return cell


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def memory_of(state: State) -> Memory:
    return Memory(*state[3:])


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


def content(memory: Array, key: Array, strength: float) -> Array:
    def length(word: Array) -> float:
        return float(np.sqrt(word @ word + EPSILON))

    likeness = [key @ word / length(key) / length(word) for word in memory]
    return softmax(strength * np.array(likeness))


def allocation(usage: Array) -> Array:
    order = np.argsort(usage, kind="stable")
    usage = EPSILON + (1 - EPSILON) * usage
    result, left = np.zeros(len(usage)), 1.0
    for slot in order:
        result[slot] = (1 - usage[slot]) * left
        left *= usage[slot]
    return result


class WrittenOut:
    """One sequence, slot by slot and head by head."""

    def __init__(self, cell: DNC, start: State, row: int) -> None:
        self.values = {name: value.detach().numpy() for name, value in cell.named_parameters()}
        parts = [part[row].numpy().copy() for part in start]
        self.h, self.c, reads, self.memory, self.usage, self.write = parts[:6]
        self.precedence, self.link, self.read = parts[6:]
        self.reads = reads.reshape(READS, WIDTH)

    def state(self) -> list[Array]:
        return [
            self.h, self.c, self.reads.reshape(-1), self.memory, self.usage, self.write,
            self.precedence, self.link, self.read,
        ]  # fmt: skip

    def control(self, x: Array) -> Array:
        """Runs the LSTM, and returns what it asks of the memory."""
        v, both = self.values, np.concatenate([x, self.reads.reshape(-1)])
        gates = v["lstm.weight_x"] @ both + v["lstm.weight_h"] @ self.h + v["lstm.bias"]
        i, f, o, u = np.split(gates, 4)
        self.c = np.clip(sigmoid(f) * self.c + sigmoid(i) * np.tanh(u), -20, 20)
        self.h = np.clip(sigmoid(o) * np.tanh(self.c), -20, 20)
        asked: Array = v["request.weight"] @ self.h + v["request.bias"]
        return asked

    def step(self, x: Array) -> Array:
        sizes = [(READS + 1) * WIDTH, READS + 1, WIDTH, READS, 1, 1, 3 * READS, WIDTH]
        parts = np.split(self.control(x), np.cumsum(sizes)[:-1])
        keys, strengths, modes = parts[0].reshape(-1, WIDTH), parts[1], parts[6].reshape(READS, 3)
        strengths = 1 + np.log1p(np.exp(strengths))
        erase, free, (allocate,), (gate,) = map(sigmoid, parts[2:6])
        self.update_usage(free)
        found = content(self.memory, keys[READS], strengths[READS])
        write = gate * (allocate * allocation(self.usage) + (1 - allocate) * found)
        for slot in range(SLOTS):
            self.memory[slot] = self.memory[slot] * (1 - write[slot] * erase)
            self.memory[slot] = self.memory[slot] + write[slot] * parts[7]
        self.update_link(write)
        for head in range(READS):
            back, like, on = softmax(modes[head])
            self.read[head] = (
                back * self.link.T @ self.read[head]
                + like * content(self.memory, keys[head], strengths[head])
                + on * self.link @ self.read[head]
            )
            self.reads[head] = self.memory.T @ self.read[head]
        both = np.concatenate([self.h, self.reads.reshape(-1)])
        y = self.values["read_out.weight"] @ both + self.values["read_out.bias"]
        return np.clip(y, -20, 20)

    def update_usage(self, free: Array) -> None:
        retained = np.ones(SLOTS)
        for head in range(READS):
            retained = retained * (1 - free[head] * self.read[head])
        self.usage = (self.usage + self.write - self.usage * self.write) * retained

    def update_link(self, write: Array) -> None:
        link = np.zeros((SLOTS, SLOTS))
        for i in range(SLOTS):
            for j in range(SLOTS):
                if i != j:
                    kept = (1 - write[i] - write[j]) * self.link[i, j]
                    link[i, j] = kept + write[i] * self.precedence[j]
        self.link, self.write = link, write
        self.precedence = (1 - write.sum()) * self.precedence + write


def in_use(cell: DNC, seed: int) -> State:
    """A state in which no two slots are alike."""
    h, c, read, *memory = (
        drawn(*part.shape, seed=n + seed) for n, part in enumerate(cell.initial(BATCH, drawn(1)))
    )
    words, usage, write, precedence, link, weightings = memory
    shares = [torch.softmax(part, -1) for part in (write, precedence, weightings)]
    link = 0.1 * link.abs() * (1 - torch.eye(SLOTS))
    return h, c, read, words, usage.sigmoid(), shares[0], shares[1], link, shares[2]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("empty", [True, False])
def test_equal_to_the_equations(seed: int, empty: bool) -> None:
    cell, x = make(seed), drawn(BATCH, STEPS, INPUTS, seed=seed)
    start = cell.initial(BATCH, x) if empty else in_use(cell, seed)
    outputs, state = cell(x, start)
    # slots that were never used are alike, and rounding decides which is taken first
    same = 3 if empty else len(state)
    for row in range(BATCH):
        other = WrittenOut(cell, start, row)
        wanted = np.stack([other.step(x_t) for x_t in x[row].numpy()])
        torch.testing.assert_close(outputs[row], torch.from_numpy(wanted), rtol=1e-9, atol=1e-9)
        for found, expected in zip(state[:same], other.state(), strict=False):
            torch.testing.assert_close(found[row], torch.from_numpy(expected))


def test_weightings_are_shares_and_links_lead_elsewhere() -> None:
    cell, state = make(1), make(1).initial(BATCH, drawn(1))
    for x in drawn(20, BATCH, INPUTS, seed=2):
        _, state = cell.step(x, state)
        memory = memory_of(state)
        for weighting in (memory.write, memory.precedence, memory.read, memory.link):
            assert (weighting >= 0).all()
            assert (weighting.sum(-1) <= 1 + 1e-9).all()
        assert (memory.link.sum(-2) <= 1 + 1e-9).all()
        assert ((memory.usage >= 0) & (memory.usage <= 1)).all()
        assert (memory.link.diagonal(dim1=-2, dim2=-1) == 0).all()
        assert memory.write.max() > 1e-3


def test_what_was_read_changes_the_next_controller_input() -> None:
    cell, x = make(), drawn(BATCH, INPUTS)
    h, c, read, *memory = cell.initial(BATCH, x)
    _, (without, *_) = cell.step(x, (h, c, read, *memory))
    _, (after, *_) = cell.step(x, (h, c, read + 1, *memory))
    assert (after - without).abs().max() > 0.01
    _, state = cell.step(x, (h, c, read, *memory))
    torch.testing.assert_close(
        state[2].unflatten(-1, (READS, WIDTH)), memory_of(state).read @ memory_of(state).words
    )
    assert state[2].abs().max() > 0


def test_gradients_reach_a_word_written_long_ago() -> None:
    cell, x = make(), drawn(1, 12, INPUTS).requires_grad_()
    outputs, _ = cell(x)
    (slope,) = torch.autograd.grad(outputs[:, -1].sum(), x)
    assert slope.isfinite().all()
    assert (slope[0, 0] != 0).any()


def test_clip_bounds_memory_cell_and_output() -> None:
    cell, x = make(clip=0.1), drawn(BATCH, STEPS, INPUTS)
    outputs, (_, c, *_) = cell(x)
    assert outputs.abs().max() == c.abs().max() == 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_sequences_stay_finite(dtype: torch.dtype) -> None:
    cell = make().to(dtype)
    outputs, state = cell(10 * drawn(2, 300, INPUTS).to(dtype))
    outputs.square().mean().backward()
    assert all(part.isfinite().all() for part in (outputs, *state))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in cell.parameters())


@pytest.mark.parametrize("field", ["slots", "width", "reads"])
def test_sizes_below_one(field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must be an integer of at least 1, got 0$"):
        DNC(INPUTS, HIDDEN, **{field: 0})


def test_clip_is_above_zero() -> None:
    with pytest.raises(ValueError, match=r"^clip must be a finite number above 0, got 0\.0$"):
        DNC(INPUTS, HIDDEN, clip=0.0)
