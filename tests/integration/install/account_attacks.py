"""What somebody who holds a token of ours would try, each with what the API server says."""

from dataclasses import dataclass
from typing import Any

from devcluster.installation import NAMESPACE
from tests.integration.install.stolen_token import APPLY, JSON_PATCH, MERGE_PATCH
from tests.kit.bench import NODES, PODS, POOLS, SYSTEM_PODS

Json = dict[str, Any]

NODE = "n1"
BYSTANDER = "kube-proxy"
"""Another DaemonSet of the plugins' namespace."""
_NODE = f"{NODES}/{NODE}"
_TAINT = {"key": "node.example.com/mine", "effect": "NoExecute"}
_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


@dataclass(frozen=True, slots=True)
class Attack:
    """One call; the API server must answer 403 with `refusal` in its sentence."""

    method: str
    path: str
    refusal: str
    body: Any = None
    content_type: str = MERGE_PATCH
    """Of a PATCH."""
    connects: bool = False
    """It can't be tried as a dry run."""


def _merge(refusal: str, *, spec: Json | None = None, **metadata: Any) -> Attack:
    body: Json = {"metadata": metadata} if spec is None else {"metadata": metadata, "spec": spec}
    return Attack("PATCH", _NODE, refusal, body)


def _apply(refusal: str, *, spec: Json | None = None, **metadata: Any) -> Attack:
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, **metadata},
        "spec": spec or {},
    }
    path = f"{_NODE}?fieldManager=gpushare-operator&force=true"
    return Attack("PATCH", path, refusal, body, APPLY)


def _json(refusal: str, *operations: Json) -> Attack:
    return Attack("PATCH", _NODE, refusal, list(operations), JSON_PATCH)


_POD = {"metadata": {"name": "mine"}, "spec": {"containers": [{"name": "c", "image": "mine:1"}]}}
_BINDING = {"metadata": {"name": "tenant"}, "target": {"kind": "Node", "name": NODE}}
_EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "tenant"}}
_OF_NODES, _OF_PODS = "creates, deletes and connects to none", "and does nothing else to pods"
_LABELS, _ANNOTATIONS = "these labels of a Node: ", "these annotations of a Node: "
_OTHER = "may not change of a Node: "
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

NODE_ATTACKS = {
    "a role": _merge(_LABELS + _CONTROL_PLANE, labels={_CONTROL_PLANE: ""}),
    "no host name": _merge(
        _LABELS + "kubernetes.io/hostname", labels={"kubernetes.io/hostname": None}
    ),
    "no labels at all": _merge(_LABELS, labels=None),
    "a label that only looks like ours": _merge(
        _LABELS + "gpushare.io/pools", labels={"gpushare.io/pools": "x"}
    ),
    "another label beside ours": _merge(
        _LABELS + "zone", labels={"gpushare.io/pool": "x", "zone": "y"}
    ),
    "an annotation": _merge(_ANNOTATIONS + "note", annotations={"note": "x"}),
    "no annotations at all": _merge(_ANNOTATIONS, annotations=None),
    "a person's agreement to a teardown": _merge(
        _ANNOTATIONS + "gpushare.io/teardown", annotations={"gpushare.io/teardown": "start"}
    ),
    "a person's wish for another try": _merge(
        _ANNOTATIONS + "gpushare.io/retry", annotations={"gpushare.io/retry": "2"}
    ),
    "a taint": _merge(_OTHER + "taints", spec={"taints": [_TAINT]}),
    "a taint beside the cordon": _merge(
        _OTHER + "taints", spec={"unschedulable": True, "taints": [_TAINT]}
    ),
    "a taint by server-side apply": _apply(_OTHER + "taints", spec={"taints": [_TAINT]}),
    "a label by server-side apply": _apply(_LABELS + "zone", labels={"zone": "y"}),
    "a taint by JSON patch": _json(
        _OTHER + "taints", {"op": "add", "path": "/spec/taints", "value": [_TAINT]}
    ),
    "all labels by JSON patch": _json(
        _LABELS, {"op": "replace", "path": "/metadata/labels", "value": {"cgpu": "true"}}
    ),
    "a range of pods' addresses": _merge(_OTHER + "podCIDR", spec={"podCIDR": "10.9.0.0/24"}),
    "a finalizer": _merge(_OTHER + "finalizers", finalizers=["example.com/mine"]),
    "an owner that is not there": _merge(_OTHER + "ownerReferences", ownerReferences=[_OWNER]),
    "a new node": Attack("POST", NODES, _OF_NODES, {"metadata": {"name": "mine"}}),
    "a new node by server-side apply": Attack(
        "PATCH",
        f"{NODES}/mine?fieldManager=gpushare-operator",
        _OF_NODES,
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}},
        APPLY,
    ),
    "no node": Attack("DELETE", _NODE, _OF_NODES),
    "no nodes at all": Attack("DELETE", NODES, _OF_NODES),
    "a capacity": Attack(
        "PATCH", f"{_NODE}/status", _OF_NODES, {"status": {"capacity": {"aliyun.com/gpu-mem": "9"}}}
    ),
    "the kubelet": Attack("GET", f"{_NODE}/proxy/pods", _OF_NODES, connects=True),
}
POD_ATTACKS = {
    "a tenant's pod": Attack("DELETE", f"{PODS}/tenant", _OF_PODS),
    "all pods": Attack("DELETE", PODS, _OF_PODS),
    "a pod beside the plugins'": Attack("DELETE", f"{SYSTEM_PODS}/alone", _OF_PODS),
    "all pods beside the plugins'": Attack("DELETE", SYSTEM_PODS, _OF_PODS),
    "another DaemonSet's pod": Attack("DELETE", f"{SYSTEM_PODS}/{{{BYSTANDER}}}", _OF_PODS),
    "a pod that calls itself a plugin's": Attack("DELETE", f"{PODS}/{{impostor}}", _OF_PODS),
    "an eviction": Attack("POST", f"{PODS}/tenant/eviction", _OF_PODS, _EVICTION),
    "a pod of one's own": Attack("POST", PODS, _OF_PODS, _POD),
    "another image": Attack(
        "PATCH",
        f"{PODS}/tenant",
        _OF_PODS,
        [{"op": "replace", "path": "/spec/containers/0/image", "value": "mine:1"}],
        JSON_PATCH,
    ),
    "a label of a pod": Attack(
        "PATCH", f"{SYSTEM_PODS}/alone", _OF_PODS, {"metadata": {"labels": {"a": "b"}}}
    ),
    "a command in a pod": Attack("POST", f"{PODS}/tenant/exec?command=id", _OF_PODS, connects=True),
    "a place for a pod": Attack("POST", f"{PODS}/tenant/binding", _OF_PODS, _BINDING),
    "a status": Attack("PATCH", f"{PODS}/tenant/status", _OF_PODS, {"status": {"phase": "Failed"}}),
}
POOL = "victim"
_POOL = f"{POOLS}/{POOL}"
_GPUSHAREPOOL = {"apiVersion": "gpushare.io/v1alpha1", "kind": "GPUSharePool"}
_ALL_NODES = {"selector": {"matchLabels": {"kubernetes.io/os": "linux"}}}
_OF_POOLS, _SPEC, _OF_A_POOL = "creates and deletes no pools", "the spec of a pool", "of a pool: "


