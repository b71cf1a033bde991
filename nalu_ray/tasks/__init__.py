"""The paper's experiments, one folder or module per task; :mod:`nalu_ray.registry` finds them.

A folder has ``__init__`` (the task, its tables and figures), ``data`` (its sets) and ``network``
(its settings and network). A leading underscore marks what several tasks share.
"""

from __future__ import annotations

from nalu_ray.results.specs import Axis

RECURRENT_MODELS = Axis(
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
"""The rows of Tables 2, 8, 9 and 10."""
