"""Chooses between equally suitable node types; Ray's autoscaler calls it on the head.

Ray records which types the cloud could not start, but does not use the record: when no spot
instance is available, it requests one forever. ``RAY_AUTOSCALER_UTILIZATION_SCORER`` names this
function in place of Ray's.
"""

from __future__ import annotations

from typing import Any

from ray.autoscaler._private import resource_demand_scheduler


def prefer_available(
    node_resources: dict[str, Any],
    resources: list[dict[str, Any]],
    node_type: str,
    *,
    node_availability_summary: Any,
) -> tuple[Any, ...] | None:
    """Returns Ray's own score, preceded by whether the type was available lately.

    Args:
        node_resources: resources of a node of this type.
        resources: resources that the waiting trials ask for.
        node_type: name of the type.
        node_availability_summary: launches of the last half hour.
    """
    score = resource_demand_scheduler._default_utilization_scorer(
        node_resources,
        resources,
        node_type,
        node_availability_summary=node_availability_summary,
    )
    if score is None:
        return None
    last = node_availability_summary.node_availabilities.get(node_type)
    return (last is None or last.is_available, *score)
