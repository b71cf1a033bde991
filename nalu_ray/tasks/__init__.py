"""The paper's experiments, one module each; :mod:`nalu_ray.registry` finds them."""
