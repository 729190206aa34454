"""What the API server takes for a GPUSharePool, and what it says of the rest."""

from typing import Any

import pytest
import yaml

from devcluster.apiserver import ApiError
from devcluster.errors import CommandError
from tests.kit.bench import POOLS, Bench
from tests.kit.builders import build_pool

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


@pytest.mark.parametrize(("spec", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_spec_is_refused_with_a_sentence_that_says_what_to_write(
    bench: Bench, spec: Json, sentence: str
) -> None:
    pool = build_pool(**{"nodes": BY_LABEL, **spec})
    with pytest.raises(ApiError) as refused:
        bench.create_pool(pool)
    assert refused.value.status == 422
    assert sentence in str(refused.value)


def test_a_spec_without_a_schedule_is_refused(bench: Bench) -> None:
    pool = build_pool()
    del pool["spec"]["schedule"]
    with pytest.raises(ApiError, match=r"spec\.schedule: Required value"):
        bench.create_pool(pool)


def test_a_name_that_is_no_label_value_is_refused(bench: Bench) -> None:
    with pytest.raises(ApiError, match="63 characters at most"):
        bench.create_pool(build_pool("p" * 64))


def test_the_edition_of_a_pool_stays(bench: Bench) -> None:
    bench.create_pool(build_pool(edition="Basic"))
    with pytest.raises(ApiError, match="edition can't change: delete the pool"):
        bench.change_pool(edition="OpenSource")


@pytest.mark.parametrize("place", ["spec", "nodes"])
def test_an_unknown_field_is_refused_under_strict_validation(bench: Bench, place: str) -> None:
    pool = build_pool()
    holder = pool["spec"] if place == "spec" else pool["spec"]["nodes"]
    holder["scheduel"] = "cgpu"
    with pytest.raises(CommandError, match=r'unknown field "spec\.(nodes\.)?scheduel"'):
        bench.cluster.kubectl("create", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(pool))


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


@pytest.mark.parametrize("spec", TAKEN.values(), ids=TAKEN.keys())
def test_a_good_spec_is_taken_as_it_is(bench: Bench, spec: Json) -> None:
    pool = build_pool()
    pool["spec"] = {"nodes": BY_LABEL, **spec}
    created = bench.create_pool(pool)["spec"]
    assert pool["spec"].items() <= created.items()


def test_what_a_spec_leaves_out_gets_a_safe_value(bench: Bench) -> None:
    pool = build_pool()
    pool["spec"] = {"nodes": BY_LABEL, "schedule": "cgpu"}
    created = bench.create_pool(pool)["spec"]
    assert created == {
        **pool["spec"],
        "edition": "Professional",
        "priority": 100,
        "reconcile": "Enforce",
        "conflicts": "Report",
        "deletionPolicy": "Retain",
        "devicePlugin": {"restart": "OnIsolationChange"},
        "rollout": {
            "maxUnavailable": 1,
            "canary": 0,
            "onFailure": "Halt",
            "approval": "Automatic",
            "workloads": "Wait",
            "staleWorkloads": "Report",
        },
        "isolationTeardown": {"policy": "Manual", "reboot": "Person"},
        "workloads": {"selection": "Automatic", "binding": "Pool"},
    }


def test_kubectl_knows_the_short_name_the_category_and_the_columns(bench: Bench) -> None:
    bench.create_pool(build_pool(placement="spread"))
    for word in ("gsp", "gpu", "gpusharepool", "gpusharepools.gpushare.io"):
        header, row = bench.cluster.kubectl("get", word).splitlines()
        assert header.split() == [
            *("NAME", "SCHEDULE", "PLACEMENT", "NODES", "READY", "UPDATING"),
            *("GPU-MEM", "STATUS", "AGE"),
        ]
        assert row.split()[:3] == ["training", "share", "spread"]


def test_kubectl_explains_every_field_of_the_spec(bench: Bench) -> None:
    said = bench.cluster.kubectl("explain", "gsp.spec", "--recursive")
    fields = (
        *("nodes", "edition", "schedule", "placement", "priority", "devicePlugin", "exclude"),
        *("reconcile", "conflicts", "deletionPolicy"),
    )
    assert [field for field in fields if field not in said] == []
    assert "Which nodes are members." in bench.cluster.kubectl("explain", "gsp.spec.nodes")


def test_every_field_of_the_status_survives(bench: Bench) -> None:
    bench.create_pool(build_pool(node_pool="nobody"))
    moment = "2026-01-01T00:00:00Z"
    status = {
        "observedGeneration": 7,
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "observedGeneration": 7,
                "lastTransitionTime": moment,
                "reason": "Updating",
                "message": "m",
            }
        ],
        "nodes": {
            "matched": 6, "ready": 1, "updating": 2, "waiting": 1, "blocked": 1, "failed": 1
        },
        "samples": [{"node": "n1", "reason": "Updating", "since": moment, "message": "m"}],
    }  # fmt: skip
    bench.operators.end_all()
    bench.call("PATCH", f"{POOLS}/training/status", {"status": status})

    assert bench.pool()["status"] == status


def test_the_spec_is_not_written_through_the_status(bench: Bench) -> None:
    bench.create_pool(build_pool(node_pool="nobody"))
    bench.call("PATCH", f"{POOLS}/training/status", {"spec": {"schedule": "cgpu"}})
    assert bench.pool()["spec"]["schedule"] == "share"
