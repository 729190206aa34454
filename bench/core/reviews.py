"""Builds AdmissionReviews as large as the API server's for an ordinary pod."""

from collections.abc import Sequence
from typing import Any, Literal

from tests.kit.values.manifests import Json, build_pod, build_review, encode

Whose = Literal["ours", "selecting", "hami"]
PATHS: dict[Whose, str] = {"ours": "/mutate-pods", "selecting": "/mutate-pods", "hami": "/webhook"}
"""Paths of webhooks by owner; half of the pods of `selecting` select nodes."""
_MODEL, _ZONE = "aliyun.accelerator/nvidia_name", "topology.kubernetes.io/zone"
_MODELS, _ZONES = 8, 5

_FEWEST_VARIABLES, _MOST_VARIABLES = 15, 19
_TOKEN = "kube-api-access-x7k2p"
_CONTAINER: Json = {
    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "securityContext": {"allowPrivilegeEscalation": False},
    "volumeMounts": [
        {"name": _TOKEN, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    ],
}
_SPEC: Json = {
    "volumes": [
        {"name": _TOKEN, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    ],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "schedulerName": "default-scheduler",
    "tolerations": [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ],
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
"""Fields that the API server adds before it calls webhooks."""


def build_combinations(pool: int, count: int) -> Sequence[dict[str, str]]:
    """Build combinations of labels of a pool's nodes, by the pool's number: each pool has nodes in
    all zones, and of a few card models."""
    return [
        {
            _MODEL: f"model-{(pool + index // _ZONES) % _MODELS}",
            _ZONE: f"zone-{index % _ZONES}",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": f"type-{index}",
        }
        for index in range(count)
    ]


def build_bodies(count: int, whose: Whose) -> Sequence[bytes]:
    """Build encoded reviews of different pods, none as long as the one before."""
    return [encode(_build_review(number, whose)) for number in range(count)]


def _build_review(number: int, whose: Whose) -> Json:
    """Build a review of a pod that requests card memory by the resources of `whose` webhook."""
    variables = range(_FEWEST_VARIABLES + number % (1 + _MOST_VARIABLES - _FEWEST_VARIABLES))
    environment = {f"SETTING_{variable}": f"value-{variable}" for variable in variables}
    gib = 3 + number % 6
    selects = {}
    if whose == "selecting" and number % 2:
        by_model = {_MODEL: f"model-{number % _MODELS}"}
        selects = by_model if number % 4 == 1 else {_ZONE: f"zone-{number % _ZONES}"}
    name = f"inference-5c9f7d9d8b-{number:05}"
    pod = build_pod(name, gib=gib, env=environment, selects=selects)
    for container in pod["spec"]["containers"]:
        container |= _CONTAINER
        if whose == "hami":
            limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(1024 * gib)}
            container["resources"] = {"limits": limits}
    pod["spec"] |= _SPEC
    written = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "fieldsType": "FieldsV1",
        "fieldsV1": _own({"spec": pod["spec"]}),
    }
    pod["metadata"] |= {
        "namespace": "default",
        "uid": f"0c1f6a52-8f3e-4a53-9d5b-{number:012x}",
        "labels": {"app": "inference", "pod-template-hash": "5c9f7d9d8b"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}],
        "managedFields": [written],
    }
    return build_review(pod, uid=f"705ab4f5-6393-11e8-b7cc-{number:012x}")


def _own(value: Any) -> Json:
    """Build the managedFields of the creator, as long as the rest of the pod."""
    match value:
        case dict():
            return {f"f:{key}": _own(part) for key, part in value.items()}
        case [{"name": _}, *_]:
            return {f'k:{{"name":"{part["name"]}"}}': {".": {}} | _own(part) for part in value}
        case _:
            return {}
