"""Specs of pools that the API server takes, and that it refuses with a sentence."""

from typing import Any

Json = dict[str, Any]

BY_LABEL = {"selector": {"matchLabels": {"team": "vision"}}}
WRITTEN = "selects on a label that the operator itself writes; select by a label that says which"
MEMBERS = "a pool needs members: give nodes.selector at least one label or expression, or list"


def build_expression(**requirement: Any) -> Json:
    return {"selector": {"matchExpressions": [requirement]}}


REFUSED: dict[str, tuple[Json, str]] = {
    "no membership": ({"nodes": {}}, MEMBERS),
    "an empty selector": ({"nodes": {"selector": {}}}, MEMBERS),
    "empty names": ({"nodes": {"names": []}}, MEMBERS),
    "only exclusions": ({"nodes": {"exclude": ["n1"]}}, MEMBERS),
    "an unknown mode": (
        {"schedule": "exclusive"},
        'supported values: "default", "share", "cgpu", "core_mem", "mps", "topology", "disabled"',
    ),
    "an unknown edition": (
        {"edition": "Enterprise"},
        'supported values: "Professional", "Basic", "OpenSource"',
    ),
    "a mode that Basic lacks": (
        {"edition": "Basic", "schedule": "mps"},
        "the Basic edition has no such mode; schedule must be one of default, share, cgpu",
    ),
    "a mode that OpenSource lacks": (
        {"edition": "OpenSource", "schedule": "cgpu"},
        "the OpenSource edition has no such mode; schedule must be one of default, share",
    ),
    "placement outside Professional": (
        {"edition": "Basic", "placement": "spread"},
        "placement exists in the Professional edition only; leave it out",
    ),
    "an unknown placement": ({"placement": "pack"}, 'supported values: "binpack", "spread"'),
    "a selector on the mode's label": (
        {"nodes": {"selector": {"matchLabels": {"ack.node.gpu.schedule": "share"}}}},
        WRITTEN,
    ),
    "an expression on Basic's label": (
        {"nodes": build_expression(key="cgpu", operator="Exists")},
        WRITTEN,
    ),
    "a selector on the pool's own label": (
        {"nodes": {"selector": {"matchLabels": {"gpushare.io/pool": "training"}}}},
        WRITTEN,
    ),
    "In without values": (
        {"nodes": build_expression(key="team", operator="In")},
        "In and NotIn need values; Exists and DoesNotExist take none",
    ),
    "Exists with values": (
        {"nodes": build_expression(key="team", operator="Exists", values=["vision"])},
        "In and NotIn need values; Exists and DoesNotExist take none",
    ),
    "an unknown operator": (
        {"nodes": build_expression(key="team", operator="Equals", values=["vision"])},
        'supported values: "In", "NotIn", "Exists", "DoesNotExist"',
    ),
    "a toleration of everything that does not say so": (
        {"workloads": {"tolerations": [{"value": "gpu"}]}},
        "without a key, operator must be Exists: it tolerates every taint",
    ),
    "a toleration with a value that counts for nothing": (
        {"workloads": {"tolerations": [{"key": "gpu", "operator": "Exists", "value": "yes"}]}},
        "operator Exists takes no value",
    ),
    "a toleration for a time of a taint that evicts nobody": (
        {"workloads": {"tolerations": [{"key": "gpu", "tolerationSeconds": 3}]}},
        "tolerationSeconds goes with effect NoExecute only",
    ),
    "a selector of pods that is none": (
        {"workloads": {"podSelector": {"matchLabels": {"not a key": "x"}}}},
        "a label key is a name of at most 63 letters",
    ),
    "an unknown binding": (
        {"workloads": {"binding": "Node"}},
        'supported values: "Pool", "Mode"',
    ),
    "a priority that is text": (
        {"priority": "high"},
        'spec.priority in body must be of type integer: "string"',
    ),
    "a negative priority": ({"priority": -1}, "should be greater than or equal to 0"),
    "a schedule that is a list": (
        {"schedule": ["share"]},
        'spec.schedule in body must be of type string: "array"',
    ),
    "too many names": (
        {"nodes": {"names": [f"n{index}" for index in range(1001)]}},
        "must have at most 1000 items",
    ),
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
        },
    },
    "names alone": {"nodes": {"names": ["n1"]}, "schedule": "disabled"},
    "Basic": {"edition": "Basic", "schedule": "default"},
    "OpenSource": {"edition": "OpenSource", "schedule": "share"},
    "a label that only resembles ours": {
        "nodes": {"selector": {"matchLabels": {"gpushare.example.com/pool": "a"}}},
        "schedule": "mps",
    },
}
