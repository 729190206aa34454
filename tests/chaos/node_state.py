"""What the watcher sees of nodes and pods, and which of it is the operator's.

The keys are written down here a second time, so that a key that the operator should not write is
found even if its own list of keys names it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tests.kit.values.manifests import Json

MANAGER = "gpushare-operator"
POOL = "gpushare.io/pool"
VERIFIED = "gpushare.io/isolation-verified"
EDITION_LABELS = {
    "Professional": frozenset({"ack.node.gpu.schedule", "ack.node.gpu.placement"}),
    "Basic": frozenset({"cgpu", "cgpu.disable.isolation"}),
    "OpenSource": frozenset({"gpushare"}),
    "NVIDIA": frozenset({"nvidia.com/device-plugin.config"}),
}
_RECORDS = ("initial-values", "change", "applied", "drift", "module", "mode-unknown", "restarts")
RECORDS = frozenset(f"gpushare.io/{name}" for name in _RECORDS)
NVIDIAS = "nvidia-device-plugin"
PLUGINS = {
    "kube-system": {
        "ack-nvidia-device-plugin",
        "gpushare-core-device-plugin-ds",
        "gpushare-device-plugin-ds",
        "gpushare-mps-device-plugin-ds",
        "gputopo-device-plugin-ds",
    },
    NVIDIAS: {
        "nvdp-nvidia-device-plugin",
        "nvdp-nvidia-device-plugin-gpu-feature-discovery",
        "nvdp-nvidia-device-plugin-mps-control-daemon",
    },
}
"""By namespace, DaemonSets whose pods may be deleted."""


@dataclass(frozen=True, slots=True)
class ChangeSeen:
    """The change under way on a node, by its record."""

    from_mode: str
    to: str
    since: str
    initializing: bool = False
    restarted_again: bool = False
    """Its plugin came back without its resource, and is restarted once more."""

    @property
    def key(self) -> tuple[str, ...]:
        """What tells one change of a node from another, and the one more restart from the first."""
        return self.from_mode, self.to, self.since, "restartedAgain" if self.restarted_again else ""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    name: str
    revision: int
    """Of the whole cluster's store: states of any two objects have an order."""
    pools: frozenset[str] = frozenset()
    """Pools that it carries something of."""
    change: ChangeSeen | None = None
    """Only what is under way: one that gave way and waits is none."""
    ready: bool = True
    cordoned: bool = False
    cordoned_by_us: bool = False
    strange_fields: tuple[str, ...] = ()
    """Owned by our field manager, and not ours to write."""

    @property
    def takes_capacity(self) -> bool:
        """Out of service; a node that joins never was in service."""
        if self.change is not None:
            return not self.change.initializing
        return self.cordoned or not self.ready


@dataclass(frozen=True, slots=True)
class PodSeen:
    namespace: str
    name: str
    uid: str
    revision: int
    node: str = ""
    daemonset: str = ""
    leaving: bool = False
    """It has a time of deletion, or is gone."""

    @property
    def is_plugin(self) -> bool:
        return self.daemonset in PLUGINS.get(self.namespace, ())

    @property
    def component(self) -> str:
        """Which part of NVIDIA's plugin, where one change restarts each; any other is one part."""
        return self.daemonset if self.namespace == NVIDIAS else ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A call of the operator's that took a pod away, by the audit log."""

    namespace: str
    name: str
    evicted: bool = False


def parse_node(raw: Json) -> NodeSeen:
    """A Node as the API server sends it. A record that is no JSON object counts as none."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    notes = meta.get("annotations") or {}
    change, applied = (_parse_record(notes, key) for key in ("change", "applied"))
    pools = {(meta.get("labels") or {}).get(POOL), change.get("pool"), applied.get("pool")}
    owned = list(_find_owned(meta))
    editions = {record["edition"] for record in (change, applied) if "edition" in record}
    return NodeSeen(
        name=meta["name"],
        revision=int(meta["resourceVersion"]),
        pools=frozenset(pool for pool in pools if pool),
        change=_parse_change(change),
        ready=any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in (raw.get("status") or {}).get("conditions") or ()
        ),
        cordoned=bool(spec.get("unschedulable")),
        cordoned_by_us="f:spec f:unschedulable" in owned,
        strange_fields=tuple(sorted({*owned} - _build_allowed(editions))),
    )


def parse_pod(raw: Json, *, gone: bool = False) -> PodSeen:
    """A Pod as the API server sends it; `gone`: the event says that it was deleted."""
    meta = raw["metadata"]
    owners = meta.get("ownerReferences") or ()
    return PodSeen(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        revision=int(meta["resourceVersion"]),
        node=(raw.get("spec") or {}).get("nodeName", ""),
        daemonset=next((each["name"] for each in owners if each["kind"] == "DaemonSet"), ""),
        leaving=gone or "deletionTimestamp" in meta,
    )


def _parse_record(notes: Json, name: str) -> Json:
    try:
        record = json.loads(notes.get(f"gpushare.io/{name}", "{}"))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _parse_change(record: Json) -> ChangeSeen | None:
    if record.get("phase", "Deferred") == "Deferred":
        return None
    return ChangeSeen(
        from_mode=str(record["from"]),
        to=str(record["to"]),
        since=record["since"],
        initializing=record.get("initializing", False),
        restarted_again=record.get("restartedAgain", False),
    )


def _find_owned(meta: Json) -> Iterator[str]:
    """Every field that our manager owns, by whatever operation and subresource."""
    for entry in meta.get("managedFields") or ():
        if entry["manager"] == MANAGER:
            yield from _leaves("", entry.get("fieldsV1") or {})


def _leaves(path: str, fields: Json) -> Iterator[str]:
    for key, inner in fields.items():
        # The map itself, owned by whoever made it.
        if key != ".":
            here = f"{path} {key}".lstrip()
            yield from _leaves(here, inner) if inner else (here,)


def _build_allowed(editions: set[str]) -> set[str]:
    labels = {label for each in editions or EDITION_LABELS for label in EDITION_LABELS[each]}
    return {
        "f:spec f:unschedulable",
        # Maps that were applied empty.
        "f:metadata f:labels",
        "f:metadata f:annotations",
        *(f"f:metadata f:labels f:{label}" for label in {POOL, VERIFIED, *labels}),
        *(f"f:metadata f:annotations f:{record}" for record in RECORDS),
    }
