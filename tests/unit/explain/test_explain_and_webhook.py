"""`gpushare explain` says of a pod what the webhook does with it: generated pods through both."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonpatch
import orjson
import pytest

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.pruned.cluster import Kind, keep_object
from gpushare.core.admission.pool_view import view_pool
from gpushare.core.admission.request import Rules
from gpushare.names import Reason
from gpushare.observe.metrics import Metrics
from gpushare.webhook.decision_log import DecisionLog
from gpushare.webhook.handler import AdmissionHandler
from gpushare.workload_kinds import merge_kinds
from tests.kit.histories.card_oracle import find_nodes
from tests.kit.histories.gpu_cluster import POOL_LABEL, TAINT, Application, GpuNode, GpuPool
from tests.kit.histories.gpu_cluster_generator import GpuClusterGenerator
from tests.kit.histories.gpu_cluster_manifests import (
    build_applicant,
    build_holder,
    build_living_pool,
    build_node,
)
from tests.kit.values.found_clusters import READ_AT, Asked, build_found_cluster, build_found_webhook
from tests.kit.values.manifests import Json, build_review, build_workload, encode
from tests.kit.values.webhook_server import build_memory

WORLDS = 50
PODS_PER_CLUSTER = 8
WORKLOADS = {
    "Deployment": ("apps", "deployments"),
    "StatefulSet": ("apps", "statefulsets"),
    "DaemonSet": ("apps", "daemonsets"),
    "Job": ("batch", "jobs"),
    "CronJob": ("batch", "cronjobs"),
}


@dataclass(frozen=True)
class Answered:
    """What the webhook answers, and the reason that it counts."""

    reason: str
    patch: list[Json]
    warnings: list[str]
    refusal: str | None


@dataclass(frozen=True)
class Trial:
    """One manifest, through both."""

    seed: str
    case: Application
    manifest: Json
    webhook: Answered
    explained: Json
    """Of what `explain -f` says, what is about this one."""
    again: Json
    """What `explain pod` says of the pod once it is created so; empty where it is refused."""


class Webhook:
    """The real one, with a fresh count for each question."""

    def __init__(self, pools: list[Json], namespaces: list[Namespace], *, denies: bool) -> None:
        self._pools = [view for pool in pools if (view := view_pool(pool)) is not None]
        self._namespaces = namespaces
        self._rules = Rules(denies=denies)

    def ask(self, manifest: Json) -> Answered:
        namespace, kind = manifest["metadata"]["namespace"], manifest["kind"]
        metrics = Metrics()
        memory = build_memory(self._pools, self._namespaces)
        handler = AdmissionHandler(
            memory, _Silent(), metrics, rules=self._rules, replicas=1, kinds=merge_kinds()
        )
        if kind == "Pod":
            body = encode(build_review(manifest, namespace=namespace))
            answered, counter = handler.mutate_pod(body), metrics.admissions
        else:
            group, plural = WORKLOADS[kind]
            resource = {"group": group, "version": "v1", "resource": plural}
            body = encode(build_review(manifest, namespace=namespace, resource=resource))
            answered, counter = handler.warn_of_workload(body), metrics.workload_admissions
        answered.account()
        (reason,) = (r for r in Reason if counter.labels(r)._value.get())
        response = orjson.loads(answered.body)["response"]
        return Answered(
            reason=str(reason),
            patch=orjson.loads(base64.b64decode(response.get("patch", "W10="))),
            warnings=response.get("warnings", []),
            refusal=response["status"]["message"] if not response["allowed"] else None,
        )


class _Silent(DecisionLog):
    """Nothing is logged: there is no loop to do it later."""

    def note(self, level: int, namespace: str, pod: str, decision: object) -> None:
        pass


def _try_cluster(seed: str, folder: Path) -> Iterator[Trial]:
    generator = GpuClusterGenerator(seed)
    pools = generator.generate_pools()
    cases = [generator.generate_application(pools) for _ in range(PODS_PER_CLUSTER)]
    denies = cases[0].denies
    spaces = [Namespace(f"space-{index}", case.namespace) for index, case in enumerate(cases)]
    raw_pools = [build_living_pool(pool) for pool in pools]
    kinds = ("Pod", "Pod", "Pod", *WORKLOADS)
    manifests = [
        _place(build_applicant(case.pod, f"pod-{index}"), spaces[index].name, kinds[index])
        for index, case in enumerate(cases)
    ]
    webhook = Webhook(raw_pools, spaces, denies=denies)
    answers = [webhook.ask(manifest) for manifest in manifests]
    created = [
        _create(manifest, answer) if manifest["kind"] == "Pod" else None
        for manifest, answer in zip(manifests, answers, strict=True)
    ]
    pods = [pod for pod in created if pod is not None]
    cluster = build_found_cluster(
        nodes=[_build_node(pool, node) for pool in pools for node in pool.nodes],
        pods=[*_list_holders(pools), *pods],
        pools=raw_pools,
        namespaces=[
            {"metadata": {"name": each.name, "uid": each.name, "labels": dict(each.labels)}}
            for each in spaces
        ],
        deployments=[build_found_webhook(ON_NO_POOL="deny" if denies else "allow")],
    )
    file = folder / "manifests.json"
    file.write_text(json.dumps({"kind": "List", "items": manifests}))
    explain = Asked(folder, "explain")
    explained = explain.tell(cluster, "-f", str(file))["objects"]
    for index, manifest in enumerate(manifests):
        again: Json = {}
        pod, meta = created[index], manifest["metadata"]
        if pod is not None and keep_object(Kind.PODS, pod) is not None:
            again = explain.tell(cluster, "pod", meta["name"], "-n", meta["namespace"])
        yield Trial(
            f"{seed}/{index}", cases[index], manifest, answers[index], explained[index], again
        )


def _place(pod: Json, namespace: str, kind: str) -> Json:
    """The pod in its namespace, or a workload of such pods."""
    if kind != "Pod":
        labels = pod["metadata"].get("labels", {})
        name = pod["metadata"]["name"]
        pod = build_workload(kind, name, pod=pod)
        template = pod["spec"].get("jobTemplate", pod)["spec"]["template"]
        template["metadata"]["labels"] |= labels
    pod["metadata"] |= {"namespace": namespace}
    return pod


def _create(pod: Json, answer: Answered) -> Json | None:
    """The pod as it exists afterwards, without a node."""
    if answer.refusal is not None:
        return None
    created: Json = jsonpatch.apply_patch(pod, answer.patch)
    uid = f"uid-of-{pod['metadata']['name']}"
    # No pool's figures count it yet.
    created["metadata"] |= {"uid": uid, "creationTimestamp": READ_AT.isoformat()}
    for owner in created["metadata"].get("ownerReferences", ()):
        owner["uid"] = "owner"
    return {**created, "status": {"phase": "Pending"}}


def _list_holders(pools: tuple[GpuPool, ...]) -> Iterator[Json]:
    for pool in pools:
        for node in pool.nodes:
            for holder in node.holders:
                pod = build_holder(pool, node, holder)
                name = pod["metadata"]["name"]
                pod["metadata"] |= {"namespace": "held", "uid": f"uid-of-{name}"}
                yield {**pod, "status": {"phase": "Running"}}


def _build_node(pool: GpuPool, node: GpuNode) -> Json:
    raw = build_node(pool, node)
    if pool.is_tainted:
        raw["spec"]["taints"] = [{"key": TAINT, "value": pool.name, "effect": "NoSchedule"}]
    return raw


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    folder = tmp_path_factory.mktemp("explain")
    return [
        trial for snapshot in range(WORLDS) for trial in _try_cluster(f"explain-{snapshot}", folder)
    ]


def _find_wrong(trials: list[Trial], is_wrong: Callable[[Trial], bool]) -> list[Trial]:
    return [trial for trial in trials if is_wrong(trial)][:2]


def test_it_is_the_webhooks_decision_and_code(trials: list[Trial]) -> None:
    assert len(trials) >= 300
    assert not _find_wrong(trials, lambda t: t.explained["decision"]["reason"] != t.webhook.reason)
    assert len({trial.webhook.reason for trial in trials}) > 10


def test_a_pod_gets_the_patch_and_who_creates_it_is_told_what_is_shown(
    trials: list[Trial],
) -> None:
    def is_wrong(trial: Trial) -> bool:
        decision, webhook = trial.explained["decision"], trial.webhook
        shown = (trial.explained["patch"], decision["refused"], decision["warnings"])
        return shown != (webhook.patch, webhook.refusal, webhook.warnings)

    pods = [trial for trial in trials if trial.manifest["kind"] == "Pod"]
    assert not _find_wrong(pods, is_wrong)
    assert sum(bool(trial.webhook.patch) for trial in pods) > len(pods) / 3
    assert any(trial.webhook.refusal for trial in pods)


def test_of_a_workload_the_webhook_warns_of_what_is_shown(trials: list[Trial]) -> None:
    workloads = [trial for trial in trials if trial.manifest["kind"] != "Pod"]
    assert not _find_wrong(workloads, lambda t: t.webhook.warnings != [*_head(t.explained)])


def _head(explained: Json) -> Iterator[str]:
    decision = explained["decision"]
    if decision["refused"]:
        refused = f"Pods of this workload will be refused: {decision['refused']}"
        yield refused if len(refused) <= 256 else f"{refused[:253]}..."
    elif decision["pool"]:
        (pool,) = (pool for pool in explained["pools"] if pool["name"] == decision["pool"])
        yield f"Pods of this workload will be assigned to pool {pool['name']} ({pool['schedule']})"
    yield from decision["warnings"]


def test_each_pool_is_told_of_by_the_reason_that_the_annotation_has(trials: list[Trial]) -> None:
    def is_wrong(trial: Trial) -> bool:
        noted = json.loads(trial.explained["decision"]["annotation"] or "{}")
        pools = trial.explained["pools"]
        lost: dict[str, set[str]] = {}
        for pool in pools:
            if pool["outcome"] == "lost":
                lost.setdefault(pool["reason"], set()).add(pool["name"])
        chosen = [pool["name"] for pool in pools if pool["outcome"] == "chosen"]
        return (
            {reason: set(names) for reason, names in noted.get("lost", {}).items()} != lost
            or chosen != [name for name in [noted.get("pool")] if name]
            or not all(pool["message"] for pool in pools)
        )

    # Of the owner's own selection the annotation says nothing.
    noted = [t for t in trials if t.explained["decision"]["annotation"]]
    noted = [t for t in noted if t.webhook.reason != "AlreadySelects"]
    noted = [t for t in noted if POOL_LABEL not in t.case.pod.selects]
    assert not _find_wrong(noted, is_wrong)


def test_a_pod_fits_on_the_nodes_that_an_oracle_finds(trials: list[Trial]) -> None:
    def is_wrong(trial: Trial) -> bool:
        decision, case = trial.explained["decision"], trial.case
        selector = {**decision["nodeSelector"], **case.pod.selects}
        takers = find_nodes(case.pod, case.pools, selector, decision["tolerations"])
        return takers != {node["name"] for node in trial.explained["nodes"] if node["fits"]}

    routed = [t for t in trials if t.explained["decision"]["pool"] and not t.case.pod.core]
    routed = [t for t in routed if t.case.pod.asks]
    assert not _find_wrong(routed, is_wrong)
    without = [t for t in routed if t.explained["nodes"]]
    without = [t for t in without if not any(node["fits"] for node in t.explained["nodes"])]
    assert len(without) > 10
    assert all(trial.explained["smallestChange"] for trial in without)


def test_of_a_pod_that_was_created_so_the_same_is_decided_again(trials: list[Trial]) -> None:
    """As it was written: what the webhook added is taken off before it is asked again."""
    routed = [trial for trial in trials if trial.again and trial.again["decision"]["pool"]]
    assert len(routed) > 60
    for trial in routed:
        assert trial.again["decision"] == trial.explained["decision"], trial.seed
        assert trial.again["decidedThen"]["sameNow"], trial.seed
    others = [trial for trial in trials if trial.again and not trial.again["decision"]["pool"]]
    reasons = ("NotRouted", "AlreadySelects")
    for trial in others:
        same = trial.again["decision"]["reason"] == trial.webhook.reason
        assert same or trial.webhook.reason in reasons, trial.seed
