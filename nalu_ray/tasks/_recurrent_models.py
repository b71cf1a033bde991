"""The recurrent models of the paper, in the order of Tables 2, 8, 9 and 10, then our controls."""

from __future__ import annotations

from nalu_ray.results.specs import Axis

CONTROLS = {"sum": "sum (control)", "rnn_identity": "RNN, identity (control)"}
"""Cells whose recurrence is given by hand: what a unit does beyond them is its own."""

STARTED = "memory_init<20"
"""From 20 on, W on h starts at the identity in float32; below, it starts near it and is learned."""

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
    given={
        f"nac@{STARTED}": "a start",
        f"nalu@{STARTED}": "a start",
        f"nac_nalu@{STARTED}": "a start, NAC first",
        "nac@memory_init": "the recurrence",
        "nalu@memory_init": "the recurrence",
        "nac_nalu@memory_init": "the recurrence, NAC first",
    },
    apart={
        STARTED: {
            "nac": "NAC, identity start",
            "nalu": "NALU, identity start",
            "nac_nalu": "NAC+NALU (ours), identity start",
        },
        "memory_init": {
            "nac": "NAC, memory given",
            "nalu": "NALU, memory given",
            "nac_nalu": "NAC+NALU (ours), memory given",
        },
    },
)
