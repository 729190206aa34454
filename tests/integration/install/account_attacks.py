"""What somebody who holds a token of ours would try, each with what the API server says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.integration.install.stolen_token import JSON_PATCH, MERGE_PATCH, StolenToken
from tests.kit.bench import NODES, PODS, POOLS, SYSTEM_PODS, TABLES
from tests.kit.cluster.installations import NAME, SECRET, SECRETS
from tests.kit.cluster.pod_admission import CONFIGURATION
from tests.kit.values.manifests import Json, build_empty_table, build_pod, build_pool

POLICIES = (
    *(f"gpushare-controller-{kind}" for kind in ("nodes", "pods", "pools", "tables")),
    *(f"gpushare-webhook-{kind}" for kind in ("configuration", "secrets")),
)
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

    def attempt(self, token: StolenToken, pods: Mapping[str, str]) -> tuple[int, str]:
        """The status of the answer, and what it says; nothing stays. Paths ask for `pods`."""
        path = self.path.format_map(pods) + ("" if self.connects else "?dryRun=All")
        kind = self.content_type if self.method == "PATCH" else "application/json"
        return token.send(self.method, path, self.body, content_type=kind)


def _change(path: str, refusal: str, **body: Any) -> Attack:
    return Attack("PATCH", path, refusal, body)


def _node(refusal: str, **metadata: Any) -> Attack:
    return _change(_NODE, refusal, metadata=metadata)


_EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "tenant"}}
_OF_NODES, _OF_PODS = "may only change Nodes", "may only delete pods of the device plugins"
_LABELS, _ANNOTATIONS = "these labels of a Node: ", "these annotations of a Node: "
_OTHER = "may not change of a Node: "
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

NODE_ATTACKS = {
    "a role": _node(_LABELS + _CONTROL_PLANE, labels={_CONTROL_PLANE: ""}),
    "no labels at all": _node(_LABELS, labels=None),
    "another label beside ours": _node(
        _LABELS + "zone", labels={"gpushare.io/pool": "x", "zone": "y"}
    ),
    "a person's agreement to a teardown": _node(
        _ANNOTATIONS + "gpushare.io/teardown", annotations={"gpushare.io/teardown": "start"}
    ),
    "a person's wish for another try": _node(
        _ANNOTATIONS + "gpushare.io/retry", annotations={"gpushare.io/retry": "2"}
    ),
    "a taint": _change(_NODE, _OTHER + "taints", spec={"taints": [_TAINT]}),
    "an owner that is not there": _node(_OTHER + "ownerReferences", ownerReferences=[_OWNER]),
    "a new node": Attack("POST", NODES, _OF_NODES, {"metadata": {"name": "mine"}}),
    "no node": Attack("DELETE", _NODE, _OF_NODES),
    "a capacity": _change(
        f"{_NODE}/status", _OF_NODES, status={"capacity": {"aliyun.com/gpu-mem": "9"}}
    ),
    "the kubelet": Attack("GET", f"{_NODE}/proxy/pods", _OF_NODES, connects=True),
}
POD_ATTACKS = {
    "a tenant's pod": Attack("DELETE", f"{PODS}/tenant", _OF_PODS),
    "a pod beside the plugins'": Attack("DELETE", f"{SYSTEM_PODS}/alone", _OF_PODS),
    "all pods beside the plugins'": Attack("DELETE", SYSTEM_PODS, _OF_PODS),
    "another DaemonSet's pod": Attack("DELETE", f"{SYSTEM_PODS}/{{{BYSTANDER}}}", _OF_PODS),
    "a pod that calls itself a plugin's": Attack("DELETE", f"{PODS}/{{impostor}}", _OF_PODS),
    "an eviction": Attack("POST", f"{PODS}/tenant/eviction", _OF_PODS, _EVICTION),
    "a pod of one's own": Attack("POST", PODS, _OF_PODS, build_pod("mine", gib=None)),
    "a label of a pod": _change(f"{SYSTEM_PODS}/alone", _OF_PODS, metadata={"labels": {"a": "b"}}),
    "a command in a pod": Attack("POST", f"{PODS}/tenant/exec?command=id", _OF_PODS, connects=True),
}
POOL = "victim"
_POOL = f"{POOLS}/{POOL}"
_MINE, _THEIRS = "example.com/mine", "example.com/theirs"
_ALL_NODES = {"selector": {"matchLabels": {"kubernetes.io/os": "linux"}}}
_OF_POOLS, _SPEC, _OF_A_POOL = (
    "must not create or delete pools",
    "the spec of a pool",
    "of a pool: ",
)


def _pool(refusal: str, **metadata: Any) -> Attack:
    return _change(_POOL, refusal, metadata=metadata)


POOL_ATTACKS = {
    "all nodes for a pool": _change(_POOL, _SPEC, spec={"nodes": _ALL_NODES}),
    "a person's wish for a pool": _pool(
        _OF_A_POOL + "annotations", annotations={"gpushare.io/retry": "1"}
    ),
    "a finalizer that nobody takes off": _pool(
        _OF_A_POOL + _MINE, finalizers=[_THEIRS, _MINE, "gpushare.io/labels"]
    ),
    "no finalizer of others": _pool(_OF_A_POOL + _THEIRS, finalizers=["gpushare.io/labels"]),
    "an owner of a pool": _pool(_OF_A_POOL + "ownerReferences", ownerReferences=[_OWNER]),
    "a new pool": Attack("POST", POOLS, _OF_POOLS, build_pool("mine")),
    "no pool": Attack("DELETE", _POOL, _OF_POOLS),
}
_TABLE = f"{TABLES}/pools"
_OF_TABLES, _OF_A_TABLE = (
    "may only create and change the admission table pools",
    "of the admission table: ",
)
TABLE_ATTACKS = {
    "another table": Attack("POST", TABLES, _OF_TABLES, build_empty_table("mine")),
    "no table": Attack("DELETE", _TABLE, _OF_TABLES),
    "a table that nobody can delete": _change(
        _TABLE, _OF_A_TABLE + "finalizers", metadata={"finalizers": [_MINE]}
    ),
    "an owner of the table": _change(
        _TABLE, _OF_A_TABLE + "ownerReferences", metadata={"ownerReferences": [_OWNER]}
    ),
}

# With the webhook's token.

CONFIGURATIONS = CONFIGURATION.rpartition("/")[0]
_SERVER = "https://mine.example.com/mutate"
_OF_CONFIGURATIONS = "must not create or delete webhook configurations"
_WEBHOOKS, _METADATA = "only the caBundle of each webhook", "must not change the metadata"
_INJECTED = "cert-manager.io/inject-ca-from"
_ENTRY = {
    "name": "mine.example.com",
    "clientConfig": {"url": _SERVER},
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
}


def _configure(*operations: Json) -> Attack:
    return Attack("PATCH", CONFIGURATION, _WEBHOOKS, list(operations), JSON_PATCH)


def _set(path: str, value: Any) -> Attack:
    return _configure({"op": "add", "path": f"/webhooks/0/{path}", "value": value})


WEBHOOK_ATTACKS = {
    "another server": _set("clientConfig/url", _SERVER),
    "another server beside the CA, of another entry": _configure(
        {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": ""},
        {"op": "add", "path": "/webhooks/2/clientConfig/url", "value": _SERVER},
    ),
    "every namespace": _set("namespaceSelector", {}),
    "one more": _configure({"op": "add", "path": "/webhooks/-", "value": _ENTRY}),
    "another order": _configure({"op": "move", "from": "/webhooks/0", "path": "/webhooks/2"}),
    "cert-manager's injector": _change(
        CONFIGURATION, _METADATA, metadata={"annotations": {_INJECTED: "default/mine"}}
    ),
    "no configuration": Attack("DELETE", CONFIGURATION, _OF_CONFIGURATIONS),
    "a new configuration": Attack(
        "POST", CONFIGURATIONS, _OF_CONFIGURATIONS, {"metadata": {"name": "mine"}}
    ),
}
_OF_SECRETS, _OF_ITS_SECRET = "only Secret gpushare-webhook-tls", "the data of its Secret"


def _create_secret(refusal: str, name: str, kind: str, **metadata: Any) -> Attack:
    body = {"metadata": {"name": name, **metadata}, "type": kind}
    if kind == "kubernetes.io/tls":
        body["data"] = {"tls.crt": "", "tls.key": ""}
    return Attack("POST", SECRETS, refusal, body)


SECRET_ATTACKS = {
    "the controller's token, under the name that may be read": _create_secret(
        _OF_SECRETS,
        "gpushare-webhook-tls",
        "kubernetes.io/service-account-token",
        annotations={"kubernetes.io/service-account.name": "gpushare-controller"},
    ),
    "a release for an administrator's Helm": _create_secret(
        _OF_SECRETS, "sh.helm.release.v1.gpushare.v99", "kubernetes.io/tls"
    ),
    "a Secret of any name": Attack(
        "POST", SECRETS, _OF_SECRETS, {"metadata": {"generateName": "gpushare-webhook-tls"}}
    ),
    "an owner of a new one": _create_secret(
        _OF_ITS_SECRET, NAME, "kubernetes.io/tls", ownerReferences=[_OWNER]
    ),
    "a finalizer of it": _change(SECRET, _OF_ITS_SECRET, metadata={"finalizers": [_MINE]}),
    "that nobody may change it": _change(SECRET, _OF_ITS_SECRET, immutable=True),
    "no Secret": Attack("DELETE", SECRET, _OF_SECRETS),
}
_OF_THE_WEBHOOK = {**WEBHOOK_ATTACKS, **SECRET_ATTACKS}

ATTACKS: Mapping[str, Mapping[str, Attack]] = {
    "gpushare-webhook": _OF_THE_WEBHOOK,
    # Its account is the webhook's too where both are one process.
    "gpushare-controller": {
        **NODE_ATTACKS,
        **POD_ATTACKS,
        **POOL_ATTACKS,
        **TABLE_ATTACKS,
        **_OF_THE_WEBHOOK,
    },
}
"""By the account whose token it is."""
