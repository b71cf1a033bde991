"""Runs a plan on Ray Tune. The only package of the command that imports Ray.

:mod:`~nalu_ray.runner.session` starts or finds a cluster, :mod:`~nalu_ray.runner.nodes` checks
its nodes, :mod:`~nalu_ray.runner.gpus` measures what fits on a GPU, :mod:`~nalu_ray.runner.sweep`
makes a plan a Tune experiment, :mod:`~nalu_ray.runner.trials` is what runs on the workers.
"""

from nalu_ray.runner.gpus import measure_gpu
from nalu_ray.runner.nodes import check_nodes
from nalu_ray.runner.session import Session, connect, start
from nalu_ray.runner.sweep import LOGGERS, run

__all__ = ["LOGGERS", "Session", "check_nodes", "connect", "measure_gpu", "run", "start"]
