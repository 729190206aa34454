"""AdmissionReviews as large as the API server sends them for an ordinary pod."""

from collections.abc import Collection, Sequence
from typing import Any

from tests.kit.builders import build_pod
from tests.kit.reviews import build_review, encode

Json = dict[str, Any]

_MOST_VARIABLES, _FEWEST_VARIABLES = 14, 10
_CREATOR = {
    "username": "system:serviceaccount:kube-system:replicaset-controller",
    "uid": "6a1e0f5e-54f1-4d27-a2f0-2c8a1f6d0001",
    "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
    "extra": {"authentication.kubernetes.io/credential-id": ["JTI=6a1e0f5e-54f1-4d27-a2f0"]},
}
_TOKEN = "kube-api-access-x7k2p"


def build_bodies(count: int) -> Sequence[bytes]:
    """So many reviews on the wire, each of another pod: no two in a row are of one length."""
    return [encode(_build_review(number)) for number in range(count)]


def _build_review(number: int) -> Json:
    uid = f"705ab4f5-6393-11e8-b7cc-{number:012x}"
    pod = _build_defaulted_pod(number)
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    options = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    return build_review(
        pod,
        uid=uid,
        requestKind=kind,
        requestResource=resource,
        name=pod["metadata"]["name"],
        userInfo=_CREATOR,
        options=options,
    )


def _build_defaulted_pod(number: int) -> Json:
    """A pod with the defaults and the token that the API server adds before it asks webhooks."""
    spread = 1 + _MOST_VARIABLES - _FEWEST_VARIABLES
    variables = range(_FEWEST_VARIABLES + number % spread)
    environment = {f"SETTING_{variable}": f"value-{variable}" for variable in variables}
    pod = build_pod(f"inference-5c9f7d9d8b-{number:05}", gib=3 + number % 6, env=environment)
    hashed = {"app": "inference", "pod-template-hash": "5c9f7d9d8b"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "inference-5c9f7d9d8b"}
    pod["metadata"] |= {
        "generateName": "inference-5c9f7d9d8b-",
        "namespace": "default",
        "uid": f"0c1f6a52-8f3e-4a53-9d5b-{number:012x}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": hashed,
        "ownerReferences": [
            owner
            | {"uid": "9a2b7c66-17a3-4b7e-8d80-1f0d5a3b0001"}
            | {"controller": True, "blockOwnerDeletion": True}
        ],
        "managedFields": [_build_managed_fields(environment)],
    }
    mount = {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for container in pod["spec"]["containers"]:
        container |= {
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "volumeMounts": [{"name": _TOKEN, "readOnly": True} | mount],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
            "securityContext": {"allowPrivilegeEscalation": False},
        }
    pod["spec"] |= {
        "volumes": [_build_token_volume()],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists"}
            | {"effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    pod["status"] = {}
    return pod


def _build_token_volume() -> Json:
    root = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1"}}
    namespace["fieldRef"] |= {"fieldPath": "metadata.namespace"}  # type: ignore[operator]
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": root},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": _TOKEN, "projected": {"sources": sources, "defaultMode": 420}}


def _build_managed_fields(environment: Collection[str]) -> Json:
    """What the creator is noted to own: as long as the rest of the pod."""
    container: Json = {
        ".": {},
        "f:env": {
            ".": {},
            **{
                f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, "f:value": {}}
                for name in environment
            },
        },
        **{f"f:{name}": {} for name in ("image", "imagePullPolicy", "name")},
        "f:resources": {".": {}, "f:limits": {".": {}, "f:aliyun.com/gpu-mem": {}}},
        **{f"f:{name}": {} for name in ("terminationMessagePath", "terminationMessagePolicy")},
    }
    owned = ("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName", "securityContext")
    metadata: Json = {
        "f:generateName": {},
        "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"9a2b7c66-17a3-4b7e-8d80-1f0d5a3b0001"}': {}},
    }
    return {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": metadata,
            "f:spec": {
                "f:containers": {'k:{"name":"main"}': container},
                **{f"f:{name}": {} for name in owned},
            },
        },
    }
