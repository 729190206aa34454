"""Random pods of every shape that admission looks at, nearly all of them valid."""

from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any

from gpushare import names
from gpushare.api.k8s.node_selection import CHOOSING, MAX_REQUIREMENTS
from tests.integration.policy.random_pools import (
    KEYS,
    NAMES,
    POD_LABELS,
    TOLERATIONS,
    VALUES,
)
from tests.kit.values.manifests import IMAGE

Json = dict[str, Any]
MEMORY, CORE = names.RESOURCE_GPU_MEMORY, names.RESOURCE_GPU_CORE
_HOSTNAME = "kubernetes.io/hostname"
_OTHERS = (names.RESOURCE_WHOLE_GPU, names.RESOURCE_TOPOLOGY_GPU, names.RESOURCE_SHARED_GPU)
_ASKED: tuple[tuple[str, ...], ...] = (
    *[(MEMORY,)] * 16,
    *[(MEMORY, CORE)] * 3,
    *[(each,) for each in _OTHERS],
    *[(), (CORE,), (MEMORY, names.RESOURCE_WHOLE_GPU), ("nvidia.com/mig-1g.5gb",)],
    *[(MEMORY, names.RESOURCE_GPU_COUNT)],
)
_QUANTITIES = (*("1", "2", "3") * 4, "8", "1k", "1e1", "3Gi", "0", "0Gi", "1000m", "+2")
_OPERATORS = ("In", "In", *("NotIn",) * 3, "Exists", "DoesNotExist", "Gt", "Lt")
_NUMBERS = (*("0", "4", "7", "8", "10", "999999999999999998") * 5, "-1")
_ODD_NUMBERS = ("many", "1" * 19, "9999999999999999999999")
_KUEUE = (*sorted(names.KUEUE_ADMITTED_LABELS), names.LABEL_KUEUE_QUEUE)
_OWNERS = ("ReplicaSet", "Job", "RayCluster", "DaemonSet", "Workflow", "PyTorchJob")
_NUMBER = count(1)


