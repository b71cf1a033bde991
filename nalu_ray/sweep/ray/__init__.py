"""Runs a plan on Ray Tune. The only package of the command that imports Ray.

``cluster`` starts Ray or joins a cluster, ``nodes`` checks its nodes, ``gpus`` measures what fits
on a GPU, ``driver`` makes a plan a Tune experiment, ``worker`` runs on the workers.
"""

from nalu_ray.sweep.ray.cluster import Session, beside, connect, start
from nalu_ray.sweep.ray.driver import LOGGERS, run
from nalu_ray.sweep.ray.gpus import measure_gpu
from nalu_ray.sweep.ray.liveness import watched
from nalu_ray.sweep.ray.nodes import check_nodes

__all__ = [
    "LOGGERS",
    "Session",
    "beside",
    "check_nodes",
    "connect",
    "measure_gpu",
    "run",
    "start",
    "watched",
]
