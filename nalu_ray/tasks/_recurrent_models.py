"""The recurrent models of the paper, in the order of Tables 2, 8, 9 and 10, then our controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nalu_ray.results.specs import Axis

CONTROLS = {"sum": "sum (control)", "rnn_identity": "RNN, identity (control)"}
"""Cells whose recurrence is given by hand: what a unit does beyond them is its own."""

STARTED = "memory_init<20"
"""From 20 on, W on h starts at the identity in float32; below, it starts near it and is learned."""


def by_memory(labels: Mapping[str, str], also: Mapping[str, str] = {}) -> dict[str, Any]:
    """Returns the fields of an axis whose units stand apart by how their memory starts.

    Args:
        labels: unit to its label.
        also: unit to what else is given to it by hand.
    """
    starts = {
        STARTED: ("identity start", "a start"),
        "memory_init": ("memory given", "the recurrence"),
    }
    return {
        "given": {
            f"{name}@{start}": f"{given}{also.get(name, '')}"
            for start, (_, given) in starts.items()
            for name in labels
        },
        "apart": {
            start: {name: f"{label}, {words}" for name, label in labels.items()}
            for start, (words, _) in starts.items()
        },
    }


MODELS = Axis(
    field="layer",
    labels={
        "lstm": "LSTM",
        "gru": "GRU",
        "rnn_tanh": "RNN-tanh",
        "rnn_relu": "RNN-ReLU",
        "nac": "NAC",
        "nalu": "NALU",
        **CONTROLS,
    },
    **by_memory(
        {"nac": "NAC", "nalu": "NALU", "nac_nalu": "NAC+NALU (ours)"},
        also={"nac_nalu": ", NAC first"},
    ),
)
