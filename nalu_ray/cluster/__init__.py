"""The files that start a cluster, checked before they cost: ``python -m nalu_ray.cluster``."""
