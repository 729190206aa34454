"""Writes labels, records and cordons on Nodes, and releases Nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpushare import names
from gpushare.api.k8s.node import is_our_entry
from gpushare.core.snapshot.actions import ApplyNode, ReleaseNode
from gpushare.kube.client import JSON_PATCH, ApiClient, Json, escape_pointer
from gpushare.kube.errors import ApiError

PATH = "api/v1/nodes"
_ATTEMPTS = 5
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Released:
    """The outcome of releasing a node."""

    node: Json | None = None
    """The current Node; None where it is gone."""
    is_changed: bool = False
    """Whether the node had anything of ours."""


async def apply_node(api: ApiClient, action: ApplyNode) -> Json:
    """Write labels, records and cordon in one server-side apply; return the resulting Node.

    Raises `ApiError`: a conflict where the node changed since it was read, is gone, or was
    replaced by another of the same name.
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
        # An annotation that another manager owns too stays when we give it up.
        patch = [{"op": "test", "path": "/metadata/uid", "value": action.uid}]
        for key in left_over:
            patch += _remove_annotation(key, node["metadata"]["annotations"][key])
        node = await api.patch(f"{PATH}/{action.node}", patch, content_type=JSON_PATCH)
    return node


async def release_node(api: ApiClient, action: ReleaseNode) -> Released:
    """Give up our ownership, keep every label but those of `action.remove`, remove our records.

    The records of the kernel module stay too: the node's next owner needs them.

    One JSON patch removes our own managedFields entry, as "Clearing managedFields" in the
    Kubernetes documentation does for all entries: an apply would remove the labels it gives up.
    """
    previous = version = None
    for attempt in range(_ATTEMPTS):
        try:
            node = await api.get(f"{PATH}/{action.node}")
            previous, version = version, node["metadata"].get("resourceVersion")
            patch = build_release(node, action.uid, action.remove)
            if not patch:
                return Released(node)
            path = f"{PATH}/{action.node}"
            answer = await api.patch(path, patch, content_type=JSON_PATCH)
            return Released(answer, is_changed=True)
        except ApiError as error:
            if error.is_not_found:
                return Released()
            # A test of the patch failed: another writer was faster. If not, the patch is refused.
            gives_up = attempt == _ATTEMPTS - 1 or (previous is not None and previous == version)
            if not (error.is_invalid or error.is_conflict) or gives_up:
                raise
    return Released()


def build_release(node: Json, uid: str, remove: Mapping[str, str] = NOTHING) -> list[Json]:
    """Build the JSON patch that releases `node` and removes the labels `remove`; empty if done.

    A label with another value, or not ours any more, belongs to another manager and stays, except
    the label of verified isolation, which is always ours.
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
        path = f"/metadata/labels/{escape_pointer(key)}"
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
    """Remove an annotation only while it has `value`: another controller's record stays."""
    path = f"/metadata/annotations/{escape_pointer(key)}"
    return [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
