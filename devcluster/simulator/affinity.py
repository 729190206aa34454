"""Evaluates a pod's node selector and affinity, which the kubelet checks again."""

from collections.abc import Mapping
from typing import Any

from devcluster.simulator.objects import Node, Pod


def selects(pod: Pod, node: Node) -> bool:
    """Tell whether a pod's nodeSelector and required node affinity match a node's labels.

    Source: Kubernetes, "Assigning Pods to Nodes": terms are ORed, requirements in one are ANDed.
    """
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return not pod.node_affinity or any(_term_matches(t, node) for t in pod.node_affinity)


def _term_matches(term: Mapping[str, Any], node: Node) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_matches(e, node.labels) for e in expressions) and all(
        _matches(f, {"metadata.name": node.name}) for f in fields
    )


def _matches(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key: str = requirement["key"]
    values: list[str] = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt" as operator:
            try:
                have, bound = int(labels[key]), int(values[0])
            except (KeyError, ValueError, IndexError):
                return False
            return have > bound if operator == "Gt" else have < bound
    return False
