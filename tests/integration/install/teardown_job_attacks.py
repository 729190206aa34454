"""Ways to make more of a teardown's Job than it is, each with what the API server says of it."""

from typing import Any

from tests.kit.cluster.teardown_jobs import COMMAND, ENTER, TEARDOWN_LABELS, build_teardown_job, pin

Json = dict[str, Any]

_OTHER = {"name": "other", "image": "other:1"}
_HOST = {"name": "host", "hostPath": {"path": "/"}}
_EXEC = {"exec": {"command": ["id"]}}
_MEMORY = {"emptyDir": {"medium": "Memory"}, "name": "memory"}


def _containers(*more: Json) -> list[Json]:
    own: list[Json] = build_teardown_job()["spec"]["template"]["spec"]["containers"]
    return [*own, *more]


def _or_any_node() -> Json:
    affinity = pin()
    (selected,) = affinity["nodeAffinity"].values()
    here = {"key": "kubernetes.io/os", "operator": "Exists"}
    selected["nodeSelectorTerms"].append({"matchExpressions": [here]})
    return affinity


_CONTAINERS: dict[str, tuple[Json, str]] = {
    "another image": ({"image": "attacker:1"}, "image is teardown.example.com/shell:v1"),
    "another command": ({"command": ["/bin/sh"]}, "command is nsenter"),
    "another script": (
        {"command": [*ENTER, "/bin/sh", "-c", "id", "gpushare-teardown"]},
        "command is nsenter with the script of this release",
    ),
    "a longer command": ({"command": [*COMMAND, "x"]}, "command is nsenter"),
    "the image's command": ({"command": None}, "command is nsenter"),
    "another argument": ({"args": ["reboot"]}, "args are"),
    "one argument more": ({"args": ["uninstall", "sentinel", "x"]}, "args are"),
    "a verification that leaves the sentinel": ({"args": ["verify", "sentinel"]}, "args are"),
    "no argument": ({"args": None}, "args are"),
    "a variable": ({"env": [{"name": "PATH", "value": "/tmp"}]}, "no use for: env"),
    "variables from elsewhere": (
        {"envFrom": [{"configMapRef": {"name": "c"}}]},
        "no use for: envFrom",
    ),
    "a hook": ({"lifecycle": {"postStart": _EXEC}}, "no use for: lifecycle"),
    "a probe": ({"startupProbe": _EXEC}, "no use for: startupProbe"),
    "a terminal": ({"stdin": True}, "no use for: stdin"),
    "a working directory": ({"workingDir": "/proc/1/root"}, "no use for: workingDir"),
    "a port of the host": (
        {"ports": [{"containerPort": 80, "hostPort": 80}]},
        "no use for: ports",
    ),
    "a device": ({"resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}, "asks for cpu, memory"),
    "no privileges": ({"securityContext": {}}, "privileged: true"),
}
_PODS: dict[str, tuple[Json, str]] = {
    "a second container": ({"containers": _containers(_OTHER)}, "has one container"),
    "an init container": ({"initContainers": [_OTHER]}, "no use for: spec.initContainers"),
    "a path of the host": ({"volumes": [_HOST]}, "no use for: spec.volumes"),
    "any volume": ({"volumes": [_MEMORY]}, "no use for: spec.volumes"),
    "the host's network": ({"hostNetwork": True}, "no use for: spec.hostNetwork"),
    "no processes of the host": ({"hostPID": False}, "hostPID: true"),
    "a token": ({"automountServiceAccountToken": True}, "automountServiceAccountToken: false"),
    "a token by default": (
        {"automountServiceAccountToken": None},
        "automountServiceAccountToken: false",
    ),
    "any node": ({"affinity": None}, "pinned to one node"),
    "all nodes but one": ({"affinity": pin(operator="NotIn")}, "pinned to one node"),
    "one node or any": ({"affinity": _or_any_node()}, "pinned to one node"),
    "a node by name": ({"nodeName": "n2"}, "no use for: spec.nodeName"),
}
_JOBS: dict[str, tuple[Json, str]] = {
    "two at once": ({"parallelism": 2, "completions": 2}, "has one pod"),
    "one after another": ({"completions": 2}, "has one pod"),
    "an index": ({"completionMode": "Indexed", "completions": 1}, "NonIndexed"),
    "pods of others": (
        {"manualSelector": True, "selector": {"matchLabels": TEARDOWN_LABELS}},
        "of its own",
    ),
    "begun later": ({"suspend": True}, "begins at once"),
    "endless": ({"activeDeadlineSeconds": None}, "ends by itself"),
    "kept for ever": ({"ttlSecondsAfterFinished": None}, "goes by itself"),
}

POD_ATTACKS = {
    **{name: (build_teardown_job(container=it), said) for name, (it, said) in _CONTAINERS.items()},
    **{name: (build_teardown_job(pod=it), said) for name, (it, said) in _PODS.items()},
}
"""Jobs whose pods are wrong, too."""
ATTACKS = {
    **POD_ATTACKS,
    # Of a pod alone it may be the cluster's default.
    "a priority": (
        build_teardown_job(pod={"priorityClassName": "system-node-critical"}),
        "asks for no priority",
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
