"""Waits for conditions, and describes the actual state where one does not come."""

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from devcluster import names
from devcluster.apiserver import ApiError
from tests.kit.bench import GPU_MEM, Bench, Json

Found = TypeVar("Found")

WITHIN_SECONDS = 90.0
_POLL_SECONDS = 0.1
_EVENTS = "/apis/events.k8s.io/v1/events"


def expect(
    bench: Bench,
    sentence: str,
    probe: Callable[[], Found | None],
    *,
    within_seconds: float = WITHIN_SECONDS,
) -> Found:
    """Wait for a result of `probe` other than None, False or a 404, and return it.

    A result after the time is over counts too: the test itself may have been delayed. Raises
    AssertionError with `sentence` and the state of the cluster.
    """
    deadline = time.monotonic() + within_seconds
    while True:
        is_late = time.monotonic() > deadline
        try:
            result = probe()
        except ApiError as error:
            if error.status != 404:
                raise
            result = None
        if result:
            return result
        if is_late:
            raise AssertionError(f"{sentence}: not within {within_seconds:g} s\n{bench.describe()}")
        time.sleep(_POLL_SECONDS)


def find_refusal(send: Callable[[], object]) -> str:
    """Return the API server's message of a refusal; empty where it accepts the request."""
    try:
        send()
    except ApiError as error:
        return str(error)
    return ""


def expect_quiet(bench: Bench, sentence: str, read: Callable[[], Any]) -> None:
    """Wait until ten results of `read` in a row, over a second, are equal."""
    states: list[Any] = []

    def probe() -> bool:
        states.append(read())
        return len(states) > 10 and all(state == states[-1] for state in states[-10:])

    expect(bench, sentence, probe)


def expect_pool_ready(
    bench: Bench, name: str = "training", *, nodes: int, within: float = 60
) -> Json:
    """Wait until the pool's current generation is Ready on exactly `nodes`; return the pool."""

    def probe() -> Json | None:
        pool = bench.pool(name)
        settled = (
            is_observed(pool)
            and pool["status"]["nodes"]["matched"] == nodes
            and find_condition(pool)["status"] == "True"
        )
        return pool if settled else None

    return expect(bench, f"pool {name} is Ready with {nodes} nodes", probe, within_seconds=within)


def is_observed(pool: Json) -> bool:
    """Tell whether the status is for the pool's current spec."""
    generation: int = pool["metadata"]["generation"]
    return bool(pool.get("status", {}).get("observedGeneration") == generation)


def expect_capacity(bench: Bench, name: str = "training", /, **figures: int) -> None:
    """Wait until the pool's status has these figures of memory and cards."""
    _expect_figures(bench, name, "capacity", figures)


def expect_isolation(bench: Bench, name: str = "training", /, **containers: int) -> None:
    """Wait until the pool's status has these counts of containers."""
    _expect_figures(bench, name, "isolation", containers)


def _expect_figures(bench: Bench, name: str, part: str, figures: Mapping[str, int]) -> None:
    def probe() -> bool:
        actual = bench.pool(name).get("status", {}).get(part) or {}
        return all(actual.get(key) == figure for key, figure in figures.items())

    expect(bench, f"the {part} of pool {name} has {dict(figures)}", probe)


def find_condition(pool: Json, kind: str = "Ready") -> Json:
    """Find a condition of the pool; with empty strings where it has none yet."""
    conditions = pool.get("status", {}).get("conditions", [])
    absent = {"status": "", "reason": "", "message": ""}
    return next((c for c in conditions if c["type"] == kind), absent)


def expect_condition(bench: Bench, kind: str, status: str, reason: str = "") -> Json:
    """Wait until a condition of the pool `training` has this status and reason; return it."""

    def probe() -> Json | None:
        condition = find_condition(bench.pool(), kind)
        holds = condition["status"] == status and reason in ("", condition["reason"])
        return condition if holds else None

    return expect(bench, f"{kind} is {status} {reason}", probe)


def expect_reason(
    bench: Bench, node: str, reason: str, text: str = "", *, pool: str = "training"
) -> Json:
    """Wait until the node's sample in the pool's status has `reason` and the text; return it."""

    def probe() -> Json | None:
        samples = bench.pool(pool).get("status", {}).get("samples", [])
        matching = (s for s in samples if (s["node"], s["reason"]) == (node, reason))
        return next((sample for sample in matching if text in sample["message"]), None)

    return expect(bench, f"pool {pool} says {reason} of {node} {text!r}", probe)


def expect_step(bench: Bench, node: str, phase: str) -> Json:
    """Wait until the node's change is in this phase; return its record."""

    def probe() -> Json | None:
        change = read_change(bench.node(node))
        return change if change.get("phase") == phase else None

    return expect(bench, f"{node} is {phase}", probe)


