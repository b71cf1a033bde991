"""Runs a plan on Ray Tune. The only package of the command that imports Ray.

:mod:`~nalu_ray.sweep.ray.cluster` starts or finds a cluster, :mod:`~nalu_ray.sweep.ray.nodes` checks
its nodes, :mod:`~nalu_ray.sweep.ray.gpus` measures what fits on a GPU, :mod:`~nalu_ray.sweep.ray.driver`
makes a plan a Tune experiment, :mod:`~nalu_ray.sweep.ray.worker` is what runs on the workers.
"""

from nalu_ray.sweep.ray.cluster import Session, connect, start
from nalu_ray.sweep.ray.driver import LOGGERS, run
from nalu_ray.sweep.ray.gpus import measure_gpu
from nalu_ray.sweep.ray.nodes import check_nodes

__all__ = ["LOGGERS", "Session", "check_nodes", "connect", "measure_gpu", "run", "start"]