def _pool(refusal: str, **change: Any) -> Attack:
    return Attack("PATCH", _POOL, refusal, change)


def _applied_pool(name: str, refusal: str) -> Attack:
    body = {
        **_GPUSHAREPOOL,
        "metadata": {"name": name},
        "spec": {"nodes": _ALL_NODES, "schedule": "cgpu"},
    }
    path = f"{POOLS}/{name}?fieldManager=gpushare-operator&force=true"
    return Attack("PATCH", path, refusal, body, APPLY)


POOL_ATTACKS = {
    "all nodes for a pool": _pool(_SPEC, spec={"nodes": _ALL_NODES}),
    "all nodes for a pool, by server-side apply": _applied_pool(POOL, _SPEC),
    "a pool's mode": _pool(_SPEC, spec={"schedule": "cgpu"}),
    "everything at once": _pool(_SPEC, spec={"rollout": {"maxUnavailable": "100%"}}),
    "a pool's label": _pool(_OF_A_POOL + "labels", metadata={"labels": {"a": "b"}}),
    "a person's wish for a pool": _pool(
        _OF_A_POOL + "annotations", metadata={"annotations": {"gpushare.io/retry": "1"}}
    ),
    "a finalizer that nobody takes off": _pool(
        _OF_A_POOL + "example.com/mine",
        metadata={"finalizers": ["example.com/mine", "gpushare.io/labels"]},
    ),
    "no finalizer of others": _pool(
        _OF_A_POOL + "example.com/theirs", metadata={"finalizers": ["gpushare.io/labels"]}
    ),
    "an owner of a pool": _pool(
        _OF_A_POOL + "ownerReferences", metadata={"ownerReferences": [_OWNER]}
    ),
    "a new pool": Attack(
        "POST",
        POOLS,
        _OF_POOLS,
        {
            **_GPUSHAREPOOL,
            "metadata": {"name": "mine"},
            "spec": {"nodes": _ALL_NODES, "schedule": "cgpu"},
        },
    ),
    "a new pool by server-side apply": _applied_pool("mine", _OF_POOLS),
    "no pool": Attack("DELETE", _POOL, _OF_POOLS),
    "no pools at all": Attack("DELETE", POOLS, _OF_POOLS),
}
ATTACKS = {**NODE_ATTACKS, **POD_ATTACKS, **POOL_ATTACKS}

# With the webhook's token.

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
SECRET = f"{SECRETS}/gpushare-webhook-tls"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CONFIGURATION = f"{CONFIGURATIONS}/gpushare-webhook"
_MINE = "https://mine.example.com/mutate"
_OF_CONFIGURATIONS = "creates and deletes no webhook configuration, and changes none but"
_WEBHOOKS, _METADATA = "and nothing else of it", "nothing of the metadata"
_ENTRY = {
    "name": "mine.example.com",
    "clientConfig": {"url": _MINE},
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
}


