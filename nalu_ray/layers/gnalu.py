"""Golden-ratio NALU.

Rana et al., "Exploring Numerical Calculations with CalcNet" (ICTAI 2019).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .nac import nac_weight
from .nalu import NALU, nalu_output, nalu_sums
from .registry import register
from .stack import Stacked

CITATION = "Rana et al. (2019)"


def to_base_e(parameter: Tensor) -> Tensor:
    """The parameter times log phi = 0.481, phi the golden ratio: phi^u = e^(u log phi)."""
    # divided, not multiplied: only so the gradients of stacked seeds round as those of a lone one
    return parameter / (1 / math.log((1 + math.sqrt(5)) / 2))


class GNALU(NALU):
    """Golden-ratio NALU: a NALU whose squashing functions have the base phi in place of e.

    Rana et al. (2019), with phi = (1 + sqrt(5)) / 2::

        y = g * a + (1 - g) * m
        a = W x,    m = exp(W log(|x| + epsilon)),    g = sigmoid_phi(G x)
        W = tanh_phi(W_hat) * sigmoid_phi(M_hat)
        tanh_phi(u) = (phi^2u - 1) / (phi^2u + 1),    sigmoid_phi(u) = 1 / (1 + phi^-u)

    Since phi^u = exp(u log phi), tanh_phi(u) is tanh(u log phi), and sigmoid_phi(u) is
    sigmoid(u log phi). So a G-NALU is a NALU whose W_hat, M_hat and G are multiplied by
    log phi = 0.481. It represents the same functions; it starts from, and moves through, smaller
    values. A NALU with its initialisation times 0.481, and for Adam its learning rate too, trains
    the same.

    A later port writes the product as phi^(W log(|x| + epsilon) / log phi), which is m as above.

    Arguments and errors are those of :class:`NALU`, and so is what is said there of bounds.
    """

    @property
    def weight(self) -> Tensor:
        """W, (out_features, in_features), each element in [-1, 1]."""
        return nac_weight(to_base_e(self.W_hat), to_base_e(self.M_hat))

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        weight = self.weight
        stacked = torch.cat([weight, to_base_e(self.G)])
        sums, exponents = nalu_sums(x, weight, stacked, self.epsilon)
        a, gate = sums.chunk(2, dim=-1)
        return nalu_output(a, gate, exponents, weight.dtype)


register("gnalu", label="G-NALU", citation=CITATION)(Stacked(GNALU))
