"""The pods that a workload will create, told from its template."""

from collections.abc import Mapping
from typing import Any

from gpushare import names
from gpushare.webhook.codec import MalformedReviewError

_DAEMONSETS = "apps/v1/daemonsets"
_PATH = ("spec", "template")
_PATHS = {
    "apps/v1/deployments": _PATH,
    "apps/v1/statefulsets": _PATH,
    _DAEMONSETS: _PATH,
    "batch/v1/jobs": _PATH,
    "batch/v1/cronjobs": ("spec", "jobTemplate", *_PATH),
}


def find_template(resource: str, workload: Mapping[str, Any]) -> dict[str, Any] | None:
    """The JSON of a pod as `workload` will create it; None for what is no workload.

    Its pods are known by more than the template: a DaemonSet owns them and chooses their nodes, and
    Kueue holds back those of a workload (or of a CronJob's Job) that carries its labels. Raises
    `MalformedReviewError` where there is no template.
    """
    path = _PATHS.get(resource)
    if path is None:
        return None
    queued: dict[str, Any] = {}
    found: Any = workload
    for key in path:
        labels = _labels(found).items()
        queued |= {name: v for name, v in labels if name.startswith(names.KUEUE_PREFIX)}
        found = found.get(key)
        if not isinstance(found, dict):
            raise MalformedReviewError(f"the workload has no {'.'.join(path)}")
    metadata = dict(_mapping(found.get("metadata")))
    metadata["labels"] = queued | _labels(found)
    if resource == _DAEMONSETS:
        metadata["ownerReferences"] = [{"kind": "DaemonSet", "controller": True}]
    return {**found, "metadata": metadata}


def _labels(owner: Mapping[str, Any]) -> dict[str, Any]:
    return _mapping(_mapping(owner.get("metadata")).get("labels"))


def _mapping(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedReviewError(
            f"expected an object in the metadata, not {type(value).__name__}"
        )
    return value
