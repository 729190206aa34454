"""Migrates a pod from whole cards to GPU memory."""

from dataclasses import dataclass
from typing import Any

import msgspec

from gpushare import names
from gpushare.analysis.migration.cards import Cards
from gpushare.analysis.migration.finding import Migrated, MigrationCode, MigrationFinding
from gpushare.analysis.migration.pod_findings import (
    PARTS,
    count_cards,
    find_skip_reasons,
    list_containers,
    note_migration,
    note_sharing,
)
from gpushare.analysis.migration.selection import PREFERRED, Translation
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
from gpushare.api.k8s.resources.quantity import parse_quantity
from gpushare.api.pool import Schedule

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a migration."""

    cards: Cards
    share_gib: int | None = None
    """GiB in place of each card that a pod requests; None for the memory of the whole card."""
    keeps_selectors: bool = False
    """The cluster stays in its edition, whose labels pods select by."""
    unisolated: Schedule = Schedule.CGPU
    """Mode that nodes of the Basic edition with isolation off get."""


class _Preferred(Shape, frozen=True):
    preference: Term | None = None


def migrate_pod(raw: Json, target: Target) -> Migrated:
    """Migrate a pod, or a template of one; returns `raw` itself where nothing changes.

    One that asks for whole cards is migrated as a whole, or left as it is with a finding.
    """
    try:
        shape = _parse(raw)
        request = read_pod_request(shape)
    except MalformedPodError as error:
        return Migrated(raw, (MigrationFinding(MigrationCode.UNREADABLE, str(error)),))
    spec = raw["spec"]
    skip_reasons = tuple(find_skip_reasons(raw, shape))
    if any(count_cards(container) != 0 for container in list_containers(spec)):
        return Migrated(raw, skip_reasons) if skip_reasons else _share(raw, request, target)
    selecting = _select(spec, target, is_to_share=False)
    notes = note_sharing(request) if request.asks_for_share else ()
    changed = raw if selecting.raw == spec else raw | {"spec": selecting.raw}
    return Migrated(changed, (*skip_reasons, *selecting.findings, *notes))


def _parse(raw: Json) -> PodShape:
    shape = parse_pod_shape(raw)
    nodes = (raw["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    try:
        msgspec.convert(nodes.get(PREFERRED), tuple[_Preferred, ...] | None)
    except msgspec.ValidationError as error:
        raise MalformedPodError(f"not a valid pod: {error}") from error
    return shape


def _select(spec: Json, target: Target, *, is_to_share: bool) -> Migrated:
    if target.keeps_selectors:
        return Migrated(spec)
    migrated = Translation(is_to_share, target.unisolated).rewrite(spec)
    if migrated.raw != spec and _read_selection(migrated.raw).contradicts_itself:
        message = "The rewritten nodeSelector and nodeAffinity would contradict each other"
        return Migrated(spec, (MigrationFinding(MigrationCode.SELECTION_UNCLEAR, message),))
    if migrated.raw == spec or not _loses_all_nodes(spec, migrated.raw, target.cards):
        return migrated
    message = (
        "GPU nodes have the labels that the pod selected, and none has the new ones. Use "
        "--keep-selectors until the nodes are migrated"
    )
    missing = MigrationFinding(MigrationCode.NODES_NOT_MIGRATED, message)
    return Migrated(migrated.raw, (missing, *migrated.findings))


def _loses_all_nodes(before: Json, after: Json, cards: Cards) -> bool:
    selections = map(_read_selection, (before, after))
    return [cards.has_node(each) for each in selections] == [True, False]


def _read_selection(spec: Json) -> NodeSelection:
    return read_node_selection(parse_pod_shape({"spec": spec}).spec or Spec())


def _share(raw: Json, request: PodRequest, target: Target) -> Migrated:
    """Migrate a pod whose containers ask for the same number of cards, if for any."""
    selecting = _select(raw["spec"], target, is_to_share=True)
    if left := tuple(each for each in selecting.findings if each.code.is_left):
        return Migrated(raw, left)
    spec = selecting.raw
    selection = _read_selection(spec)
    counts = [count for container in spec["containers"] if (count := count_cards(container))]
    memory = _find_memory(target, selection, len(counts))
    if isinstance(memory, MigrationFinding):
        return Migrated(raw, (memory,))
    containers = [_ask_for_memory(container, memory) for container in spec["containers"]]
    shared = raw | {"spec": spec | {"containers": containers}}
    if counts[0] > 1:
        metadata = raw.get("metadata") or {}
        labels = (metadata.get("labels") or {}) | {names.LABEL_CARD_COUNT: str(counts[0])}
        shared["metadata"] = metadata | {"labels": labels}
    pool = request.pool or selection.labels.get(names.LABEL_POOL, "")
    notes = note_migration(spec, selection, pool, containers=len(counts), cards=counts[0])
    return Migrated(shared, (*selecting.findings, *notes, *note_sharing(request)))


def _find_memory(
    target: Target, selection: NodeSelection, containers: int
) -> int | MigrationFinding:
    """Find the units for each card, which must have those of all `containers` together."""
    cards, share = target.cards, target.share_gib
    memory = cards.find_memory(selection) if share is None else share * cards.per_gib
    largest = cards.find_largest(selection)
    if isinstance(memory, MigrationFinding) or largest is None or memory * containers <= largest:
        return memory
    asked = f"{memory * containers} {cards.unit}"
    if containers > 1:
        asked = f"{asked} for {containers} containers"
    message = f"The largest card that the pod may get has {largest} {cards.unit}, less than {asked}"
    fair = largest // containers // cards.per_gib
    return MigrationFinding(
        MigrationCode.SHARE_TOO_LARGE, f"{message}. Use --share {fair} or less" if fair else message
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
    """Translate whole cards to memory; a number stays a number, and text stays text."""
    if key != names.RESOURCE_WHOLE_GPU or quantity is None:
        return key, quantity
    units = (parse_quantity(quantity) or 0) * memory
    return names.RESOURCE_GPU_MEMORY, str(units) if isinstance(quantity, str) else units
