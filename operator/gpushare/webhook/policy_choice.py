"""Takes back what the API server's own policy wrote into a pod, so that the webhook decides anew.

The policy `gpushare-pools` runs before any webhook and chooses without knowledge of free memory.
What it adds stands in the pod's annotation `gpushare.io/decision`, which anybody can write. The
pod's managedFields tell of whom it is: before admission the API server enters there all that the
pod's author sent, and nothing that admission adds (`createHandler`, k8s.io/apiserver).
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from gpushare import names
from gpushare.api.decision_annotation import MAX_DECISION
from gpushare.api.k8s.node_selection import FOLLOWING
from gpushare.api.k8s.pod_shape import Metadata, PodShape
from gpushare.core.admission.pool_view import PoolView
from gpushare.kube.client import escape_pointer
from gpushare.names import Reason
from gpushare.webhook.patch import Operation


class _Added(msgspec.Struct, rename="camel"):
    node_selector: tuple[str, ...]
    """Keys."""
    tolerations: tuple[int, int]
    """Index of the first, and their number."""


class _Choice(msgspec.Struct):
    reason: str
    pool: str
    added: _Added


class TakenBack(NamedTuple):
    """A pod without what the policy added, and the patch that makes it so."""

    pod: PodShape
    patch: list[Operation]


_decode = msgspec.json.Decoder(_Choice).decode


def take_back(pod: PodShape, pools: Collection[PoolView]) -> TakenBack:
    """Take from `pod` what the policy added by its own account; nothing where it was not there, or
    where the pod's author wrote that account: it could name what other admission has added.

    Only labels by which pods select a pool are taken, and tolerations that the pool gives: nobody
    loses more by an annotation than the policy could have added.
    """
    metadata, spec = pod.metadata, pod.spec
    annotations = (metadata and metadata.annotations) or {}
    choice = _read_choice(annotations.get(names.ANNOTATION_DECISION, ""))
    if choice is None or metadata is None or spec is None or _is_of_author(metadata):
        return TakenBack(pod, [])
    selector, tolerations = spec.node_selector or {}, spec.tolerations or ()
    keys = [key for key in selector if key in choice.added.node_selector and key in FOLLOWING]
    if selector.get(names.LABEL_POOL, choice.pool) != choice.pool:
        keys = []
    given = next((pool.tolerations for pool in pools if pool.name == choice.pool), ())
    start, number = choice.added.tolerations
    # From the end, so that a removal does not move those that follow.
    added = reversed(range(max(start, 0), min(start + number, len(tolerations))))
    indices = [index for index in added if tolerations[index] in given]
    patch = [
        *_remove("/spec/nodeSelector", keys, len(selector)),
        *_remove("/spec/tolerations", [*map(str, indices)], len(tolerations)),
        *_remove("/metadata/annotations", [names.ANNOTATION_DECISION], len(annotations)),
    ]
    left = {key: value for key, value in selector.items() if key not in keys}
    kept = tuple(each for index, each in enumerate(tolerations) if index not in indices)
    others = {k: value for k, value in annotations.items() if k != names.ANNOTATION_DECISION}
    return TakenBack(
        replace(
            pod,
            metadata=replace(metadata, annotations=others or None),
            spec=replace(spec, node_selector=left or None, tolerations=kept or None),
        ),
        patch,
    )


def _is_of_author(metadata: Metadata) -> bool:
    """Whether the pod's author may have written the decision."""
    entries = metadata.managed_fields
    return not entries or any(names.ANNOTATION_DECISION in str(each.fields_v1) for each in entries)


def _read_choice(text: str) -> _Choice | None:
    if Reason.ROUTED_BY_POLICY not in text or len(text) > MAX_DECISION:
        return None
    try:
        choice = _decode(text)
    except msgspec.DecodeError:
        return None
    return choice if choice.reason == Reason.ROUTED_BY_POLICY else None


def _remove(path: str, entries: Sequence[str], total: int) -> Iterator[dict[str, Any]]:
    """Remove entries; the parent too where none stays, since it was absent without them."""
    if entries and len(entries) == total:
        yield {"op": "remove", "path": path}
        return
    for entry in entries:
        yield {"op": "remove", "path": f"{path}/{escape_pointer(entry)}"}
