"""The recurrent models of the paper, in the order of Tables 2, 8, 9 and 10, then our controls."""

from __future__ import annotations

from nalu_ray.results.specs import Axis

CONTROLS = {"sum": "sum (control)", "rnn_identity": "RNN, identity (control)"}
"""Cells whose recurrence is given by hand: what a unit does beyond them is its own."""

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
    given=dict.fromkeys(("nac@memory_init", "nalu@memory_init"), "the recurrence"),
    apart={"memory_init": {"nac": "NAC, memory given", "nalu": "NALU, memory given"}},
)
