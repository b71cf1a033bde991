"""What Ray's autoscaler calls on the head to choose between node types that suit alike.

Ray notes which types the cloud could not start, and then does not look at the notes: when there is
no spot instance, it asks for one again for ever. ``RAY_AUTOSCALER_UTILIZATION_SCORER`` names this
function instead of Ray's.
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
    """Returns Ray's own score with, before all else, whether the type could be had of late.

    Args:
        node_resources: what a node of the type has.
        resources: what is asked for.
        node_type: the type's name.
        node_availability_summary: the launches of the last half hour.
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
