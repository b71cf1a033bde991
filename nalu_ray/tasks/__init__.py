"""The paper's experiments, one folder or module per task; :mod:`nalu_ray.registry` finds them.

A folder has ``__init__`` (the task, its tables and figures), ``data`` (its sets) and ``network``
(its settings and network). A leading underscore marks what several tasks share.
"""
