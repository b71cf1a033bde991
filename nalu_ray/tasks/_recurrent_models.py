"""The recurrent models of the paper, in the order of Tables 2, 8, 9 and 10."""

from __future__ import annotations

from nalu_ray.results.specs import Axis

MODELS = Axis(
    field="layer",
    labels={
        "lstm": "LSTM",
        "gru": "GRU",
        "rnn_tanh": "RNN-tanh",
        "rnn_relu": "RNN-ReLU",
        "nac": "NAC",
        "nalu": "NALU",
    },
)
