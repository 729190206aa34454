"""Names the workload of a pod, such as its Deployment, CronJob or JobSet."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpushare.workload_kinds import NAME_LABELS

_TEMPLATE_HASH = "pod-template-hash"
_BY_CRONJOB = re.compile(r"(.+)-\d{8}", re.ASCII)
"""Name of a CronJob's Job, which ends in its minute (`getJobName` in kubernetes,
pkg/controller/cronjob)."""

_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}", re.ASCII)
"""Valid name of an owner: the API server accepts any text for its kind and name."""


class Workload(NamedTuple):
    """Kind and name of the object that a user created for pods, in their namespace."""

    kind: str
    name: str


def name_workload(meta: Mapping[str, Any], controller: Mapping[str, Any]) -> Workload:
    """Name a pod's workload by the owner reference of its controller; the pod itself without one.

    A ReplicaSet is traced to its Deployment by the label that the Deployment gives to its pods, a
    CronJob's Job by its name, and the controllers of a kind such as JobSet by the label that names
    it. An owner whose kind or name is not valid is ignored.
    """
    kind, name = controller.get("kind") or "", controller.get("name") or ""
    if not (_KIND.fullmatch(kind) and _NAME.fullmatch(name)):
        return Workload("Pod", meta["name"])
    labels = meta.get("labels") or {}
    for label, named in NAME_LABELS.items():
        if _NAME.fullmatch(labels.get(label) or ""):
            return Workload(named, labels[label])
    template = labels.get(_TEMPLATE_HASH)
    if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
        return Workload("Deployment", name.removesuffix(f"-{template}"))
    if kind == "Job" and (match := _BY_CRONJOB.fullmatch(name)):
        return Workload("CronJob", match[1])
    return Workload(kind, name)