def expect_labels(
    bench: Bench,
    node: str,
    labels: Mapping[str, str | None],
    *,
    within: float = WITHIN_SECONDS,
) -> Json:
    """Wait until the node has these labels, None for an absent one; return the node."""

    def probe() -> Json | None:
        current = bench.node(node)
        has = current["metadata"]["labels"]
        return current if all(has.get(key) == value for key, value in labels.items()) else None

    return expect(bench, f"{node} has {dict(labels)}", probe, within_seconds=within)


def expect_running(bench: Bench, pod: str) -> Json:
    """Wait until the pod runs; return it. A pod that the kubelet refused fails the test at once."""

    def probe() -> Json | None:
        current = bench.pod(pod)
        expect_not_lost(current)
        return current if current["status"].get("phase") == "Running" else None

    return expect(bench, f"pod {pod} runs", probe)


def expect_not_lost(pod: Json) -> None:
    """Check that no kubelet refused the pod: such a pod is Failed for good."""
    status = pod["status"]
    assert status.get("phase") != "Failed", (
        f"pod {pod['metadata']['name']} was lost: {status.get('reason')}: {status.get('message')}"
    )


def list_running(bench: Bench, app: str = "") -> list[Json]:
    """List the running pods that are not being deleted, optionally by the label `app`."""
    return [
        pod
        for pod in bench.pods()
        if app in ("", pod["metadata"].get("labels", {}).get("app"))
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]


def expect_gone(bench: Bench, path: str) -> None:
    expect(bench, f"{path} is gone", lambda: not bench.cluster.api.exists(path))


def expect_bound(bench: Bench, pod: str) -> str:
    node: str = expect(bench, f"{pod} is bound", lambda: bench.pod(pod)["spec"].get("nodeName"))
    return node


def is_unschedulable(pod: Json) -> bool:
    """Tell whether the scheduler tried the pod and found no node."""
    return any(
        each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable"
        for each in pod.get("status", {}).get("conditions", [])
    )


def expect_offered(bench: Bench, node: str, amount: int = 15, *, resource: str = GPU_MEM) -> None:
    expect(
        bench,
        f"{node} offers {amount} {resource}",
        lambda: bench.node(node)["status"]["allocatable"].get(resource) == str(amount),
    )


# What the simulator recorded.


def is_isolated(pod: Json, container: str = "main") -> bool:
    """Tell whether the kernel limits the container to its share, by the simulator's record."""
    isolated: bool = read_record(pod)[container]["isolated"]
    return isolated


def expect_isolated(pod: Json) -> None:
    meta = pod["metadata"]
    assert is_isolated(pod), f"pod {meta['name']} is not isolated: {meta['annotations']}"


def read_record(pod: Json) -> Json:
    """Read the allocation of each container of an admitted pod."""
    record: Json = json.loads(pod["metadata"]["annotations"][names.CONTAINERS])
    return record


def started_at(pod: Json) -> datetime:
    """Return the time of the kubelet's admission of the pod."""
    return datetime.fromisoformat(pod["status"]["startTime"])


# What the operator recorded.


def read_change(node: Json) -> Json:
    """Read the change under way on a node; empty where there is none."""
    change: Json = json.loads(node["metadata"]["annotations"].get("gpushare.io/change", "{}"))
    return change


def list_traces(node: Json) -> list[str]:
    """List the operator's annotations and owned fields on a node. The annotation of a kernel module
    is left out: it outlives the pool."""
    meta = node["metadata"]
    managers = {entry["manager"] for entry in meta["managedFields"]}
    notes = {key for key in meta["annotations"] if key.startswith("gpushare.io/")}
    return [
        *sorted(notes - {"gpushare.io/module"}),
        *sorted(manager for manager in managers if "gpushare" in manager),
    ]


def is_out_of_service(node: Json) -> bool:
    """Tell whether the node is cordoned, or without GPU memory."""
    offered = node["status"].get("allocatable", {}).get(GPU_MEM, "0")
    return bool(node["spec"].get("unschedulable")) or offered == "0"


def read_events(bench: Bench, about: Json, reason: str | None = None) -> list[Json]:
    """List the operator's Events on an object, optionally of `reason`, the oldest first."""
    return sorted(
        (
            event
            for event in bench.call("GET", _EVENTS)["items"]
            if event["regarding"].get("uid") == about["metadata"]["uid"]
            and event.get("reportingController", "").startswith("gpushare.io/")
            and reason in (None, event["reason"])
        ),
        key=lambda event: str(event["eventTime"]),
    )
