"""Adam without torch's search for groups of tensors: the numbers and the state of torch's own."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.optim import Adam

from nalu_ray.training.learning_rate import schedule
from nalu_ray.training.optimisers import optimiser


def moved(kind: str, steps: int) -> tuple[Tensor, dict[str, Tensor]]:
    """Parameters and state after some steps, the last of them resumed from a copy."""
    flat = torch.linspace(-1, 1, 192).reshape(3, 64).requires_grad_()

    def made() -> Adam:
        if kind == "torch":
            return Adam([flat], lr=0.1, betas=(0.9, 0.99), eps=1e-30, fused=True)
        adam = optimiser("adam", flat, 0.1, beta2=0.99, eps=1e-30)
        assert isinstance(adam, Adam)
        return adam

    adam = made()
    rates = schedule("cosine", adam, steps, 0.1)
    for step in range(steps):
        if step == steps // 2:
            kept = copy.deepcopy(adam.state_dict()), rates.state_dict()
            adam = made()
            rates = schedule("cosine", adam, steps, 0.1)
            adam.load_state_dict(kept[0])
            rates.load_state_dict(kept[1])
        flat.grad = (flat.detach() - 0.3).sin() * (step + 1)
        adam.step()
        rates.step()
    return flat.detach(), adam.state[flat]


def test_fused_adam_is_torchs() -> None:
    flat, state = moved("ours", 8)
    wanted, of_torch = moved("torch", 8)
    assert torch.equal(flat, wanted)
    assert not torch.equal(flat, torch.linspace(-1, 1, 192).reshape(3, 64))
    assert state.keys() == of_torch.keys()
    for name, value in state.items():
        assert torch.equal(value, of_torch[name])
    assert state["step"] == 8
