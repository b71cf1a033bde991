"""Training many seeds of one setting as one stacked model."""
