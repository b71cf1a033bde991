"""Gymnasium environments of the platform."""
