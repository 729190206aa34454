"""Names the workload of a pod: its Deployment, its Job, or whatever a user created."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_TEMPLATE_HASH = "pod-template-hash"
_BY_CRONJOB = re.compile(r"(.+)-\d{8}", re.ASCII)
"""A CronJob names its Jobs by the minute that each is for (`getJobName` in kubernetes,
pkg/controller/cronjob)."""

_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}", re.ASCII)
"""The API server takes any text for the kind and the name of an owner, of any length."""


class Workload(NamedTuple):
    """An application: what a user created, in the namespace of its pods."""

    kind: str
    name: str


def name_workload(meta: Mapping[str, Any], controller: Mapping[str, Any]) -> Workload:
    """Name a pod's workload by the owner reference of its controller; the pod itself without one.

    A ReplicaSet is traced to its Deployment by the label that the Deployment gives to its pods, a
    CronJob's Job by its name. An owner whose kind or name is not valid is ignored.
    """
    kind, name = controller.get("kind") or "", controller.get("name") or ""
    if not (_KIND.fullmatch(kind) and _NAME.fullmatch(name)):
        return Workload("Pod", meta["name"])
    template = (meta.get("labels") or {}).get(_TEMPLATE_HASH)
    if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
        return Workload("Deployment", name.removesuffix(f"-{template}"))
    if kind == "Job" and (found := _BY_CRONJOB.fullmatch(name)):
        return Workload("CronJob", found[1])
    return Workload(kind, name)
