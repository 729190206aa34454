"""Kueue's queues in the namespace default, and what waits in them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.kit.bench import PODS, Bench
from tests.kit.cluster.expect import expect
from tests.kit.values.kueue import QUEUE, build_cluster_queue, build_flavor, build_local_queue
from tests.kit.values.manifests import Json, build_pod, build_workload

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
OWN = f"{KUEUE}/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
GATE = "kueue.x-k8s.io/admission"
_PATHS = {
    "ResourceFlavor": f"{KUEUE}/resourceflavors",
    "ClusterQueue": f"{KUEUE}/clusterqueues",
    "WorkloadPriorityClass": f"{KUEUE}/workloadpriorityclasses",
    "LocalQueue": f"{OWN}/localqueues",
}


@dataclass
class Queues:
    """What a test makes of Kueue's objects, in an empty cluster."""

    bench: Bench

    def create(self, *objects: Json) -> None:
        for each in objects:
            self.bench.call("POST", _PATHS[each["kind"]], each)

    def serve(self, quotas: dict[str, dict[str, int | str]], **spec: Any) -> None:
        """Make the queue `team` over flavors of the pools that have the same names."""
        self.create(*(build_flavor(pool, pool) for pool in quotas))
        self.create(build_cluster_queue("team", quotas, **spec), build_local_queue())

    def submit(self, job: Json) -> None:
        self.bench.call("POST", JOBS, job)

    def job(self, name: str) -> Json:
        job: Json = self.bench.call("GET", f"{JOBS}/{name}")
        return job

    def delete_job(self, name: str) -> None:
        self.bench.call("DELETE", f"{JOBS}/{name}?propagationPolicy=Background")

    def pods_of(self, app: str) -> list[Json]:
        """The live pods of a workload."""
        return [
            pod
            for pod in self.bench.pods()
            if pod["metadata"].get("labels", {}).get("app") == app
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def expect_suspended(self, name: str, why: str = "") -> None:
        """Wait until Kueue has looked at a Job and holds it back, for a reason with these words."""

        def probe() -> bool:
            return self.job(name)["spec"]["suspend"] and why in self._read_reason(name)

        expect(self.bench, f"job {name} is suspended: {why}", probe)

    def _read_reason(self, job: str) -> str:
        uid = self.job(job)["metadata"]["uid"]
        return "\n".join(
            condition["message"]
            for workload in self.bench.call("GET", f"{OWN}/workloads")["items"]
            if workload["metadata"]["ownerReferences"][0]["uid"] == uid
            for condition in workload.get("status", {}).get("conditions", [])
            if condition["type"] == "QuotaReserved" and condition["status"] == "False"
        )

    def expect_running(self, app: str, *, on: str, pods: int = 1) -> list[Json]:
        """Wait until so many pods of a workload, and no others, run on a node."""

        def probe() -> list[Json] | None:
            found = self.pods_of(app)
            running = [
                pod
                for pod in found
                if pod["status"].get("phase") == "Running" and pod["spec"]["nodeName"] == on
            ]
            return found if len(found) == len(running) == pods else None

        return expect(self.bench, f"{pods} pods of {app} run on {on}", probe)

    def clear(self) -> None:
        """Remove all, while Kueue runs and releases what it holds."""
        call = self.bench.call
        for path in (JOBS, DEPLOYMENTS):
            call("DELETE", f"{path}?propagationPolicy=Background")
        call("DELETE", f"{OWN}/localqueues")
        expect(self.bench, "no pod and no workload is left", self._delete_pods)
        for kind in ("clusterqueues", "resourceflavors", "workloadpriorityclasses"):
            path = f"{KUEUE}/{kind}"
            call("DELETE", path)
            expect(self.bench, f"{kind} are gone", partial(self._is_empty, path))

    def _delete_pods(self) -> bool:
        self.bench.call("DELETE", f"{PODS}?gracePeriodSeconds=0")
        # Kueue lets the pods of a group go with their workload: it waits for others in their place.
        self.bench.call("DELETE", f"{OWN}/workloads")
        return self._is_empty(PODS) and self._is_empty(f"{OWN}/workloads")

    def _is_empty(self, path: str) -> bool:
        return not self.bench.call("GET", path)["items"]


def build_job(
    name: str,
    *,
    gib: int = 4,
    pods: int = 1,
    least: int | None = None,
    priority: str = "",
    queue: str = "team",
    **spec: Any,
) -> Json:
    """Build a Job in a queue, whose pods ask for `gib` each; `least` may be fewer of them."""
    job = build_workload("Job", name, pod=build_pod(name, gib=gib, **spec))
    labels = {QUEUE: queue, **({"kueue.x-k8s.io/priority-class": priority} if priority else {})}
    job["metadata"]["labels"] = labels
    job["spec"] |= {"parallelism": pods, "completions": pods}
    if least is not None:
        job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": str(least)}
    return job


def build_priority(name: str, value: int) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


@contextmanager
def cleared(bench: Bench) -> Iterator[Queues]:
    """Queues for a test."""
    queues = Queues(bench)
    try:
        yield queues
    finally:
        queues.clear()
