"""Nodes: what we write on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpushare import names
from gpushare.api.k8s.node import is_our_entry
from gpushare.core.snapshot.actions import ApplyNode, ReleaseNode
from gpushare.kube.client import JSON_PATCH, ApiClient, Json
from gpushare.kube.errors import ApiError

PATH = "api/v1/nodes"
_ATTEMPTS = 5
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Released:
    """The outcome of releasing a node."""

    node: Json | None = None
    """As it is now; None where it is gone."""
    is_changed: bool = False
    """There was something to give up."""


async def apply_node(api: ApiClient, action: ApplyNode) -> Json:
    """Write labels, records and cordon in one server-side apply; return the Node as it is then.

    Raises `ApiError`: a conflict where the node changed since it was read, is gone, or another
    of the same name has come.
    """
    body: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": action.node,
            "uid": action.uid,
            "resourceVersion": action.resource_version,
        },
    }
    for key, owned in (("labels", action.labels), ("annotations", action.annotations)):
        # An empty map would make us the owner of the map itself.
        if owned:
            body["metadata"][key] = dict(owned)
    if action.cordon or action.lifts_cordon:
        body["spec"] = {"unschedulable": action.cordon}
    node = await api.apply(f"{PATH}/{action.node}", body)
    present = names.NODE_ANNOTATIONS & node["metadata"].get("annotations", {}).keys()
    if left_over := sorted(present - action.annotations.keys()):
        # An annotation that somebody else wrote too stays when we let go of it.
        patch = [{"op": "test", "path": "/metadata/uid", "value": action.uid}]
        for key in left_over:
            patch += _remove_annotation(key, node["metadata"]["annotations"][key])
        node = await api.patch(f"{PATH}/{action.node}", patch, content_type=JSON_PATCH)
    return node


async def release_node(api: ApiClient, action: ReleaseNode) -> Released:
    """Give up our ownership, keep every label, take our records away.

    What is known of the kernel module stays too: whoever has the node next must know of it.

    One JSON patch on our own managedFields entry ("Clearing managedFields" in the Kubernetes
    documentation is the same for all entries): an apply could only remove what it gives up.
    """
    seen = None
    for attempt in range(_ATTEMPTS):
        try:
            node = await api.get(f"{PATH}/{action.node}")
            version, seen = seen, node["metadata"].get("resourceVersion")
            patch = build_release(node, action.uid, action.remove)
            if not patch:
                return Released(node)
            path = f"{PATH}/{action.node}"
            answer = await api.patch(path, patch, content_type=JSON_PATCH)
            return Released(answer, is_changed=True)
        except ApiError as error:
            if error.is_not_found:
                return Released()
            # A test of the patch failed: somebody wrote meanwhile. If nobody did, it is refused.
            tried = attempt == _ATTEMPTS - 1 or (version is not None and version == seen)
            if not (error.is_invalid or error.is_conflict) or tried:
                raise
    return Released()


def build_release(node: Json, uid: str, remove: Mapping[str, str] = NOTHING) -> list[Json]:
    """Build the JSON patch that releases `node` and removes the labels `remove`; empty if it has.

    A label with another value, or not ours any more, belongs to another manager and stays, except
    the one that says that isolation is verified, which is always ours.
    """
    meta = node["metadata"]
    if meta["uid"] != uid:
        return []
    entries = meta.get("managedFields") or []
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    index = next((i for i, entry in enumerate(entries) if is_our_entry(entry)), None)
    ours = sorted((names.RELEASED_ANNOTATIONS | {names.ANNOTATION_RETRY}) & annotations.keys())
    fields = entries[index].get("fieldsV1") or {} if index is not None else {}
    owned = (fields.get("f:metadata") or {}).get("f:labels") or {}
    may_go = {f"f:{names.LABEL_ISOLATION_VERIFIED}", *owned}
    gone = [k for k, v in sorted(remove.items()) if labels.get(k) == v and f"f:{k}" in may_go]
    if index is None and not ours and not gone:
        return []
    patch: list[Json] = [{"op": "test", "path": "/metadata/uid", "value": uid}]
    for key in gone:
        path = f"/metadata/labels/{_escape(key)}"
        patch.append({"op": "test", "path": path, "value": labels[key]})
        patch.append({"op": "remove", "path": path})
    for key in ours:
        patch += _remove_annotation(key, annotations[key])
    if index is not None:
        path = f"/metadata/managedFields/{index}"
        patch.append({"op": "test", "path": path, "value": entries[index]})
        patch.append({"op": "remove", "path": path})
    return patch


def _remove_annotation(key: str, value: str) -> list[Json]:
    """Remove an annotation only while it says what we read: another controller's record stays."""
    path = f"/metadata/annotations/{_escape(key)}"
    return [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]


def _escape(key: str) -> str:
    """Escape a key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
