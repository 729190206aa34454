"""Restores a pod as its owner wrote it, and adds to a pod what admission decides."""

from collections.abc import Sequence

from msgspec.structs import replace

from gpushare import names
from gpushare.api.decision_annotation import parse_past_decision
from gpushare.api.k8s.node_selection import FOLLOWING
from gpushare.api.k8s.pod_shape import Metadata, PodShape, Spec
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.pool_view import PoolView
from gpushare.editions.registry import EDITIONS
from gpushare.names import Reason


def rewind(pod: PodShape, pools: Sequence[PoolView]) -> PodShape:
    """Return `pod` as its owner wrote it, as far as that is known.

    Our annotation goes, and where that sent the pod to a pool, so does what was written for it:
    whoever selects a pool himself is sent to none. A node goes that the scheduler wrote: it did so
    where the pod holds a card, too.
    """
    metadata, spec = pod.metadata or Metadata(), pod.spec or Spec()
    annotations = dict(metadata.annotations or {})
    past = parse_past_decision(annotations)
    annotations.pop(names.ANNOTATION_DECISION, None)
    holds_card = any(each.card_annotation in annotations for each in EDITIONS.values())
    if past is None or past.reason != Reason.NOT_ROUTED or holds_card:
        spec = replace(spec, node_name=None)
    if past is not None and past.pool is not None:
        selector = {k: v for k, v in (spec.node_selector or {}).items() if k not in FOLLOWING}
        pool = next((pool for pool in pools if pool.name == past.pool), None)
        written = [dict(toleration) for toleration in pool.tolerations] if pool is not None else []
        kept = tuple(t for t in spec.tolerations or () if t not in written)
        spec = replace(spec, node_selector=selector or None, tolerations=kept or None)
    return PodShape(replace(metadata, annotations=annotations or None), spec)


def apply_decision(pod: PodShape, decision: AdmissionDecision) -> PodShape:
    """Return `pod` with the node selector and the tolerations that `decision` adds."""
    spec = pod.spec or Spec()
    selector = {**dict(decision.selector), **(spec.node_selector or {})}
    tolerations = list(spec.tolerations or ())
    tolerations += [dict(each) for each in decision.tolerations if each not in tolerations]
    added = replace(spec, node_selector=selector or None, tolerations=tuple(tolerations) or None)
    return PodShape(pod.metadata, added)
