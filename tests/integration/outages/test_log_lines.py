"""The log is JSON, has one line for each write, and quotes no secret."""

from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson
import pytest

from devcluster.installation import OperatorProcess
from tests.kit.bench import PLACEMENT, POOL, Bench, Json
from tests.kit.cluster.audit_log import Call
from tests.kit.cluster.denying_policy import node_writes_denied
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_reason,
    list_running,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pod, build_workload

ALWAYS = ("ts", "level", "logger", "msg")
"""Keys of every line, in this order."""
SUBJECT = frozenset({"pool", "generation", "reason", "reconcile_id"})
"""Keys of every line about a change of the controller's."""


def read_lines(process: OperatorProcess) -> list[Json]:
    """The whole lines of the log, each of which must be one of ours."""
    with process.log.open("rb") as log:
        return [parse_line(line) for line in log if line.endswith(b"\n")]


def parse_line(line: bytes) -> Json:
    """A line of the log; AssertionError where it is none."""
    try:
        parsed: Json = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise AssertionError(f"no line of JSON: {line!r}") from error
    assert tuple(parsed)[: len(ALWAYS)] == ALWAYS, f"expected {ALWAYS} first: {line!r}"
    datetime.strptime(parsed["ts"], "%Y-%m-%dT%H:%M:%S.%fZ")
    return parsed


SECRET = "hunter2-of-the-tenant"
VERBOSE = {
    "GPUSHARE_LOG_LEVEL": "DEBUG",
    "GPUSHARE_LEASE_DURATION_SECONDS": "120",
    "GPUSHARE_LEASE_RENEW_SECONDS": "5",
    "GPUSHARE_ALLOW_EVICTION": "true",
}
_TLS = "/api/v1/namespaces/gpushare-system/secrets/gpushare-webhook-tls"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@dataclass
class Story:
    """What was done, and what the two processes said of it."""

    lines: list[Json]
    """The controller's."""
    writes: list[Call]
    """What the controller wrote or tried to write in the same time, by the audit log."""
    leaks: list[str]
    """Texts that no log may quote, and one of them does."""

    def of_logger(self, name: str) -> list[Json]:
        return [each for each in self.lines if each["logger"] == f"gpushare.controller.{name}"]

    def count(self, resource: str, verb: str = "patch", *, refused: bool = False) -> Counter[str]:
        """By object, how often it was written, as the API server has it."""
        return Counter(
            call.name
            for call in self.writes
            if (call.resource, call.verb) == (resource, verb) and call.succeeded is not refused
        )


@pytest.fixture(scope="module")
def story(installed: Bench) -> Iterator[Story]:
    """A pool's life: nodes come, pods come, somebody changes a label, the mode changes, a write is
    refused, the pool goes."""
    installation = installed.operators.installation
    installation.values = {"eviction.enabled": "true"}
    installation.apply()
    yield play(installed)
    installed.clear()
    installation.values = {}
    installation.apply()


def play(bench: Bench) -> Story:
    webhook = bench.operators.start("webhook", env=VERBOSE)
    controller = bench.operators.start("controller", env=VERBOSE)
    mark = bench.audit.mark()
    given_sharing_pool(bench, "Professional", "n1", "n2", placement="binpack")
    bench.label("n1", {PLACEMENT: "spread"})
    expect_labels(bench, "n1", {PLACEMENT: "binpack"})
    template = build_pod("web", selects={POOL: "training"}, env={"PASSWORD": SECRET})
    bench.call("POST", _DEPLOYMENTS, build_workload("Deployment", "web", replicas=2, pod=template))
    expect(bench, "both run", lambda: len(list_running(bench)) == 2)
    bench.change_pool(schedule="cgpu", rollout={"workloads": "Evict"})
    expect_pool_ready(bench, nodes=2, within=90)
    bench.call("DELETE", f"{_DEPLOYMENTS}/web")
    expect(bench, "they are gone", lambda: len(list_running(bench)) == 0)
    with node_writes_denied(bench, "n2"):
        bench.change_pool(placement="spread")
        expect_reason(bench, "n2", "WriteRefused")
    version = expect_pool_ready(bench, nodes=2)["metadata"]["generation"]
    # It logs what it wrote when the API server has answered.
    expect_line(bench, controller, reason="AllNodesReady", generation=version)

    bench.delete_pool()
    expect_gone(bench, "/apis/gpushare.io/v1alpha1/gpusharepools/training")
    expect_line(bench, controller, msg="finalizer removed")
    controller.stop()
    webhook.stop()
    logs = controller.log.read_text() + webhook.log.read_text()
    ours = [c for c in bench.audit.our_writes(mark) if c.user.endswith("gpushare-controller")]
    return Story(
        read_lines(controller),
        ours,
        [secret for secret in list_secrets(bench, controller, webhook) if secret in logs],
    )


