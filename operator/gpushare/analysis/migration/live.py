"""Turns an object of the API server into a manifest, without what the server writes."""

from collections.abc import Collection
from typing import Any

from gpushare import names

Json = dict[str, Any]
_SERVER_METADATA = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_SERVER_ANNOTATIONS = (
    "batch.kubernetes.io/job-tracking",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    names.ANNOTATION_LAST_APPLIED,
)
_JOB_LABELS = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)
_ENDED = ("Succeeded", "Failed", "Complete", "Completed")


def is_migratable(raw: Json) -> bool:
    """Tell whether a user wrote it and it has not ended: controllers recreate all others."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    if "deletionTimestamp" in metadata:
        return False
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return False
    ended = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    return status.get("phase") not in _ENDED and not ended.intersection(_ENDED)


def build_manifest(raw: Json) -> Json:
    """Build the manifest to replace it with, or to recreate it where it can't be changed."""
    manifest: Json = _without_empty_timestamps(_without(raw, ["status"]))
    labels: Collection[str] = ()
    if raw["kind"] == "Pod":
        manifest["spec"] = _without(manifest["spec"], ["nodeName"])
    is_job = (raw.get("apiVersion"), raw["kind"]) == ("batch/v1", "Job")
    if is_job and not raw["spec"].get("manualSelector"):
        # The API server writes the selector and these labels, with the UID of the Job that was.
        labels = _JOB_LABELS
        template = manifest["spec"]["template"]
        template["metadata"] = _clean(template.get("metadata") or {}, labels)
        manifest["spec"] = _without(manifest["spec"], ["selector"])
    return manifest | {"metadata": _clean(raw["metadata"], labels)}


def _without_empty_timestamps(value: Any) -> Any:
    """Drop the empty creationTimestamp that older API servers give a value's templates."""
    if isinstance(value, list):
        return [_without_empty_timestamps(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_empty_timestamps(each)
        for key, each in value.items()
        if key != "creationTimestamp" or each is not None
    }


def _clean(metadata: Json, labels: Collection[str]) -> Json:
    cleaned = _without(metadata, _SERVER_METADATA)
    for part, keys in (("annotations", _SERVER_ANNOTATIONS), ("labels", labels)):
        kept = _without(cleaned.pop(part, None) or {}, keys)
        if kept:
            cleaned[part] = kept
    return cleaned


def _without(values: Json, keys: Collection[str]) -> Json:
    return {key: value for key, value in values.items() if key not in keys}
