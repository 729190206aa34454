"""What is kept of objects: what commands need, and nothing that is nobody's business."""

import json

import pytest

from gpushare.api.pruned.cluster import Kind, keep_object
from tests.kit.values.manifests import build_pod

_METADATA = {"name": "training", "uid": "1", "creationTimestamp": "2026-11-01T00:00:00Z"}

VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def test_of_a_pod_stays_what_it_asks_of_gpus_and_nothing_that_it_does() -> None:
    pod = build_pod("trainer", gib=3, annotations={"team": "vision", "gpushare.io/pool": "a"})
    pod["metadata"] |= {"namespace": "default", "uid": "1"}
    main = pod["spec"]["containers"][0]
    secret = {"secretKeyRef": {"name": "bank", "key": "pin"}}
    main |= {
        "command": ["steal"],
        "volumeMounts": [{"name": "gold", "mountPath": "/gold"}],
        "env": [
            {"name": "PASSWORD", "value": "opensesame"},
            {"name": "CGPU_DISABLE", "valueFrom": secret},
        ],
    }
    main["resources"]["limits"] |= {"memory": "4Gi", "example.com/gold": "1"}
    pod["spec"] |= {"volumes": [{"name": "gold"}], "imagePullSecrets": [{"name": "key"}]}

    assert keep_object(Kind.PODS, pod) == {
        "metadata": {
            "name": "trainer",
            "uid": "1",
            "namespace": "default",
            "annotations": {"gpushare.io/pool": "a"},
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "CGPU_DISABLE", "valueFrom": {"secretKeyRef": {}}}],
                    "resources": {
                        "limits": {"aliyun.com/gpu-mem": "3", "memory": "4Gi"},
                        "requests": {"aliyun.com/gpu-mem": "3"},
                    },
                },
            ],
            "volumes": [{}],
        },
    }


def test_of_what_was_applied_last_to_a_pool_stays_the_spec() -> None:
    spec = {"schedule": "cgpu"}
    applied = {"metadata": {"annotations": {"owner": "ann@example.com"}}, "spec": spec}
    last = "kubectl.kubernetes.io/last-applied-configuration"
    for text, left in ((json.dumps(applied), json.dumps({"spec": spec})), ("[" * 9999, "{}")):
        annotations = {last: text, "owner": "ann@example.com"}
        kept = keep_object(Kind.POOLS, {"metadata": {**_METADATA, "annotations": annotations}})
        assert kept is not None
        assert kept["metadata"]["annotations"] == {last: left}


def test_what_the_api_server_lets_pass_and_nobody_reads_is_no_error() -> None:
    ready = {"type": "Ready", "status": "True"}
    status = {
        "conditions": [{"type": "", "status": "True"}, {"type": "Foo", "status": ""}, ready],
        "addresses": [{"type": "", "address": ""}, {"type": "ExternalDNS", "address": ""}],
    }
    kept = keep_object(Kind.NODES, {"metadata": _METADATA, "status": status})
    assert kept is not None
    assert kept["status"]["conditions"] == [ready]


def test_of_the_operators_deployments_stay_the_variables_that_decisions_depend_on() -> None:
    secret = {"secretKeyRef": {"name": "bank", "key": "pin"}}
    container = {
        "name": "gpushare",
        "image": "registry/op:1",
        "args": ["--pin=1234"],
        "env": [
            {"name": "GPUSHARE_ALLOW_EVICTION", "value": "true"},
            {"name": "GPUSHARE_MEMORY_UNIT", "valueFrom": secret},
            {"name": "GPUSHARE_PIN", "value": "1234"},
            {"name": "PASSWORD", "value": "opensesame"},
        ],
        "envFrom": [{"secretRef": {"name": "bank"}}],
    }
    deployment = {
        "metadata": {"name": "gpushare-controller", "uid": "1", "namespace": "gpushare-system"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
    }
    kept = keep_object(Kind.DEPLOYMENTS, deployment)
    assert kept is not None
    assert kept["spec"]["template"]["spec"]["containers"] == [
        {
            "name": "gpushare",
            "env": [
                {"name": "GPUSHARE_ALLOW_EVICTION", "value": "true"},
                {"name": "GPUSHARE_MEMORY_UNIT", "valueFrom": {"secretKeyRef": {}}},
            ],
        },
    ]


@pytest.mark.parametrize(("env", "is_kept"), [({}, False), ({VISIBLE: "all"}, True)])
def test_a_pod_that_asks_for_no_gpu_is_kept_if_it_uses_one(
    env: dict[str, str], is_kept: bool
) -> None:
    pod = build_pod("web", gib=None, env=env)
    pod["metadata"] |= {"namespace": "default", "uid": "1"}
    assert (keep_object(Kind.PODS, pod) is not None) is is_kept