def expect_line(bench: Bench, process: OperatorProcess, **parts: object) -> None:
    """Until the log has a line with these values; that of `msg` may be a part of it."""

    def is_it(line: Json) -> bool:
        begins = line["msg"].startswith(str(parts.get("msg", "")))
        return begins and all(line.get(key) == parts[key] for key in parts.keys() - {"msg"})

    expect(bench, f"the log says {parts}", lambda: any(map(is_it, read_lines(process))))


def list_secrets(
    bench: Bench, controller: OperatorProcess, webhook: OperatorProcess
) -> Iterator[str]:
    """A pod's, each process's token, the webhook's key as its Secret has it and as it is."""
    yield SECRET
    for process in (controller, webhook):
        yield Path(process.settings["GPUSHARE_SERVICE_ACCOUNT"], "token").read_text()
    encoded: str = bench.call("GET", _TLS)["data"]["tls.key"]
    yield encoded[:60]
    yield from b64decode(encoded).decode().splitlines()[1:-1]


def expect_told(lines: list[Json]) -> None:
    """Each says what it is about, and why."""
    assert lines
    for line in lines:
        assert line.keys() >= SUBJECT, f"expected {sorted(SUBJECT)}: {line}"


def test_each_write_to_a_node_or_its_pods_is_one_line(story: Story) -> None:
    told = story.of_logger("executor")
    deleted, on_nodes = split(told, "deleted plugin pod ")
    evicted, on_nodes = split(on_nodes, "evicted pod default/")
    assert deleted == story.count("pods", "delete")
    assert evicted == story.count("pods/eviction", "create")
    assert Counter(line["node"] for line in on_nodes) == story.count("nodes")
    assert {line["level"] for line in on_nodes} == {"INFO"}
    assert all(line["node"] for line in told)
    expect_told(told)


def split(lines: list[Json], said: str) -> tuple[Counter[str], list[Json]]:
    """How often each object is told of after these words, and the other lines."""
    told = [line["msg"] for line in lines if line["msg"].startswith(said)]
    others = [line for line in lines if not line["msg"].startswith(said)]
    return Counter(message.removeprefix(said) for message in told), others


def test_each_write_to_a_pool_is_one_line_and_news_where_a_condition_changed(story: Story) -> None:
    finalizers = story.of_logger("pool_store")
    assert len(finalizers) == story.count("gpusharepools").total() == 2
    statuses = [line for line in story.of_logger("status_writer") if "node" not in line]
    assert len(statuses) == story.count("gpusharepools/status").total()
    expect_told([*finalizers, *statuses])
    levels = {line["msg"].startswith("new figures"): line["level"] for line in statuses}
    assert levels == {True: "DEBUG", False: "INFO"}


def test_each_refused_write_to_a_node_is_one_line(story: Story) -> None:
    refused = story.count("nodes", refused=True)
    starts = ("tried again: APPLY", "node changed meanwhile")
    told = [line for line in story.of_logger("reconciler") if line["msg"].startswith(starts)]
    assert refused["n2"] > 0
    assert Counter(line["node"] for line in told) == refused
    expect_told(told)


def test_no_line_quotes_a_pod_a_token_or_a_key(story: Story) -> None:
    assert story.leaks == []
