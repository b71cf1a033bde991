"""Arithmetic units, the networks they are compared with, and both by name.

Pure ``torch.nn.Module``s that need nothing else of ``nalu_ray``. :func:`build` makes a network of
any layer's name, :func:`build_cell` a recurrent cell of any cell's or unit's; ``registry`` says how
a new layer joins.
"""

from .activations import ACTIVATIONS, CReLU
from .cell import Cell, State, last
from .cells import UnitCell, build_cell, cell_names, get_cell, register_cell
from .configured import ConfiguredNALU
from .convnet import Conv2d, DigitConvnet, Features
from .dnc import DNC
from .functional import bounded_exp, linear, log_magnitude, max_exponent, nac_weight
from .gru import GRU
from .initialisers import INITIALISERS, Init, check_init, initialise
from .lstm import LSTM, lstm_steps
from .mlp import MLP, Linear
from .nac import NAC, NALU
from .nac_cell import NACCell, NALUCell
from .registry import LayerEntry, UnknownLayerError, build, get, names, register
from .rnn import RNN
from .stack import Stack, Stacked, reset_parameters
from .ugrnn import UGRNN

__all__ = [
    "ACTIVATIONS",
    "DNC",
    "GRU",
    "INITIALISERS",
    "LSTM",
    "MLP",
    "NAC",
    "NALU",
    "RNN",
    "UGRNN",
    "CReLU",
    "Cell",
    "ConfiguredNALU",
    "Conv2d",
    "DigitConvnet",
    "Features",
    "Init",
    "LayerEntry",
    "Linear",
    "NACCell",
    "NALUCell",
    "Stack",
    "Stacked",
    "State",
    "UnitCell",
    "UnknownLayerError",
    "bounded_exp",
    "build",
    "build_cell",
    "cell_names",
    "check_init",
    "get",
    "get_cell",
    "initialise",
    "last",
    "linear",
    "log_magnitude",
    "lstm_steps",
    "max_exponent",
    "nac_weight",
    "names",
    "register",
    "register_cell",
    "reset_parameters",
]
