"""A pod that asks for whole cards, as one that asks for their memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from gpushare import names
from gpushare.api.k8s.node import parse_quantity
from gpushare.api.k8s.node_selection import NodeSelection, read_node_selection
from gpushare.api.k8s.pod_request import PodRequest, read_pod_request
from gpushare.api.k8s.pod_shape import (
    MalformedPodError,
    PodShape,
    Shape,
    Spec,
    Term,
    parse_pod_shape,
)
from gpushare.api.pool import Schedule
from gpushare.core.analysis.migration.cards import Cards
from gpushare.core.analysis.migration.finding import Code, Finding
from gpushare.core.analysis.migration.notes import note_migration, note_sharing
from gpushare.core.analysis.migration.selection import PREFERRED, Translation, avoids_isolation
from gpushare.core.analysis.migration.skip_reasons import (
    PARTS,
    count_cards,
    find_skip_reasons,
    list_containers,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What workloads are to become."""

    cards: Cards
    share_gib: int | None = None
    """For each card that a pod asks for; None: the whole card."""
    keeps_selectors: bool = False
    """The cluster stays in its edition, whose labels pods select by."""
    unisolated: Schedule = Schedule.CGPU
    """What nodes of the Basic edition become whose isolation is off."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """A part of a manifest, and what a person has to know of it."""

    raw: Json
    findings: tuple[Finding, ...] = ()


class _Preferred(Shape, frozen=True):
    preference: Term | None = None


def migrate_pod(raw: Json, target: Target) -> Migrated:
    """A pod, or a template of one; `raw` itself where nothing is to be changed.

    One that asks for whole cards is migrated as a whole, or left as it is with a finding.
    """
    try:
        request = read_pod_request(_parse(raw))
    except MalformedPodError as error:
        return Migrated(raw, (Finding(Code.UNREADABLE, f"left as it is: {error}"),))
    spec = raw["spec"]
    rejections = tuple(find_skip_reasons(raw))
    asks_for_cards = any(count_cards(container) != 0 for container in list_containers(spec))
    if asks_for_cards:
        return Migrated(raw, rejections) if rejections else _share(raw, request, target)
    selecting = _select(spec, target, is_to_share=False)
    notes = note_sharing(request) if request.asks_for_share else ()
    if selecting.raw == spec:
        return Migrated(raw, (*rejections, *selecting.findings, *notes))
    isolation = _note_isolation(spec, target)
    return Migrated(
        raw | {"spec": selecting.raw}, (*rejections, *isolation, *selecting.findings, *notes)
    )


def _parse(raw: Json) -> PodShape:
    shape = parse_pod_shape(raw)
    nodes = (raw["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    try:
        msgspec.convert(nodes.get(PREFERRED), tuple[_Preferred, ...] | None)
    except msgspec.ValidationError as error:
        raise MalformedPodError(f"no pod of the API: {error}") from error
    return shape


def _select(spec: Json, target: Target, *, is_to_share: bool) -> Migrated:
    if target.keeps_selectors:
        return Migrated(spec)
    found, findings = Translation(is_to_share, target.unisolated).rewrite(spec)
    if found != spec and _read_selection(found).contradicts_itself:
        message = "its nodeSelector and nodeAffinity, rewritten, would contradict each other"
        return Migrated(spec, (*findings, Finding(Code.SELECTION_UNCLEAR, message)))
    return Migrated(found, findings)


def _read_selection(spec: Json) -> NodeSelection:
    return read_node_selection(parse_pod_shape({"spec": spec}).spec or Spec())


def _share(raw: Json, request: PodRequest, target: Target) -> Migrated:
    """Of a pod without obstacles, whose containers ask for the same number of cards, if for any."""
    selecting = _select(raw["spec"], target, is_to_share=True)
    if selecting.findings:
        return Migrated(raw, selecting.findings)
    spec = selecting.raw
    selection = _read_selection(spec)
    memory = _find_memory(target, selection)
    if isinstance(memory, Finding):
        return Migrated(raw, (memory,))
    counts = [count for container in spec["containers"] if (count := count_cards(container))]
    if (crowd := _find_crowd(target, selection, memory, len(counts))) is not None:
        return Migrated(raw, (crowd,))
    containers = [_ask_for_memory(container, memory) for container in spec["containers"]]
    shared = raw | {"spec": spec | {"containers": containers}}
    if counts[0] > 1:
        shared = _label(shared, names.LABEL_CARD_COUNT, str(counts[0]))
    pool = request.pool or selection.labels.get(names.LABEL_POOL, "")
    notes: Iterable[Finding] = note_migration(
        spec, selection, pool, containers=len(counts), cards=counts[0]
    )
    isolation = _note_isolation(raw["spec"], target)
    return Migrated(shared, (*isolation, *notes, *note_sharing(request)))


def _note_isolation(spec: Json, target: Target) -> Iterator[Finding]:
    """Of a pod whose selection is rewritten."""
    begins = target.unisolated is Schedule.CGPU and not target.keeps_selectors
    if begins and avoids_isolation(spec):
        yield Finding(
            Code.ISOLATION_BEGINS,
            "it selects nodes whose isolation is off "
            f"({names.LABEL_CGPU_DISABLE_ISOLATION}=true), which the vendor's migration makes "
            "cgpu; where yours become share, say so by --unisolated share",
        )


def _find_memory(target: Target, selection: NodeSelection) -> int | Finding:
    """Units for each card."""
    cards = target.cards
    if target.share_gib is None:
        return cards.find_memory(selection)
    share = target.share_gib * cards.per_gib
    largest = cards.find_largest(selection)
    if largest is not None and share > largest:
        return Finding(
            Code.SHARE_TOO_LARGE,
            f"{share} {cards.unit} is more than any card has that it may get ({largest})",
        )
    return share


def _find_crowd(
    target: Target, selection: NodeSelection, memory: int, containers: int
) -> Finding | None:
    """A card is looked for that holds what all containers ask of one."""
    largest = target.cards.find_largest(selection)
    if largest is None or memory * containers <= largest:
        return None
    unit, fair = target.cards.unit, largest // containers // target.cards.per_gib
    return Finding(
        Code.SHARE_TOO_LARGE,
        f"{containers} of its containers would ask for {memory} {unit} each, and all of it is to "
        f"be on one card, which has {largest}"
        + (f"; --share {fair} and less fits" if fair else ""),
    )


def _ask_for_memory(container: Json, memory: int) -> Json:
    if not count_cards(container):
        return container
    resources = dict(container["resources"])
    for part in PARTS:
        asked = resources.get(part) or {}
        if names.RESOURCE_WHOLE_GPU in asked:
            resources[part] = dict(_translate(key, value, memory) for key, value in asked.items())
    return container | {"resources": resources}


def _translate(key: str, quantity: Any, memory: int) -> tuple[str, Any]:
    """A number stays one, and so does text."""
    if key != names.RESOURCE_WHOLE_GPU or quantity is None:
        return key, quantity
    units = (parse_quantity(quantity) or 0) * memory
    return names.RESOURCE_GPU_MEMORY, str(units) if isinstance(quantity, str) else units


def _label(raw: Json, key: str, value: str) -> Json:
    metadata = raw.get("metadata") or {}
    labels = metadata.get("labels") or {}
    return raw | {"metadata": metadata | {"labels": labels | {key: value}}}
