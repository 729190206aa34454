"""The test bench of integration tests: a cluster, the operator on it, and the audit log."""

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from devcluster import names
from devcluster.apiserver import ApiError
from devcluster.cluster import Cluster
from devcluster.editions import Edition, install_edition
from devcluster.nodes import OtherKind, add_nodes, build_gpu_node, build_other_node
from devcluster.waiting import wait_until
from tests.kit.cluster.audit_log import AuditTrail
from tests.kit.cluster.operator_processes import Operators
from tests.kit.cluster.watch_recording import Recording
from tests.kit.values.manifests import NODE_POOL, NODE_POOL_LABEL

Json = dict[str, Any]

PLUGIN = "gpushare-device-plugin-ds"
GPU_MEM = "aliyun.com/gpu-mem"
POOL = "gpushare.io/pool"
MODE = "ack.node.gpu.schedule"
PLACEMENT = "ack.node.gpu.placement"
VERIFIED = "gpushare.io/isolation-verified"
POOLS = "/apis/gpushare.io/v1alpha1/gpusharepools"
TABLES = "/apis/gpushare.io/v1alpha1/gpushareadmissiontables"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"
DAEMONSETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NO_REPORT_SECONDS = 3600.0
"""Period of a kubelet that does not report during a test."""
_WORKLOADS = "/apis/apps/v1/namespaces/default"


