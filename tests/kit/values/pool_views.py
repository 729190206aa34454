"""Builds pools for admission, and applies decisions to pods."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.api.pool import Edition, Schedule
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import Rules
from gpushare.core.capacity.room import Room

Json = dict[str, Any]
HERE = Namespace("default")
CARD = 16
"""Units of GPU memory of each card in `a_room`."""


def a_view(name: str = "training", schedule: str = "cgpu", **more: Any) -> PoolView:
    """Build a pool of the Professional edition, by default with one node and room for any pod."""
    edition = Edition(more.pop("edition", "Professional"))
    defaults: Json = {"nodes": 1, "room": a_room([(CARD, 8)])}
    return PoolView(name, Schedule(schedule), edition=edition, **(defaults | more))


def a_labelled_view(name: str, *combinations: Mapping[str, str], **more: Any) -> PoolView:
    """Build a pool whose nodes have these combinations of labels, without autoscaling."""
    keys = {key for each in combinations for key in each} | set(more.pop("keys", ()))
    defaults: Json = {"published_keys": tuple(sorted(keys)), "is_open": False}
    return a_view(name, combinations=combinations, **(defaults | more))


def a_room(free: Sequence[tuple[int, int]], *, cards: int = 8, pending: int = 0) -> Room:
    """Build the room on `cards` cards of `CARD` units; `free` are (units, number of cards)."""
    return Room(tuple(free), pending, total=cards * CARD, largest_card=CARD)


def admit(
    pod: Mapping[str, Any],
    *pools: PoolView,
    namespace: Namespace = HERE,
    rules: Rules | None = None,
    reserved: Mapping[str, int] | None = None,
) -> AdmissionDecision:
    return decide(parse_pod_request(pod), namespace, pools, rules or Rules(), reserved or {})


def apply_decision(pod: Json, decision: AdmissionDecision) -> Json:
    """Return the pod after the decision's patch."""
    written = deepcopy(pod)
    spec, metadata = written["spec"], written["metadata"]
    if decision.selector:
        spec["nodeSelector"] = {**dict(decision.selector), **(spec.get("nodeSelector") or {})}
    tolerations = spec.get("tolerations") or []
    if missing := [dict(each) for each in decision.tolerations if each not in tolerations]:
        spec["tolerations"] = [*tolerations, *missing]
    if decision.annotation:
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = {**annotations, names.ANNOTATION_DECISION: decision.annotation}
    return written
