"""An object of the API server as a manifest: without what the server writes."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpushare import names

Json = dict[str, Any]
_SERVER_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_SERVER_ANNOTATIONS = frozenset(
    {
        "batch.kubernetes.io/job-tracking",
        "deployment.kubernetes.io/revision",
        "deprecated.daemonset.template.generation",
        names.ANNOTATION_LAST_APPLIED,
    }
)
_JOB_LABELS = frozenset(
    {
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "controller-uid",
        "job-name",
    }
)
_ENDED = ("Succeeded", "Failed", "Complete")


def is_migratable(raw: Json) -> bool:
    """Whether it is what a person wrote, and not ended: others are made of those anew."""
    owners = raw["metadata"].get("ownerReferences") or ()
    if any(owner.get("controller") for owner in owners):
        return False
    if "deletionTimestamp" in raw["metadata"]:
        return False
    status = raw.get("status") or {}
    ended = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    is_job = raw.get("kind") == "Job"
    return status.get("phase") not in _ENDED and not (is_job and ended.intersection(_ENDED))


def build_manifest(raw: Json) -> Json:
    """The manifest by which it could be replaced, or created anew where it can't be changed."""
    manifest: Json = _without_empty_timestamps(_without(raw, ["status"]))
    manifest["metadata"] = _clean(raw["metadata"])
    spec = manifest.get("spec")
    if raw.get("kind") == "Pod" and isinstance(spec, dict):
        manifest["spec"] = _without(spec, ["nodeName"])
    if raw.get("kind") == "Job" and isinstance(spec, dict) and not spec.get("manualSelector"):
        # The API server writes both, with the UID of the Job that was.
        template = dict(spec["template"])
        template["metadata"] = _clean(template.get("metadata") or {}, _JOB_LABELS)
        manifest["metadata"] = _clean(raw["metadata"], _JOB_LABELS)
        manifest["spec"] = _without(spec, ["selector"]) | {"template": template}
    return manifest


def _without_empty_timestamps(value: Any) -> Any:
    """The value without the empty creationTimestamp that older API servers give its templates."""
    if isinstance(value, list):
        return [_without_empty_timestamps(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_empty_timestamps(each)
        for key, each in value.items()
        if key != "creationTimestamp" or each is not None
    }


def _clean(metadata: Json, labels: Iterable[str] = ()) -> Json:
    cleaned = _without(metadata, _SERVER_METADATA)
    for part, keys in (("annotations", _SERVER_ANNOTATIONS), ("labels", labels)):
        kept = _without(cleaned.pop(part, None) or {}, keys)
        if kept:
            cleaned[part] = kept
    return cleaned


def _without(values: Mapping[str, Any], keys: Iterable[str]) -> Json:
    dropped = frozenset(keys)
    return {key: value for key, value in values.items() if key not in dropped}
