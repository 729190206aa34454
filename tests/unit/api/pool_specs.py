"""Specs of pools that the API server takes, and that it refuses with a sentence."""

from typing import Any

Json = dict[str, Any]

BY_LABEL = {"selector": {"matchLabels": {"team": "vision"}}}
WRITTEN = "must not use a label that the operator writes"
MEMBERS = "must select members: set at least one label or expression in nodes.selector"
VALUES = "values must be set for In and NotIn"

OF_NVIDIA = {"edition": "NVIDIA", "schedule": None, "nvidia": {"config": "a"}}


def build_labels(key: str, value: str) -> Json:
    return {"nodes": {"selector": {"matchLabels": {key: value}}}}


def build_expression(**requirement: Any) -> Json:
    return {"nodes": {"selector": {"matchExpressions": [requirement]}}}


def build_toleration(**toleration: Any) -> Json:
    return {"workloads": {"tolerations": [toleration]}}


REFUSED: dict[str, tuple[Json, str]] = {
    "no membership": ({"nodes": {}}, MEMBERS),
    "an empty selector": ({"nodes": {"selector": {}}}, MEMBERS),
    "empty names": ({"nodes": {"names": []}}, MEMBERS),
    "only exclusions": ({"nodes": {"exclude": ["n1"]}}, MEMBERS),
    "a minimum above the maximum": (
        {"nodes": {**BY_LABEL, "size": {"min": 3, "max": 2}}},
        "min must not be greater than max",
    ),
    "a minimum above the number of names": (
        {"nodes": {"names": ["n1"], "size": {"min": 2}}},
        "size.min must not be greater than the number of nodes.names",
    ),
    "a negative minimum": (
        {"nodes": {**BY_LABEL, "size": {"min": -1}}},
        "in body should be greater than or equal to 0",
    ),
    "demand without a size": (
        {"demand": {"mode": "Automatic"}},
        "demand requires nodes.size, by which nodes may move",
    ),
    "an unknown mode": ({"schedule": "exclusive"}, 'supported values: "default", "share"'),
    "an unknown edition": ({"edition": "Enterprise"}, 'supported values: "Professional"'),
    "a mode that Basic lacks": (
        {"edition": "Basic", "schedule": "mps"},
        "the Basic edition supports only the schedules default, share, cgpu",
    ),
    "a mode that OpenSource lacks": (
        {"edition": "OpenSource", "schedule": "cgpu"},
        "the OpenSource edition supports only the schedules default, share",
    ),
    "placement outside Professional": (
        {"edition": "Basic", "placement": "spread"},
        "placement is supported by the Professional edition only",
    ),
    "NVIDIA with a schedule": (
        {"edition": "NVIDIA", "nvidia": {"config": "a"}},
        "the NVIDIA edition requires nvidia.config and has no schedule",
    ),
    "NVIDIA on a label that its configuration changes": (
        {**OF_NVIDIA, **build_labels("nvidia.com/gpu.product", "A100")},
        "nodes.selector must not use a label that changes with nvidia.config",
    ),
    "NVIDIA by an expression on one": (
        {**OF_NVIDIA, **build_expression(key="nvidia.com/gpu.replicas", operator="Exists")},
        "nodes.selector must not use a label that changes with nvidia.config",
    ),
    "an unknown placement": ({"placement": "pack"}, 'supported values: "binpack", "spread"'),
    "a selector on the mode's label": (build_labels("ack.node.gpu.schedule", "share"), WRITTEN),
    "an expression on Basic's label": (build_expression(key="cgpu", operator="Exists"), WRITTEN),
    "a selector on the pool's own label": (build_labels("gpushare.io/pool", "training"), WRITTEN),
    "In without values": (build_expression(key="team", operator="In"), VALUES),
    "Exists with values": (build_expression(key="team", operator="Exists", values=["x"]), VALUES),
    "an unknown operator": (
        build_expression(key="team", operator="Equals", values=["vision"]),
        'supported values: "In", "NotIn", "Exists", "DoesNotExist"',
    ),
    "a toleration of everything that does not say so": (
        build_toleration(value="gpu"),
        "operator must be Exists if key is not set",
    ),
    "a toleration with a value that counts for nothing": (
        build_toleration(key="gpu", operator="Exists", value="yes"),
        "value must not be set if operator is Exists",
    ),
    "a toleration for a time of a taint that evicts nobody": (
        build_toleration(key="gpu", tolerationSeconds=3),
        "effect must be NoExecute if tolerationSeconds is set",
    ),
    "a selector of pods that is none": (
        {"workloads": {"podSelector": {"matchLabels": {"not a key": "x"}}}},
        "label keys must be a name of at most 63 letters",
    ),
    "an unknown binding": ({"workloads": {"binding": "Node"}}, 'supported values: "Pool", "Mode"'),
    "a priority that is text": ({"priority": "high"}, "spec.priority in body must be of type"),
    "a negative priority": ({"priority": -1}, "in body should be greater than or equal to 0"),
    "a schedule that is a list": ({"schedule": ["x"]}, "spec.schedule in body must be of type"),
    "too many names": ({"nodes": {"names": [f"n{n}" for n in range(1001)]}}, "most 1000 items"),
    "too many expressions": (
        {"nodes": {"selector": {"matchExpressions": [{"key": "k", "operator": "Exists"}] * 51}}},
        "must have at most 50 items",
    ),
    "an unknown restart policy": (
        {"devicePlugin": {"restart": "Always"}},
        'supported values: "OnIsolationChange", "Never"',
    ),
}

TAKEN: dict[str, Json] = {
    "the smallest": {"schedule": "cgpu"},
    "every field": {
        "edition": "Professional",
        "schedule": "core_mem",
        "placement": "spread",
        "priority": 1_000_000,
        "devicePlugin": {"restart": "Never"},
        "nodes": {
            "selector": {
                "matchLabels": {"team": "vision"},
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]},
                    {"key": "zone", "operator": "NotIn", "values": ["c"]},
                    {"key": "gpu", "operator": "Exists"},
                    {"key": "spot", "operator": "DoesNotExist"},
                ],
            },
            "names": ["n1"],
            "exclude": ["n2"],
            "size": {"min": 2, "max": 6},
        },
        "demand": {"mode": "Automatic", "pendingFor": "2m", "idleFor": "1h30m"},
    },
    "a pool that is to have no node": {
        "nodes": {**BY_LABEL, "size": {"min": 0, "max": 0}},
        "schedule": "share",
    },
    "names alone": {"nodes": {"names": ["n1"]}, "schedule": "disabled"},
    "Basic": {"edition": "Basic", "schedule": "default"},
    "OpenSource": {"edition": "OpenSource", "schedule": "share"},
    "a label that only resembles ours": {
        "nodes": {"selector": {"matchLabels": {"gpushare.example.com/pool": "a"}}},
        "schedule": "mps",
    },
}
