"""Builds Jobs of a node's teardown as users would, by the documented contract."""

from collections.abc import Mapping
from typing import Any

from devcluster.installation import TEARDOWN_IMAGE, TEARDOWN_NAMESPACE
from devcluster.startup import PROJECT
from tests.kit.values.manifests import Json

TEARDOWN_JOBS = f"/apis/batch/v1/namespaces/{TEARDOWN_NAMESPACE}/jobs"
TEARDOWN_PODS = f"/api/v1/namespaces/{TEARDOWN_NAMESPACE}/pods"
ENTER = ["nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
COMMAND = [
    *ENTER, "/bin/sh", "-c", (PROJECT / "templates/teardown.sh").read_text(), "gpushare-teardown",
]  # fmt: skip
TEARDOWN_LABELS = {"app.kubernetes.io/component": "isolation-teardown"}
_FINAL = {"operator": "In", "values": [1]}
_SELECTED = "requiredDuringSchedulingIgnoredDuringExecution"


def pin(**requirement: Any) -> Json:
    """Build the affinity that pins a pod to node n1, as for pods of a DaemonSet, or to others."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"], **requirement}
    return {"nodeAffinity": {_SELECTED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}


def build_teardown_job(
    *args: str,
    spec: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
) -> Json:
    """Build a Job for node n1; `spec`, `pod` and `container` override its valid fields."""
    runs = {
        "name": "teardown",
        "image": TEARDOWN_IMAGE,
        "command": COMMAND,
        "args": list(args or ("uninstall",)),
        "securityContext": {"privileged": True, "runAsUser": 0},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **(container or {}),
    }
    template = {
        "hostPID": True,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
        "affinity": pin(),
        "containers": [runs],
        **(pod or {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "teardown-n1",
            "namespace": TEARDOWN_NAMESPACE,
            "labels": TEARDOWN_LABELS,
        },
        "spec": {
            "backoffLimit": 2,
            "activeDeadlineSeconds": 600,
            "ttlSecondsAfterFinished": 7 * 86400,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": _FINAL}]},
            "template": {"metadata": {"labels": TEARDOWN_LABELS}, "spec": template},
            **(spec or {}),
        },
    }
