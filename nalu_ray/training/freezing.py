"""Which seeds of a block may go on training: those whose loss and gradient allow a step.

On a CPU the check of a step is read at once. On a GPU, reading it makes the host wait for all work
that it has sent, so that the GPU idles while the host prepares the next step. There, seeds are
frozen on the device at the step at which they diverge, and the host reads which ones every
``EVERY`` steps. Parameters, buffers and recorded steps are the same either way.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nalu_ray.training.gradients import all_usable, usable

EVERY = 50
"""Steps between two times that the host reads which seeds diverged on a GPU."""


class Freezer:
    """Freezes seeds at the step at which they cannot go on, and reads each step's check at once.

    Args:
        diverged: (R,) on the CPU, the step at which a seed diverged, -1 for none; is filled in.
        done: (R,) on the CPU, the step at which a seed was done early, -1 for none.
        most: the largest usable magnitude of a gradient.

    Attributes:
        all_frozen: whether no seed trains any more, as far as the host knows.
    """

    def __init__(self, diverged: Tensor, done: Tensor, most: float) -> None:
        self.diverged, self.done, self.most = diverged, done, most
        self._frozen = self._known()
        self._any = bool(self._frozen.any())
        self.all_frozen = bool(self._frozen.all())

    @property
    def alive(self) -> Tensor:
        """The seeds that train, (R,) of bool; on the device of the losses."""
        return ~self._frozen

    def look(self, step: int, loss: Tensor, gradient: Tensor) -> Tensor | None:
        """Freezes the seeds that cannot make a step.

        Args:
            step: steps of training so far.
            loss, gradient: of each seed, (R,) and (R, P).

        Returns:
            The frozen seeds, (R,) of bool; None if there are none.
        """
        if self._any or not all_usable(loss, gradient, self.most):
            newly = ~usable(loss, gradient, self.most).cpu() & ~self._frozen
            self.diverged[newly] = step
            self._set(self._known())
        return self._frozen if self._any else None

    def settle(self) -> None:
        """Brings ``diverged`` up to date."""

    def _known(self) -> Tensor:
        return (self.diverged >= 0) | (self.done >= 0)

    def _set(self, frozen: Tensor) -> None:
        self._frozen, self._any = frozen, bool(frozen.any())
        self.all_frozen = bool(frozen.all())


class DeviceFreezer(Freezer):
    """Freezes seeds on their device; the host learns of it some steps later.

    Args:
        diverged, done, most: as for :class:`Freezer`.
        device: where losses and gradients are.
        every: steps between two times that the host waits for the device.
    """

    def __init__(
        self,
        diverged: Tensor,
        done: Tensor,
        most: float,
        device: torch.device,
        every: int = EVERY,
    ) -> None:
        super().__init__(diverged, done, most)
        self.every, self._unread = every, 0
        self._frozen, self._at = self._frozen.to(device), diverged.to(device, copy=True)

    def look(self, step: int, loss: Tensor, gradient: Tensor) -> Tensor | None:
        newly = ~usable(loss, gradient, self.most) & ~self._frozen
        self._at = torch.where(newly, step, self._at)
        self._frozen = self._frozen | newly
        self._unread += 1
        if self._unread >= self.every:
            self.settle()
        return self._frozen

    def settle(self) -> None:
        self._unread = 0
        self.diverged.copy_(self._at)
        self.all_frozen = bool(self._known().all())


def freezer(diverged: Tensor, done: Tensor, most: float, device: torch.device) -> Freezer:
    """Returns the way to freeze seeds that suits a device; the arguments are the classes'."""
    if device.type == "cpu":
        return Freezer(diverged, done, most)
    return DeviceFreezer(diverged, done, most, device)
