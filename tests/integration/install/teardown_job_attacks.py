"""Ways to make more of a teardown's Job than it is, each with what the API server says of it."""

from typing import Any

from tests.kit.cluster.teardown_jobs import ENTER, TEARDOWN_LABELS, build_teardown_job, pin
from tests.kit.values.manifests import Json

_OTHER = {"name": "other", "image": "other:1"}
_OTHER_SCRIPT = [*ENTER, "/bin/sh", "-c", "id", "gpushare-teardown"]
_EXEC = {"exec": {"command": ["id"]}}
_NO_TOKEN, _PINNED = "automountServiceAccountToken: false", "pinned to one node"


def _containers(*more: Json) -> list[Json]:
    own: list[Json] = build_teardown_job()["spec"]["template"]["spec"]["containers"]
    return [*own, *more]


def _or_any_node() -> Json:
    affinity = pin()
    (selected,) = affinity["nodeAffinity"].values()
    here = {"key": "kubernetes.io/os", "operator": "Exists"}
    selected["nodeSelectorTerms"].append({"matchExpressions": [here]})
    return affinity


_CONTAINER_FIELDS: Json = {
    "env": [{"name": "PATH", "value": "/tmp"}],
    "envFrom": [{"configMapRef": {"name": "c"}}],
    "lifecycle": {"postStart": _EXEC},
    "startupProbe": _EXEC,
    "stdin": True,
    "workingDir": "/proc/1/root",
    "ports": [{"containerPort": 80, "hostPort": 80}],
}
_POD_FIELDS: Json = {
    "initContainers": [_OTHER],
    "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    "hostNetwork": True,
    "nodeName": "n2",
}
_CONTAINERS: dict[str, tuple[Json, str]] = {
    **{name: ({name: it}, f"must not set: {name}") for name, it in _CONTAINER_FIELDS.items()},
    "another image": ({"image": "attacker:1"}, "must be teardown.example.com/shell:v1"),
    "another script": ({"command": _OTHER_SCRIPT}, "must be nsenter"),
    "the image's command": ({"command": None}, "must be nsenter"),
    "one argument more": ({"args": ["uninstall", "sentinel", "x"]}, "The args of"),
    "a verification that leaves the sentinel": (
        {"args": ["verify", "sentinel"]},
        "The args of",
    ),
    "no argument": ({"args": None}, "The args of"),
    "a device": ({"resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}, "only cpu, memory"),
    "no privileges": ({"securityContext": {}}, "privileged: true"),
}
_PODS: dict[str, tuple[Json, str]] = {
    **{name: ({name: it}, f"must not set: spec.{name}") for name, it in _POD_FIELDS.items()},
    "a second container": ({"containers": _containers(_OTHER)}, "must have one container"),
    "no processes of the host": ({"hostPID": False}, "hostPID: true"),
    "a token": ({"automountServiceAccountToken": True}, _NO_TOKEN),
    "a token by default": ({"automountServiceAccountToken": None}, _NO_TOKEN),
    "any node": ({"affinity": None}, _PINNED),
    "all nodes but one": ({"affinity": pin(operator="NotIn")}, _PINNED),
    "one node or any": ({"affinity": _or_any_node()}, _PINNED),
}
_JOBS: dict[str, tuple[Json, str]] = {
    "two at once": ({"parallelism": 2, "completions": 2}, "must have one pod"),
    "one after another": ({"completions": 2}, "must have one pod"),
    "an index": ({"completionMode": "Indexed", "completions": 1}, "NonIndexed"),
    "pods of others": (
        {"manualSelector": True, "selector": {"matchLabels": TEARDOWN_LABELS}},
        "of its own",
    ),
    "begun later": ({"suspend": True}, "begin at once"),
    "endless": ({"activeDeadlineSeconds": None}, "end automatically"),
    "kept for ever": ({"ttlSecondsAfterFinished": None}, "deleted automatically"),
}


def _name(phase: str, job: Json) -> Json:
    metadata = {**job["metadata"], "name": f"gpushare-{phase}-1a2b"}
    return {**job, "metadata": metadata}


_PRIORITY = {"priorityClassName": "system-node-critical"}

POD_ATTACKS = {
    **{name: (build_teardown_job(container=it), said) for name, (it, said) in _CONTAINERS.items()},
    **{name: (build_teardown_job(pod=it), said) for name, (it, said) in _PODS.items()},
}
"""Jobs whose pods are wrong, too."""
ATTACKS = {
    **POD_ATTACKS,
    # Of a pod alone it may be the cluster's default.
    "a priority": (build_teardown_job(pod=_PRIORITY), "must not set priorityClassName"),
    "a removal that is called verification": (
        _name("verify", build_teardown_job("uninstall")),
        "the args of that name",
    ),
    "a verification that is called removal": (
        _name("uninstall", build_teardown_job("verify")),
        "the args of that name",
    ),
    **{name: (build_teardown_job(spec=it), said) for name, (it, said) in _JOBS.items()},
}
MANAGED = build_teardown_job(spec={"managedBy": "example.com/c"})
"""One that the Job controller leaves alone, where the API server knows the field."""


def build_teardown_pod(job: Json, **metadata: Any) -> Json:
    """The pod of a Job, as the Job controller would make it."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": "0c1a7f6e-6f7e-4b0f-9d3c-1f1a7f6e0c1a",
        "controller": True,
    }
    name = {"name": f"{job['metadata']['name']}-x", "namespace": job["metadata"]["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**name, "ownerReferences": [owner], **metadata},
        "spec": job["spec"]["template"]["spec"],
    }
