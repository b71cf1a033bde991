"""A unit and a task that join nalu_ray by entry points."""
