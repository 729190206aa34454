"""Declares the kept fields of each kind of object."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from gpushare import names
from gpushare.api.k8s.daemonset import CONFIGS_FOLDER, shorten_image
from gpushare.api.k8s.gpu_request import names_card
from gpushare.api.k8s.pod import NO_CARD
from gpushare.api.pruned.keep import Items, Shape, keep_entries, required, texts, time, whole
from gpushare.settings import Variable

GPU_PREFIXES = ("aliyun.com/", "nvidia.com/", *names.OTHER_SCHEDULERS_PREFIXES)


_HOST = ("cpu", "memory")


def _amounts(value: Any) -> dict[str, Any] | None:
    """Keep the quantities of GPU resources, of CPU and of memory."""
    return keep_entries(value, (*GPU_PREFIXES, *_HOST), (str, int, float))


def _hide_source(value: Any) -> dict[str, Any] | None:
    """Keep the kind of a variable's source, such as a Secret, but not the source."""
    sources = keep_entries(value, ("",), object)
    return {kind: {} for kind in sources} if sources else None


def _image_name(value: Any) -> str | None:
    return shorten_image(value) if isinstance(value, str) else None


def _plugin_image(value: Any) -> str | None:
    """Keep only the image of gpushare's plugin, which identifies it under any name."""
    name = _image_name(value)
    return name if name is not None and "gpushare" in name else None


def _card_mounts(value: Any) -> list[dict[str, str]] | None:
    """Keep the paths of the mounts that name cards."""
    mounts = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    return [{"mountPath": each["mountPath"]} for each in mounts if names_card(each)] or None


def _no_card_message(value: Any) -> str | None:
    """Keep only the sign that a container got no card: programs' messages may contain secrets."""
    return NO_CARD if isinstance(value, str) and NO_CARD in value else None


def _last_spec(value: Any) -> str:
    """Keep only the spec of a manifest, without its owner's labels and annotations."""
    try:
        return json.dumps({"spec": orjson.loads(value)["spec"]})
    except (ValueError, TypeError, KeyError):
        return "{}"


_METADATA: Shape = {
    "name": required,
    "uid": required,
    "creationTimestamp": time,
    "deletionTimestamp": time,
    "labels": texts,
}
_NAMESPACED: Shape = {**_METADATA, "namespace": required}
_CONDITION: Shape = {
    "type": required,
    "status": required,
    "reason": str,
    "message": str,
    "lastTransitionTime": time,
}


_NODE_ANNOTATIONS = names.NODE_ANNOTATIONS | {names.ANNOTATION_RETRY, names.ANNOTATION_TEARDOWN}

_NODE: Shape = {
    "metadata": {
        **_METADATA,
        "annotations": dict.fromkeys(
            sorted(_NODE_ANNOTATIONS.union(names.MAINTENANCE_ANNOTATIONS)), str
        ),
        "managedFields": [
            {
                "manager": str,
                "operation": str,
                "subresource": str,
                "time": str,
                "fieldsV1": {
                    "f:metadata": {
                        "f:labels": {f"f:{key}": dict for key in sorted(names.NODE_LABELS)},
                        "f:annotations": {f"f:{key}": dict for key in sorted(_NODE_ANNOTATIONS)},
                    },
                    "f:spec": {"f:unschedulable": dict},
                },
            }
        ],
    },
    "spec": {
        "unschedulable": bool,
        "providerID": str,
        "taints": [{"key": required, "effect": required, "value": str}],
    },
    "status": {
        "allocatable": _amounts,
        "capacity": _amounts,
        "addresses": [{"type": str, "address": str}],
        "conditions": Items(_CONDITION, "type", ("Ready",)),
        "nodeInfo": {
            "bootID": str,
            "containerRuntimeVersion": str,
            "kernelVersion": str,
            "kubeletVersion": str,
            "operatingSystem": str,
            "osImage": str,
            "machineID": str,
        },
    },
}