class _Chance(Random):
    """Random choices for one pod, of which some are wilder than others."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance.getrandbits(64))
        self._wildness = chance.choice((0.0, 0.2, 0.5, 1.0))

    def has(self, probability: float) -> bool:
        """Tell whether the pod has something that the wildest ones have so often."""
        return self.random() < probability * self._wildness


def draw_pod(of_pods: Random) -> Json:
    """Draw a pod."""
    chance = _Chance(of_pods)
    metadata: Json = {"name": f"pod-{next(_NUMBER)}"}
    for field, drawn in (
        ("labels", _draw_labels(chance)),
        ("annotations", _draw_annotations(chance)),
        ("ownerReferences", _draw_owners(chance)),
    ):
        _put(chance, metadata, field, drawn)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": _draw_spec(chance),
    }


def _put(chance: _Chance, parent: Json, field: str, value: Json | list[Any]) -> None:
    """Put a map or list into `field`: of an empty one there are three kinds."""
    if value:
        parent[field] = value
    elif chance.has(0.3):
        parent[field] = chance.choice((None, value))


def _draw_spec(chance: _Chance) -> Json:
    asked = chance.choice(_ASKED)
    several = chance.choice((1, 1, 2, 3))
    spec: Json = {"containers": [_draw_container(chance, f"c{n}", asked) for n in range(several)]}
    several = chance.choice((0, 0, 0, 1, 2))
    starting = [_draw_container(chance, f"i{n}", asked) for n in range(several)]
    for container in starting:
        if chance.has(0.5):
            container["restartPolicy"] = "Always"
    _put(chance, spec, "initContainers", starting)
    _put(chance, spec, "nodeSelector", _draw_selector(chance))
    _put(chance, spec, "affinity", _draw_affinity(chance))
    tolerations = chance.sample(TOLERATIONS, chance.choice((0, 0, 1, 2)))
    _put(chance, spec, "tolerations", [dict(each) for each in tolerations])
    gates = chance.choice(([], [], [], ["example.com/quota"], ["kueue.x-k8s.io/admission"]))
    if chance.has(0.2):
        _put(chance, spec, "schedulingGates", [{"name": each} for each in gates])
    if chance.has(0.1):
        spec["schedulerName"] = chance.choice(("", "default-scheduler", "volcano"))
    if chance.has(0.03) and not spec.get("schedulingGates"):
        spec["nodeName"] = "n1"
    return spec


def _draw_container(chance: _Chance, name: str, asked: tuple[str, ...]) -> Json:
    container: Json = {"name": name, "image": IMAGE}
    if chance.has(0.2):
        asked = chance.choice(_ASKED)
    if not chance.has(0.1):
        limits = {each: chance.choice(_QUANTITIES) for each in asked}
        if chance.has(0.3):
            limits["cpu"] = "100m"
        resources: Json = {"limits": limits}
        match chance.choice(("limits", "both", "both", "zero", "requests")):
            case "both":
                resources["requests"] = dict(limits)
            case "requests" if chance.has(0.1):
                resources = {"requests": limits}
            case "zero" if chance.has(0.3):
                resources["limits"] = dict.fromkeys(limits, "0")
        container["resources"] = resources
    elif chance.has(0.5):
        container["resources"] = chance.choice((None, {}, {"limits": None}, {"requests": {}}))
    _put(chance, container, "env", _draw_environment(chance))
    return container


def _draw_environment(chance: _Chance) -> list[Json]:
    listed: list[Json] = []
    while chance.has(0.3):
        name = chance.choice(("CGPU_DISABLE", "CGPU_DISABLE", "X", "NVIDIA_VISIBLE_DEVICES"))
        if chance.has(0.1):
            field = {"fieldRef": {"fieldPath": "metadata.name"}}
            listed.append({"name": name, "valueFrom": field})
        else:
            value = chance.choice(
                ("true", "true", "$(X)", "1", "0", "false", "", "$(X)", "a$(X)b", "True")
            )
            listed.append({"name": name, "value": value})
    return listed


def _draw_labels(chance: _Chance) -> Json:
    labels = {key: chance.choice(values) for key, values in POD_LABELS.items() if chance.has(0.4)}
    if chance.has(0.06):
        labels |= dict.fromkeys(chance.sample(_KUEUE, chance.choice((1, 2))), "q")
    return labels


def _draw_annotations(chance: _Chance) -> Json:
    annotations: Json = {"note": "a~b/c\" {}'"} if chance.has(0.3) else {}
    if chance.random() < 0.15:
        pools = (*NAMES * 4, "nobody", "", " alpha", "alpha,beta", "Ä' + x", '"', "\n")
        annotations[names.ANNOTATION_POOL] = chance.choice(pools)
    if chance.has(0.3):
        values = (*("required", "none") * 4, "", "Required", "maybe", " none")
        annotations[names.ANNOTATION_ISOLATION] = chance.choice(values)
    if chance.has(0.06):
        annotations[names.ANNOTATION_INJECT] = chance.choice(("disabled", "enabled", "", "x"))
    if chance.has(0.04):
        texts = (
            "",
            "{}",
            "x",
            '{"v":1,"reason":"Routed","pool":"alpha"}',
            '"reason":"RoutedByPolicy"',
        )
        annotations[names.ANNOTATION_DECISION] = chance.choice(texts)
    return annotations


def _draw_owners(chance: _Chance) -> list[Json]:
    owners: list[Json] = []
    while chance.has(0.15):
        owner: Json = {"apiVersion": "example.com/v1", "kind": chance.choice(_OWNERS)}
        owner |= {"name": "x", "uid": f"uid-{len(owners)}"}
        if chance.has(0.9):
            owner["controller"] = not any(each.get("controller") for each in owners)
        owners.append(owner)
    return owners


def _draw_selector(chance: _Chance) -> Json:
    if chance.random() < 0.7:
        return {}
    chosen = chance.sample(KEYS, chance.choice((1, 1, 2)))
    selector = {key: chance.choice(VALUES[key]) for key in chosen}
    if chance.has(0.1):
        key = chance.choice((*sorted(CHOOSING), names.LABEL_ISOLATION_VERIFIED, _HOSTNAME, "x/y"))
        selector[key] = chance.choice(("true", "alpha", "cgpu", "n1"))
    return selector


def _draw_affinity(chance: _Chance) -> Json:
    affinity: Json = {}
    if chance.random() < 0.3:
        terms = [_draw_term(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if chance.has(0.15):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": chance.randint(1, 100), "preference": _draw_term(chance)}
            for _ in range(chance.choice((1, 2)))
        ]
    others: Json = {"podAntiAffinity": {}} if chance.has(0.05) else {}
    return {**others, **({"nodeAffinity": affinity} if affinity or chance.has(0.1) else {})}


def _draw_term(chance: _Chance) -> Json:
    term: Json = {}
    several = chance.choice((*(1, 1, 2, 3) * 4, 0))
    if chance.has(0.01):
        several = chance.choice((51, 60, MAX_REQUIREMENTS + 1))
    expressions = [_draw_requirement(chance) for _ in range(several)]
    _put(chance, term, "matchExpressions", expressions)
    fields: list[Json] = []
    if chance.random() < 0.06:
        operator = chance.choice(("In", *("NotIn",) * 4))
        fields = [{"key": "metadata.name", "operator": operator, "values": ["n1"]}]
    _put(chance, term, "matchFields", fields)
    return term


def _draw_requirement(chance: _Chance) -> Json:
    key = chance.choice(KEYS)
    values: Sequence[str] = VALUES[key]
    if chance.has(0.08):
        key = chance.choice((*sorted(CHOOSING), names.LABEL_ISOLATION_VERIFIED, _HOSTNAME, "x/y"))
        values = ("true", "alpha", "cgpu", "n1", "share")
    operator = chance.choice(_OPERATORS)
    requirement: Json = {"key": key, "operator": operator}
    match operator:
        case "In" | "NotIn":
            requirement["values"] = chance.sample(values, chance.choice((1, 1, 2)))
        case "Gt" | "Lt":
            numbers = _ODD_NUMBERS if chance.has(0.05) else _NUMBERS
            requirement["values"] = [chance.choice(numbers)]
        case _ if chance.has(0.2):
            requirement["values"] = None
    return requirement
