"""Recurrent cells."""
