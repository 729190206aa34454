"""Judges what the operator claims of containers by what the simulator recorded of them; no I/O.

The claim is what any reader of the API server makes of a Node and its Pods. The record is the
simulated node's own, written when it admitted the pod.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from devcluster import names
from gpushare.api.k8s.node import parse_node
from gpushare.api.k8s.pod import parse_pod
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.isolation import ContainerIsolation, observe_containers
from gpushare.core.snapshot.node import NodeSnapshot
from tests.kit.bench import VERIFIED
from tests.kit.values.manifests import Json

Claims = Callable[[NodeSnapshot], Iterable[ContainerIsolation]]
_PLUGIN_NAMESPACES = (names.SYSTEM_NAMESPACE, names.NVIDIA_NAMESPACE)
Admission = tuple[str, str, str]
"""UID of the pod, name of the container, and the boot in which it was admitted."""


class Verdict(StrEnum):
    AGREED = "agreed"
    UNKNOWN = "unknown"
    """The operator does not know, and says so; nobody could."""
    UNTOLD = "untold"
    """The operator says that it does not know, and somebody could."""
    SILENT = "silent"
    """The operator claims nothing, and there is nothing that it may claim."""
    WRONG = "wrong"


_WORST_FIRST = (Verdict.WRONG, Verdict.UNTOLD, Verdict.UNKNOWN, Verdict.AGREED, Verdict.SILENT)
_WITHOUT_CLAIMS = (names.WHOLE_CARD, names.SHARED_CARD)
"""Of whole cards, and of shares that NVIDIA's plugin gives: no isolation of them is observed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The claim about one container, and what is so."""

    admission: Admission
    container: str
    """With its pod, as a person names it."""
    claimed: bool | None
    is_isolated: bool | None
    """None where nothing may be claimed."""
    is_claimed: bool = True
    can_be_told: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.is_isolated is None:
            return Verdict.WRONG if self.is_claimed else Verdict.SILENT
        if self.claimed is None and self.is_claimed:
            return Verdict.UNTOLD if self.can_be_told else Verdict.UNKNOWN
        return Verdict.AGREED if self.claimed is self.is_isolated else Verdict.WRONG

    def __str__(self) -> str:
        said = self.claimed if self.is_claimed else "nothing"
        return f"{self.container}: isolated is {self.is_isolated}, claimed is {said}"


@dataclass
class Tally:
    """All findings so far; a container that is admitted anew, after a reboot, is another one."""

    _verdicts: defaultdict[Admission, set[Verdict]] = field(
        default_factory=lambda: defaultdict(set)
    )

    def note(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._verdicts[finding.admission].add(finding.verdict)

    def count(self) -> Counter[Verdict]:
        """Containers, each by the worst that was ever found of it."""
        return Counter(
            next(verdict for verdict in _WORST_FIRST if verdict in verdicts)
            for verdicts in self._verdicts.values()
        )

    @property
    def containers(self) -> int:
        """Of which something may be claimed."""
        return len(self._verdicts) - self.count()[Verdict.SILENT]


def judge_node(
    node: Json,
    pods: Sequence[Json],
    claims: Claims = observe_containers,
    can_tell: Callable[[Json, str], bool] = lambda pod, container: False,
) -> list[Finding] | None:
    """A finding for every container on `node` that runs and has a card, or shares one. One more,
    where NVIDIA's plugin runs, for the node's label.

    `can_tell` says of a pod and its container whether anybody could.

    `pods` are all pods on the node, read at a moment at which the node was as given. None while
    the simulated node has yet to write what it gave to one of them in this boot.
    """
    boot, found = node["status"]["nodeInfo"]["bootID"], []
    staying = [pod for pod in pods if is_running(pod)]
    parsed = parse_node(node)
    seen = (parse_pod(pod, plugin_namespaces=_PLUGIN_NAMESPACES) for pod in staying)
    here = [pod for pod in seen if pod is not None]
    claimed = {
        (claim.pod.uid, claim.container): claim.isolated
        for claim in claims(NodeSnapshot(parsed, here, parse_records(parsed)))
    }
    if any(find_daemonset(pod) == names.NVIDIA_PLUGIN for pod in staying):
        vouches = parsed.labels.get(VERIFIED) == "true" and VERIFIED in parsed.owned
        claimed |= {(parsed.uid, VERIFIED): True} if vouches else {}
        found.append(_expect_silence((parsed.uid, VERIFIED, boot), parsed.name, claimed))
    for pod in staying:
        record, meta = read_record(pod), pod["metadata"]
        for name in find_sharing(pod):
            got = record.get(name)
            if got is None or got["boot_id"] != boot:
                return None
            found.append(
                Finding(
                    (meta["uid"], name, boot),
                    f"{meta['namespace']}/{meta['name']}/{name}",
                    claimed.get((meta["uid"], name)),
                    got["isolated"],
                    is_claimed=(meta["uid"], name) in claimed,
                    can_be_told=can_tell(pod, name),
                )
            )
        for name in find_containers(pod, *_WITHOUT_CLAIMS):
            said = f"{meta['namespace']}/{meta['name']}/{name}"
            found.append(_expect_silence((meta["uid"], name, boot), said, claimed))
    return found


def _expect_silence(
    admission: Admission, name: str, claimed: Mapping[tuple[str, str], bool | None]
) -> Finding:
    key = admission[:2]
    return Finding(admission, name, claimed.get(key), None, is_claimed=key in claimed)


def sum_findings(findings: Sequence[Finding]) -> dict[str, int]:
    """What a pool's status must say of containers of which everything that is claimed is so."""
    shared = [finding for finding in findings if finding.verdict is not Verdict.SILENT]
    return {
        "containers": len(shared),
        "isolated": sum(f.is_isolated is True for f in shared if f.claimed is not None),
        "unknown": sum(finding.claimed is None for finding in shared),
    }


def is_running(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def find_daemonset(pod: Json) -> str:
    """That which made a component's pod, or whose component it runs."""
    meta = pod["metadata"]
    owner: str = meta.get("ownerReferences", [{}])[0].get("name", "")
    return str((meta.get("annotations") or {}).get(names.RUNS, owner))


def find_sharing(pod: Json) -> list[str]:
    return find_containers(pod, names.GPU_MEM)


def find_containers(pod: Json, *resources: str) -> list[str]:
    return [
        container["name"]
        for container in pod["spec"]["containers"]
        if {*resources} & (container.get("resources", {}).get("limits") or {}).keys()
    ]


def read_record(pod: Json) -> Mapping[str, Json]:
    """What each container got, by the simulator's word; empty while it has none."""
    notes = pod["metadata"].get("annotations") or {}
    record: Mapping[str, Json] = json.loads(notes.get(names.CONTAINERS, "{}"))
    return record