def _configure(*operations: Json, refusal: str = _WEBHOOKS) -> Attack:
    return Attack("PATCH", CONFIGURATION, refusal, list(operations), JSON_PATCH)


def _set(path: str, value: Any, *, entry: int = 0) -> Attack:
    return _configure({"op": "add", "path": f"/webhooks/{entry}/{path}", "value": value})


WEBHOOK_ATTACKS = {
    "another server": _set("clientConfig/url", _MINE),
    "another server for the last of them": _set("clientConfig/url", _MINE, entry=2),
    "a service for it": _set("clientConfig", {"service": {"namespace": "default", "name": "mine"}}),
    "another server beside the CA": _configure(
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ""},
        {"op": "add", "path": "/webhooks/0/clientConfig/url", "value": _MINE},
    ),
    "Secrets as well": _set("rules/0/resources", ["pods", "secrets"]),
    "updates as well": _set("rules/0/operations", ["CREATE", "UPDATE"]),
    "every namespace": _set("namespaceSelector", {}),
    "every pod": _set("matchConditions", []),
    "pods by their labels": _set("objectSelector", {"matchLabels": {"a": "b"}}),
    "nobody may go on without it": _set("failurePolicy", "Fail"),
    "calls that last long": _set("timeoutSeconds", 30),
    "another name": _set("name", "mine.example.com"),
    "one more": _configure({"op": "add", "path": "/webhooks/-", "value": _ENTRY}),
    "one more before all others": _configure({"op": "add", "path": "/webhooks/0", "value": _ENTRY}),
    "one fewer": _configure({"op": "remove", "path": "/webhooks/0"}),
    "none": Attack("PATCH", CONFIGURATION, _WEBHOOKS, {"webhooks": []}),
    "another order": _configure({"op": "move", "from": "/webhooks/0", "path": "/webhooks/2"}),
    "another server, by server-side apply": Attack(
        "PATCH",
        f"{CONFIGURATION}?fieldManager=thief&force=true",
        _WEBHOOKS,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "gpushare-webhook"},
            "webhooks": [_ENTRY],
        },
        APPLY,
    ),
    "cert-manager's injector": Attack(
        "PATCH",
        CONFIGURATION,
        _METADATA,
        {"metadata": {"annotations": {"cert-manager.io/inject-ca-from": "default/mine"}}},
    ),
    "an owner": Attack(
        "PATCH", CONFIGURATION, _METADATA, {"metadata": {"ownerReferences": [_OWNER]}}
    ),
    "no configuration": Attack("DELETE", CONFIGURATION, _OF_CONFIGURATIONS),
    "no configurations at all": Attack("DELETE", CONFIGURATIONS, _OF_CONFIGURATIONS),
    "a new configuration": Attack(
        "POST", CONFIGURATIONS, _OF_CONFIGURATIONS, {"metadata": {"name": "mine"}}
    ),
}
_OF_SECRETS, _OF_ITS_SECRET = "no Secret but gpushare-webhook-tls", "the data of its Secret"


def _create_secret(refusal: str, name: str, kind: str, **metadata: Any) -> Attack:
    body = {"metadata": {"name": name, **metadata}, "type": kind}
    if kind == "kubernetes.io/tls":
        body["data"] = {"tls.crt": "", "tls.key": ""}
    return Attack("POST", SECRETS, refusal, body)


_CONTROLLERS = {"kubernetes.io/service-account.name": "gpushare-controller"}
_TOKEN = "kubernetes.io/service-account-token"
SECRET_ATTACKS = {
    "the controller's token, under the name that may be read": _create_secret(
        _OF_SECRETS, "gpushare-webhook-tls", _TOKEN, annotations=_CONTROLLERS
    ),
    "a release for an administrator's Helm": _create_secret(
        _OF_SECRETS, "sh.helm.release.v1.gpushare.v99", "helm.sh/release.v1"
    ),
    "a Secret of another name": _create_secret(_OF_SECRETS, "mine", "kubernetes.io/tls"),
    "a Secret of any name": Attack(
        "POST", SECRETS, _OF_SECRETS, {"metadata": {"generateName": "gpushare-webhook-tls"}}
    ),
    "an owner of a new one": _create_secret(
        _OF_ITS_SECRET, "gpushare-webhook-tls", "kubernetes.io/tls", ownerReferences=[_OWNER]
    ),
    "an owner that has it deleted": Attack(
        "PATCH", SECRET, _OF_ITS_SECRET, {"metadata": {"ownerReferences": [_OWNER]}}
    ),
    "a finalizer of it": Attack(
        "PATCH", SECRET, _OF_ITS_SECRET, {"metadata": {"finalizers": ["example.com/mine"]}}
    ),
    "that nobody may change it": Attack("PATCH", SECRET, _OF_ITS_SECRET, {"immutable": True}),
    "no Secret": Attack("DELETE", SECRET, _OF_SECRETS),
    "no Secrets at all": Attack("DELETE", SECRETS, _OF_SECRETS),
}
