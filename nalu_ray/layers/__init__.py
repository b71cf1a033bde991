"""Arithmetic units, the networks they are compared with, and both by name.

Pure ``torch.nn.Module``s, usable without the rest of ``nalu_ray``. :func:`build` makes a network
from the name of a layer, :func:`build_cell` a recurrent cell from the name of a cell or unit;
``registry`` explains how to add a layer.
"""

from .activations import ACTIVATIONS, CReLU
from .cells.base import Cell, State, last
from .cells.dnc import DNC
from .cells.gru import GRU
from .cells.lstm import LSTM, lstm_steps
from .cells.mc_lstm import MCLSTM, MulMCLSTM
from .cells.nac import NACCell
from .cells.nalu import NALUCell
from .cells.nalu_lstm import ConfiguredNALU
from .cells.rnn import RNN
from .cells.rnn_identity import IdentityRNN
from .cells.sum import Sum
from .cells.ugrnn import UGRNN
from .cells.unit_cell import (
    UnitCell,
    build_cell,
    cell_names,
    check_no_pair,
    first_cell,
    get_cell,
    pair_names,
    register_cell,
)
from .convnet import Conv2d, DigitConvnet, Features, normalised
from .functional import linear
from .gated import GatedNAUNMU, SeparateNALU
from .gnalu import GNALU
from .inalu import INALU
from .initialisers import INITIALISERS, Init, check_init, initialise
from .kan import KAN
from .mcfc import MCFC, MulMCFC
from .mlp import MLP, Linear
from .mlp_unit import MLPUnit
from .mnac import MNAC, LinearMNAC, NACPlus, SigmoidMNAC
from .nac import NAC, nac_weight
from .nalu import NALU, exponent, log_magnitude, max_exponent, nalu_output, nalu_sums
from .nau import NAU
from .nmru import NMRU
from .nmu import NMU
from .npu import NPU, NaiveNPU
from .nru import NRU
from .nsr import NSR
from .real_npu import ModifiedRealNPU, RealNPU
from .registry import LayerEntry, UnknownLayerError, build, get, names, options_of, register
from .snapping_nac import SnappingNAC, SnappingPower
from .snmu import SNMU
from .stack import Stack, Stacked, reset_parameters

__all__ = [
    "ACTIVATIONS",
    "DNC",
    "GNALU",
    "GRU",
    "INALU",
    "INITIALISERS",
    "KAN",
    "LSTM",
    "MCFC",
    "MCLSTM",
    "MLP",
    "MNAC",
    "NAC",
    "NALU",
    "NAU",
    "NMRU",
    "NMU",
    "NPU",
    "NRU",
    "NSR",
    "RNN",
    "SNMU",
    "UGRNN",
    "CReLU",
    "Cell",
    "ConfiguredNALU",
    "Conv2d",
    "DigitConvnet",
    "Features",
    "GatedNAUNMU",
    "IdentityRNN",
    "Init",
    "LayerEntry",
    "Linear",
    "LinearMNAC",
    "MLPUnit",
    "ModifiedRealNPU",
    "MulMCFC",
    "MulMCLSTM",
    "NACCell",
    "NACPlus",
    "NALUCell",
    "NaiveNPU",
    "RealNPU",
    "SeparateNALU",
    "SigmoidMNAC",
    "SnappingNAC",
    "SnappingPower",
    "Stack",
    "Stacked",
    "State",
    "Sum",
    "UnitCell",
    "UnknownLayerError",
    "build",
    "build_cell",
    "cell_names",
    "check_init",
    "check_no_pair",
    "exponent",
    "first_cell",
    "get",
    "get_cell",
    "initialise",
    "last",
    "linear",
    "log_magnitude",
    "lstm_steps",
    "max_exponent",
    "nac_weight",
    "nalu_output",
    "nalu_sums",
    "names",
    "normalised",
    "options_of",
    "pair_names",
    "register",
    "register_cell",
    "reset_parameters",
]
