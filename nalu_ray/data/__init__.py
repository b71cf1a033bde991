"""Data sets that tasks download."""
