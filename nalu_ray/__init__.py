"""Neural arithmetic and numerical extrapolation on Ray: every experiment from one command."""

__version__ = "0.3.0"
