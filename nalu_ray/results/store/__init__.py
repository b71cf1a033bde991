"""Rows, states and trained networks on disk."""
