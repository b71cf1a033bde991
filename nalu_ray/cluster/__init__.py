"""Checks the files that start a cluster: ``python -m nalu_ray.cluster``."""