@dataclass
class Bench:
    """A cluster, which every test gets empty."""

    cluster: Cluster
    operators: Operators = field(init=False)
    audit: AuditTrail = field(init=False)

    def __post_init__(self) -> None:
        self.operators = Operators(self.cluster)
        self.audit = AuditTrail(self.cluster.audit_log)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request of the administrator; a PATCH is a merge patch."""
        return self.cluster.api.call(method, path, body)

    def watching(self, path: str = NODES) -> Recording:
        """Record every state of the objects under `path` within the block."""
        return Recording(self.cluster, path)

    # What is there.

    def node(self, name: str) -> Json:
        node: Json = self.call("GET", f"{NODES}/{name}")
        return node

    def labels(self) -> dict[str, dict[str, str]]:
        """Read the labels of each node, by its name."""
        nodes = self.call("GET", NODES)["items"]
        return {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}

    def pod(self, name: str) -> Json:
        pod: Json = self.call("GET", f"{PODS}/{name}")
        return pod

    def pods(self, path: str = PODS) -> list[Json]:
        pods: list[Json] = self.call("GET", path)["items"]
        return pods

    def pool(self, name: str = "training") -> Json:
        pool: Json = self.call("GET", f"{POOLS}/{name}")
        return pool

    def plugins(self, daemonset: str = PLUGIN) -> dict[str, Json]:
        return {
            pod["spec"]["nodeName"]: pod
            for pod in self.pods(SYSTEM_PODS)
            if pod["spec"].get("nodeName")
            and pod["metadata"]["ownerReferences"][0]["name"] == daemonset
            and "deletionTimestamp" not in pod["metadata"]
        }

    # What a person does.

    def install(self, edition: Edition, *, name_label: bool = True) -> None:
        install_edition(self.cluster, edition, name_label=name_label)

    def add_nodes(
        self,
        *node_names: str,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        faults: Mapping[str, Any] | None = None,
        node_pool: str = NODE_POOL,
        cards: int = 1,
    ) -> None:
        notes = {**(annotations or {}), **({names.FAULT: json.dumps(faults)} if faults else {})}
        pool_label = {NODE_POOL_LABEL: node_pool}
        add_nodes(
            self.cluster,
            [
                build_gpu_node(
                    name, cards=cards, labels={**pool_label, **(labels or {})}, annotations=notes
                )
                for name in node_names
            ],
        )

    def add_other_nodes(
        self, *nodes: tuple[OtherKind, str], labels: Mapping[str, str] | None = None
    ) -> None:
        """Add nodes without cards, by name and kind."""
        pool_label = {NODE_POOL_LABEL: NODE_POOL}
        add_nodes(
            self.cluster,
            [
                build_other_node(kind, name, labels={**pool_label, **(labels or {})})
                for kind, name in nodes
            ],
        )

    def create_pool(self, pool: Json) -> Json:
        created: Json = self.call("POST", POOLS, pool)
        return created

    def change_pool(self, name: str = "training", **spec: Any) -> None:
        self.call("PATCH", f"{POOLS}/{name}", {"spec": spec})

    def change_again(self, *nodes: str, pool: str = "training", **spec: Any) -> None:
        """Change a pool that was changed back and forth recently, with a retry for it and its
        `nodes`, so that no earlier change or restart of a plugin counts."""
        retry = {"metadata": {"annotations": {"gpushare.io/retry": uuid4().hex}}}
        for node in nodes:
            self.call("PATCH", f"{NODES}/{node}", retry)
        self.call("PATCH", f"{POOLS}/{pool}", {**retry, "spec": spec})

    def delete_pool(self, name: str = "training") -> None:
        self.call("DELETE", f"{POOLS}/{name}")

    def create_pod(self, pod: Json) -> str:
        created: Json = self.call("POST", PODS, pod)
        name: str = created["metadata"]["name"]
        return name

    def delete_pod(self, name: str) -> None:
        self.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        self.call("PATCH", f"{NODES}/{node}", {"metadata": {"labels": dict(labels)}})

    def annotate(self, path: str, annotations: Mapping[str, str | None]) -> None:
        self.call("PATCH", path, {"metadata": {"annotations": dict(annotations)}})

    def cordon(self, node: str, *, on: bool = True) -> None:
        """Cordon a node as kubectl does; with `on` False uncordon it."""
        self.call("PATCH", f"{NODES}/{node}", {"spec": {"unschedulable": on or None}})

    def set_faults(self, node: str, **faults: Any) -> None:
        """Set the faults of a node; without arguments remove them."""
        self.annotate(f"{NODES}/{node}", {names.FAULT: json.dumps(faults) if faults else None})

    @contextmanager
    def paused(self, component: str) -> Iterator[int]:
        """Stop a component of the control plane within the block, its connections open; return its
        process ID."""
        pid = self.cluster.pid(component)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield pid
        finally:
            os.kill(pid, signal.SIGCONT)

    # Between tests.

    def clear(self) -> None:
        """Empty the cluster, except for the installation and the edition."""
        self.operators.end()
        self.empty()

    def empty(self) -> None:
        """Empty the cluster, while a running operator goes on."""
        for kind in ("daemonsets", "deployments", "statefulsets"):
            self.call("DELETE", f"{_WORKLOADS}/{kind}")
        self.call("DELETE", BUDGETS)
        for pool in self.call("GET", POOLS)["items"]:
            self._release_and_delete(f"{POOLS}/{pool['metadata']['name']}")
        for node in self.call("GET", NODES)["items"]:
            self.call("DELETE", f"{NODES}/{node['metadata']['name']}")
        wait_until(self._is_empty, expectation="the cluster is empty", timeout_seconds=90)
        # The next test's nodes have the same names, and other cards.
        self.cluster.restart_extender()

    def _release_and_delete(self, path: str) -> None:
        try:
            self.call("DELETE", path)
            self.call("PATCH", path, {"metadata": {"finalizers": None}})
        except ApiError as error:
            # The operator was faster.
            if error.status != 404:
                raise

    def _is_empty(self) -> bool:
        pods: Sequence[Json] = [*self.pods(PODS), *self.pods(SYSTEM_PODS)]
        for path in (PODS, SYSTEM_PODS):
            self.call("DELETE", f"{path}?gracePeriodSeconds=0")
        return not (pods or self.call("GET", POOLS)["items"] or self.call("GET", NODES)["items"])

    # For a failure's message.

    def describe(self) -> str:
        """Describe the state of the cluster for a failed test."""
        parts = [
            *(f"node {_describe_node(node)}" for node in self.call("GET", NODES)["items"]),
            *self._describe_pools(),
            *(f"pod {_describe_pod(pod)}" for pod in [*self.pods(), *self.plugins().values()]),
            self.operators.tail(),
        ]
        return "\n".join(parts)

    def _describe_pools(self) -> list[str]:
        if not self.cluster.api.exists(POOLS):
            return ["no CRD"]
        return [
            f"pool {pool['metadata']['name']} {json.dumps(pool.get('status'))}"
            for pool in self.call("GET", POOLS)["items"]
        ]


def _describe_node(node: Json) -> str:
    meta, status = node["metadata"], node["status"]
    noted = {k: v for k, v in meta["annotations"].items() if "gpushare.io" in k or "sim." in k}
    cordoned = " cordoned" if node["spec"].get("unschedulable") else ""
    return (
        f"{meta['name']}{cordoned} {json.dumps(meta['labels'])} {json.dumps(noted)} "
        f"{GPU_MEM}={status.get('allocatable', {}).get(GPU_MEM)}"
    )


def _describe_pod(pod: Json) -> str:
    status = pod["status"]
    return (
        f"{pod['metadata']['name']} on {pod['spec'].get('nodeName')} {status.get('phase')} "
        f"{status.get('reason', '')} {status.get('message', '')} "
        f"{pod['spec'].get('nodeSelector', '')}"
    )