_REQUIREMENT: Shape = {"key": required, "operator": required, "values": [str]}
_AFFINITY: Shape = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
            ]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": int, "preference": {"matchExpressions": [_REQUIREMENT]}}
        ],
    }
}
_VARIABLE: Shape = {"name": required, "value": str, "valueFrom": _hide_source}
_CONTAINER: Shape = {
    "name": required,
    "image": _plugin_image,
    "restartPolicy": str,
    "env": Items(_VARIABLE, "name", names.GPU_ENVIRONMENT),
    "resources": {"limits": _amounts, "requests": _amounts},
    "securityContext": {"privileged": bool},
    "volumeMounts": _card_mounts,
}
_CLAIM: Shape = {"name": required, "resourceClaimName": str}
_POD: Shape = {
    "metadata": {
        **_NAMESPACED,
        "annotations": {
            names.ANNOTATION_ASSIGNED: str,
            names.ANNOTATION_CARD: str,
            names.ANNOTATION_CARD_UNITS: str,
            names.ANNOTATION_DECISION: str,
            names.ANNOTATION_INJECT: str,
            names.ANNOTATION_ISOLATION: str,
            names.ANNOTATION_POOL: str,
            "kubernetes.io/config.mirror": str,
            "kubernetes.io/config.source": str,
            names.ANNOTATION_ALLOCATION: str,
            **dict.fromkeys((*names.GROUP_ANNOTATIONS, *names.GROUP_SIZES.values()), str),
        },
        "ownerReferences": [
            {"kind": required, "name": required, "uid": required, "controller": bool}
        ],
    },
    "spec": {
        "nodeName": str,
        "nodeSelector": texts,
        "schedulerName": str,
        "runtimeClassName": str,
        "hostIPC": bool,
        "affinity": _AFFINITY,
        "tolerations": [
            {"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}
        ],
        "schedulingGates": [{"name": required}],
        "schedulingGroup": {"podGroupName": str},
        "resourceClaims": [_CLAIM],
        "initContainers": [_CONTAINER],
        "containers": [_CONTAINER],
        "volumes": [{"hostPath": {"path": str}}],
    },
    "status": {
        "phase": str,
        "startTime": time,
        "conditions": Items(_CONDITION, "type", ("PodScheduled", "Ready")),
        "containerStatuses": [
            {
                "name": required,
                "restartCount": int,
                "state": {"waiting": {"reason": str, "message": _no_card_message}},
                "lastState": {
                    "terminated": {"exitCode": int, "reason": str, "message": _no_card_message}
                },
            }
        ],
        "resourceClaimStatuses": [_CLAIM],
        "extendedResourceClaimStatus": {"resourceClaimName": required},
    },
}

_POOL: Shape = {
    "metadata": {
        **_METADATA,
        "generation": int,
        "finalizers": [str],
        "annotations": {names.ANNOTATION_RETRY: str, names.ANNOTATION_LAST_APPLIED: _last_spec},
        "managedFields": [{"manager": str, "operation": str, "fieldsV1": {"f:spec": dict}}],
    },
    # Also what an older CRD stored: the pool is shown as one that can't be read.
    "spec": whole,
    "status": whole,
}

_DAEMONSET: Shape = {
    "metadata": _NAMESPACED,
    "spec": {
        "template": {
            "spec": {
                "priorityClassName": str,
                "nodeSelector": texts,
                "containers": [
                    {
                        "name": str,
                        "image": _image_name,
                        "volumeMounts": Items(
                            {"name": str, "mountPath": str}, "mountPath", (CONFIGS_FOLDER,)
                        ),
                    }
                ],
                "volumes": [{"name": str, "configMap": {"name": str}}],
                "affinity": _AFFINITY,
            }
        }
    },
    "status": {"desiredNumberScheduled": int, "numberReady": int},
}

_OPERATOR: Shape = {"name": required, "env": Items(_VARIABLE, "name", frozenset(Variable))}
_DEPLOYMENT: Shape = {
    "metadata": _NAMESPACED,
    "spec": {"template": {"spec": {"containers": [_OPERATOR]}}},
}

_RESULT: Shape = {"driver": required, "adminAccess": bool}

KEPT: Mapping[str, Shape] = {
    "nodes": _NODE,
    "pods": _POD,
    "pools": _POOL,
    "daemonsets": _DAEMONSET,
    "namespaces": {"metadata": _METADATA},
    "deployments": _DEPLOYMENT,
    "configmaps": {"metadata": _METADATA, "data": {names.UNHEALTHY_KEY: str}},
    "pluginconfigs": {"metadata": _METADATA, "data": texts},
    "resourceslices": {
        "metadata": _METADATA,
        "spec": {"driver": str, "nodeName": str, "devices": [{"name": required}]},
    },
    "resourceclaims": {
        "metadata": _NAMESPACED,
        "status": {"allocation": {"devices": {"results": [_RESULT]}}},
    },
    "poddisruptionbudgets": {
        "metadata": {**_NAMESPACED, "generation": int},
        "spec": {"selector": {"matchLabels": texts, "matchExpressions": [_REQUIREMENT]}},
        "status": {"disruptionsAllowed": int, "observedGeneration": int},
    },
}
"""Kept fields by kind, as in `gpushare.api.pruned.cluster`."""
