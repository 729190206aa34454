"""Detects other controllers at work on a node, which they cordon or remove.

Such a controller leaves the cordon of a cordoned node alone. So only these signs show that the
cordon is its own by now. Their sources:

- drivers: NVIDIA/k8s-operator-libs, pkg/upgrade/consts.go, also used by NVIDIA's Network Operator
- paused components: NVIDIA/k8s-driver-manager, cmd/driver-manager (maybeSetPaused)
- MIG: NVIDIA/mig-parted, deployments/container/reconfigure-mig.sh
- NVSentinel: NVIDIA/NVSentinel, commons/pkg/statemanager; the label goes with the quarantine
- kured, with annotateNodes: kubereboot/kured, cmd/kured/main.go
- OpenShift: openshift/machine-config-operator, pkg/daemon/constants
- Flatcar: flatcar/flatcar-linux-update-operator, pkg/constants
- medik8s: medik8s/node-maintenance-operator, controllers/taint.go
- Cluster Autoscaler: kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go
- Karpenter: kubernetes-sigs/karpenter, pkg/apis/v1/taints.go; it ends a machine by its finalizer

A controller without such a sign can't be distinguished from a user.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpushare import names
from gpushare.api.k8s.node import Node

_SHOWN = 3
"""Limit of signs in a message."""
_GPU_OPERATOR = "the GPU Operator"
_DRIVER_UPGRADE = "-driver-upgrade-state"
_QUEUED = "upgrade-required"
"""Value of a node that waits for its driver's upgrade, for ever if its label `.skip` is true."""
_DEPLOY = f"{names.NVIDIA_PREFIX}gpu.deploy."


@dataclass(frozen=True, slots=True)
class _Sign:
    """A label, annotation or taint of a controller at work."""

    controller: str
    kind: str
    """kubectl's command for it: label, annotate or taint."""
    key: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}" if self.value else self.key


_IsAtWork = Callable[[str], bool]
_LABELS: dict[str, tuple[str, _IsAtWork]] = {
    "nvidia.com/mig.config.state": (_GPU_OPERATOR, {"pending", "rebooting"}.__contains__),
    names.LABEL_NVSENTINEL_STATE: ("NVSentinel", bool),
}
"""Controllers by label key, each with a function that tells whether a value shows it at work."""
_ANNOTATIONS: dict[str, tuple[str, _IsAtWork]] = {
    names.ANNOTATION_KURED: ("kured", bool),
    names.ANNOTATION_MACHINE_CONFIG: ("the Machine Config Operator", "Working".__eq__),
    names.ANNOTATION_FLATCAR: ("the Flatcar Linux Update Operator", "true".__eq__),
}
_TAINTS = {
    "medik8s.io/drain": "the Node Maintenance Operator",
    "ToBeDeletedByClusterAutoscaler": "Cluster Autoscaler",
    "karpenter.sh/disrupted": "Karpenter",
}


def describe_maintenance(node: Node) -> str:
    """Describe the work of other controllers on the node; empty where there is none."""
    if node.deleting:
        return (
            "The node is being deleted, and its finalizers keep it until then. No change begins or "
            f"goes on. To see who holds it, run `kubectl describe node {node.name}`"
        )
    signs = list(_find_signs(node))
    if not signs:
        return ""
    controllers = list(dict.fromkeys(sign.controller for sign in signs))
    named = " and ".join(controllers)
    shown = ", ".join(map(str, signs[:_SHOWN]))
    kind = signs[0].kind
    removed = " ".join(f"{sign.key}-" for sign in signs if sign.kind == kind)
    return (
        f"{named[0].upper()}{named[1:]} {'is' if len(controllers) == 1 else 'are'} at work on the "
        f"node ({shown}). The change waits until that is over. If it was left by a controller that "
        f"was removed, run `kubectl {kind} node {node.name} {removed}`"
    )


def _find_signs(node: Node) -> Iterator[_Sign]:
    for key, value in sorted(node.labels.items()):
        controller, is_at_work = _LABELS.get(key) or _judge_nvidia(key)
        is_skipped = value == _QUEUED and node.labels.get(f"{key.removesuffix('-state')}.skip")
        if is_at_work is not None and is_at_work(value) and is_skipped != "true":
            yield _Sign(controller, "label", key, value)
    for key, value in sorted(node.maintenance_annotations.items()):
        controller, is_at_work = _ANNOTATIONS[key]
        if is_at_work(value):
            yield _Sign(controller, "annotate", key, value)
    for key in sorted(_TAINTS.keys() & {taint.key for taint in node.taints}):
        yield _Sign(_TAINTS[key], "taint", key)


def _judge_nvidia(key: str) -> tuple[str, _IsAtWork | None]:
    """Name the controller of a label of NVIDIA's, and the check of its value."""
    if key.startswith(_DEPLOY):
        return _GPU_OPERATOR, _is_paused
    if key.startswith(names.NVIDIA_PREFIX) and key.endswith(_DRIVER_UPGRADE):
        is_gpu = key == f"{names.NVIDIA_PREFIX}gpu{_DRIVER_UPGRADE}"
        return _GPU_OPERATOR if is_gpu else "the Network Operator", _is_upgrading
    return "", None


def _is_paused(value: str) -> bool:
    # Also after another value, as in `true_paused-for-driver-upgrade`.
    return "paused-for-" in value


def _is_upgrading(value: str) -> bool:
    return value not in ("", "upgrade-done")
