"""A pod before and after admission: what its owner wrote, what was decided, and what that adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from msgspec.structs import replace

from gpushare import names
from gpushare.api.nodeselection import CHOOSING
from gpushare.api.podrequest import MAX_DECISION
from gpushare.api.podshape import Metadata, PodShape, Spec
from gpushare.core.admission import Decision, PoolView
from gpushare.names import Reason

_WRITTEN = CHOOSING | {names.LABEL_ISOLATION_VERIFIED}


@dataclass(frozen=True, slots=True)
class PastDecision:
    """What the annotation `gpushare.io/decision` says; anybody may have written it."""

    reason: str
    pool: str | None = None
    lost: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By reason, names of pools that did not get the pod."""
    more: int = 0
    """Pools that did not, and for which there was no space."""


def parse_past(pod: PodShape) -> PastDecision | None:
    """What was decided of `pod`; None where nothing that can be read says so."""
    annotations = (pod.metadata and pod.metadata.annotations) or {}
    text = annotations.get(names.ANNOTATION_DECISION, "")
    if not 0 < len(text) <= MAX_DECISION:
        return None
    try:
        said: Any = orjson.loads(text)
        lost = said.get("lost") or {}
        return PastDecision(
            reason=str(said["reason"]),
            pool=str(said["pool"]) if said.get("pool") else None,
            lost={str(why): tuple(map(str, pools)) for why, pools in lost.items()},
            more=int(said.get("more") or 0),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None


def rewind(pod: PodShape, pools: Sequence[PoolView]) -> PodShape:
    """`pod` as its owner wrote it, as far as can be told.

    Our annotation goes, and where that sent the pod to a pool, so does what was written for it:
    whoever selects a pool himself is sent to none. A node goes that the scheduler wrote: it did so
    where the pod holds a card, too.
    """
    metadata, spec = pod.metadata or Metadata(), pod.spec or Spec()
    past = parse_past(pod)
    annotations = dict(metadata.annotations or {})
    annotations.pop(names.ANNOTATION_DECISION, None)
    holds_card = bool(annotations.keys() & {names.ANNOTATION_ALLOCATION, names.ANNOTATION_CARD})
    if past is None or past.reason != Reason.NOT_ROUTED or holds_card:
        spec = replace(spec, node_name=None)
    if past is not None and past.pool is not None:
        selector = {k: v for k, v in (spec.node_selector or {}).items() if k not in _WRITTEN}
        pool = next((pool for pool in pools if pool.name == past.pool), None)
        written = [dict(toleration) for toleration in pool.tolerations] if pool is not None else []
        kept = tuple(t for t in spec.tolerations or () if t not in written)
        spec = replace(spec, node_selector=selector or None, tolerations=kept or None)
    return PodShape(replace(metadata, annotations=annotations or None), spec)


def apply_decision(pod: PodShape, decision: Decision) -> PodShape:
    """`pod` with the node selector and the tolerations that `decision` adds."""
    spec = pod.spec or Spec()
    selector = {**dict(decision.selector), **(spec.node_selector or {})}
    tolerations = list(spec.tolerations or ())
    tolerations += [dict(each) for each in decision.tolerations if each not in tolerations]
    added = replace(spec, node_selector=selector or None, tolerations=tuple(tolerations) or None)
    return PodShape(pod.metadata, added)
