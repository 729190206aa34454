"""The log is JSON, has one line for each write, and is silent where nothing happens."""

import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from devcluster.apiserver import ApiError
from devcluster.installation import OperatorProcess
from tests.kit.arrange import POOL, given_sharing_pool
from tests.kit.audit import Call
from tests.kit.bench import Bench
from tests.kit.builders import build_pod, build_workload
from tests.kit.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_reason,
)
from tests.kit.faultproxy import FaultProxy, Rule
from tests.kit.loglines import SUBJECT, Json, news, read_lines
from tests.kit.refusal import RefusedNode
from tests.kit.spaces import a_space

PLACEMENT = "ack.node.gpu.placement"
SECRET = "hunter2-of-the-tenant"
BURST = 30
REST_SECONDS = 8
OUTAGE_SECONDS = 12
LINES_A_SECOND = 5
"""Of one process, with six watches and the Lease."""
ON_PODS = ("deleted", "evicted")
VERBOSE = {
    "GPUSHARE_LOG_LEVEL": "DEBUG",
    "GPUSHARE_LEASE_DURATION_SECONDS": "120",
    "GPUSHARE_LEASE_RENEW_SECONDS": "5",
}
_SECRET = "/api/v1/namespaces/gpushare-system/secrets/gpushare-webhook-tls"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@dataclass
class Story:
    """What was done, and what the two processes said of it."""

    controller: OperatorProcess
    webhook: OperatorProcess
    lines: list[Json]
    """The controller's."""
    admissions: list[Json]
    """The webhook's lines."""
    writes: list[Call]
    """What the controller wrote in the same time, by the audit log; all of it went through."""
    refused: list[Call]
    """What it tried to write, and was refused."""
    space: str
    """The namespace of the pods that were created."""
    rest: list[Json]
    """Lines of both while nothing happened."""
    outage: list[Json]
    """The controller's lines while the API server was away."""
    secrets: list[str]
    """Texts that no log may quote."""


@pytest.fixture(scope="module")
def story(installed: Bench) -> Iterator[Story]:
    """A pool's life: nodes come, pods come, somebody changes a label, the mode changes, a write is
    refused, the API server is away, the pool goes."""
    installation = installed.operators.installation
    installation.values = {"eviction.enabled": "true"}
    installation.apply()
    with FaultProxy(installed.cluster) as proxy:
        yield play(installed, proxy)
    installed.clear()
    installation.values = {}
    installation.apply()


def play(bench: Bench, proxy: FaultProxy) -> Story:
    env = VERBOSE | {"GPUSHARE_ALLOW_EVICTION": "true"}
    webhook = bench.operators.start("webhook", env=env)
    controller = bench.operators.start("controller", env=env, api_url=proxy.url)
    mark = bench.audit.mark()
    given_sharing_pool(bench, "Professional", "n1", "n2", placement="binpack")
    space = send_pods(bench)
    bench.label("n1", {PLACEMENT: "spread"})
    expect_labels(bench, "n1", {PLACEMENT: "binpack"})
    template = build_pod("web", selects={POOL: "training"}, env={"PASSWORD": SECRET})
    bench.call("POST", _DEPLOYMENTS, build_workload("Deployment", "web", replicas=2, pod=template))
    expect(bench, "both run", lambda: len(running(bench)) == 2)
    bench.change_pool(schedule="cgpu", rollout={"workloads": "Evict"})
    expect_pool_ready(bench, nodes=2, within=90)
    bench.call("DELETE", f"{_DEPLOYMENTS}/web")
    expect(bench, "they are gone", lambda: not running(bench))
    with RefusedNode(bench, "n2"):
        bench.change_pool(placement="spread")
        expect_reason(bench, "n2", "WriteRefused")
    ready = expect_pool_ready(bench, nodes=2)
    # It logs what it wrote when the API server has answered.
    expect(
        bench, "the log says so", lambda: says_ready(controller, ready["metadata"]["generation"])
    )

    rests = [controller.log.stat().st_size, webhook.log.stat().st_size]
    began = time.monotonic()
    expect(bench, "time goes by", lambda: time.monotonic() - began > REST_SECONDS)
    rest = [*read_lines(controller, rests[0]), *read_lines(webhook, rests[1])]

    began_at, began = controller.log.stat().st_size, time.monotonic()
    away = proxy.add(Rule(".*", "", times=None, cut="request"))
    expect(bench, "time goes by", lambda: time.monotonic() - began > OUTAGE_SECONDS)
    outage = read_lines(controller, began_at)
    away.remove()
    bench.label("n1", {PLACEMENT: "binpack"})
    expect_labels(bench, "n1", {PLACEMENT: "spread"})
    expect_pool_ready(bench, nodes=2)

    bench.delete_pool()
    expect_gone(bench, "/apis/gpushare.io/v1alpha1/gpusharepools/training")
    expect(bench, "it says that the pool went", lambda: says(controller, "finalizer taken off"))
    controller.stop()
    webhook.stop()
    secrets = [SECRET, *read_key(bench), *map(read_token, (controller, webhook))]
    ours = [c for c in bench.audit.our_writes(mark) if c.user.endswith("gpushare-controller")]
    return Story(
        controller,
        webhook,
        read_lines(controller),
        read_lines(webhook),
        [call for call in ours if call.succeeded],
        [call for call in ours if not call.succeeded],
        space,
        rest,
        outage,
        secrets,
    )


def says(controller: OperatorProcess, text: str) -> bool:
    """Whether a line of the log has the text."""
    return any(text in line["msg"] for line in read_lines(controller))


def says_ready(controller: OperatorProcess, generation: int) -> bool:
    """Whether the log tells that the pool is Ready as it is specified now."""
    told = {(line.get("reason"), line.get("generation")) for line in read_lines(controller)}
    return ("AllNodesReady", generation) in told


def send_pods(bench: Bench) -> str:
    """Pods that are sent to the pool, one that is left alone, and one that is refused, in a
    namespace of their own."""
    with a_space(bench, {"gpushare.io/on-no-pool": "deny"}) as space:
        for number in range(BURST):
            space.create(build_pod(f"burst-{number}", env={"PASSWORD": SECRET}))
        space.create(build_pod("quiet", annotations={"gpushare.io/inject": "disabled"}))
        with pytest.raises(ApiError):
            space.create(build_pod("lost", core=30, env={"PASSWORD": SECRET}))
    return space.name


def running(bench: Bench) -> list[Json]:
    return [pod for pod in bench.pods() if pod["status"].get("phase") == "Running"]


def read_key(bench: Bench) -> list[str]:
    """The webhook's private key, as its Secret has it and as it is."""
    encoded: str = bench.call("GET", _SECRET)["data"]["tls.key"]
    return [encoded[:60], *b64decode(encoded).decode().splitlines()[1:-1]]


def read_token(process: OperatorProcess) -> str:
    """What the API server knows the process by; it never is its own to write down."""
    if (kubeconfig := process.settings.get("GPUSHARE_KUBECONFIG")) is None:
        return Path(process.settings["GPUSHARE_SERVICE_ACCOUNT"], "token").read_text()
    (user,) = yaml.safe_load(Path(kubeconfig).read_text())["users"]
    token: str = user["user"]["token"]
    return token


def count_writes(story: Story, resource: str, verb: str = "patch") -> Counter[str]:
    """By object, how often it was written, as the API server has it."""
    return Counter(
        call.name for call in story.writes if (call.resource, call.verb) == (resource, verb)
    )


def expect_told(lines: list[Json]) -> None:
    """Each says what it is about, and why."""
    assert lines
    for line in lines:
        assert line.keys() >= SUBJECT, f"expected {sorted(SUBJECT)}: {line}"


def of_logger(story: Story, name: str) -> list[Json]:
    return [line for line in story.lines if line["logger"] == f"gpushare.controller.{name}"]


def test_each_write_to_a_node_is_one_line(story: Story) -> None:
    told = [line for line in of_logger(story, "apply") if not line["msg"].startswith(ON_PODS)]
    assert Counter(line["node"] for line in told) == count_writes(story, "nodes")
    assert {line["level"] for line in told} == {"INFO"}
    expect_told(told)


@pytest.mark.parametrize(
    ("said", "resource", "verb"),
    [
        ("deleted plugin pod ", "pods", "delete"),
        ("evicted pod default/", "pods/eviction", "create"),
    ],
)
def test_each_pod_that_is_sent_away_is_one_line(
    story: Story, said: str, resource: str, verb: str
) -> None:
    told = [line for line in of_logger(story, "apply") if line["msg"].startswith(said)]
    pods = Counter(line["msg"].removeprefix(said) for line in told)
    assert pods == count_writes(story, resource, verb)
    expect_told(told)
    assert all(line["node"] for line in told)


def test_each_write_to_a_pool_is_one_line(story: Story) -> None:
    finalizers = of_logger(story, "pools")
    assert len(finalizers) == count_writes(story, "gpusharepools").total() == 2
    statuses = [line for line in of_logger(story, "statuses") if "node" not in line]
    assert len(statuses) == count_writes(story, "gpusharepools/status").total()
    expect_told([*finalizers, *statuses])


def test_a_status_that_changes_no_condition_is_no_news(story: Story) -> None:
    levels = {
        line["msg"].startswith("new figures"): line["level"]
        for line in of_logger(story, "statuses")
        if "node" not in line
    }
    assert levels == {True: "DEBUG", False: "INFO"}


def test_each_refused_write_to_a_node_is_one_line(story: Story) -> None:
    refused = Counter(call.name for call in story.refused if call.resource == "nodes")
    told = [
        line
        for line in of_logger(story, "reconcile")
        if line["msg"].startswith(("tried again: APPLY", "node changed meanwhile"))
    ]
    assert refused["n2"] > 0
    assert Counter(line["node"] for line in told) == refused
    expect_told(told)


def test_each_decision_on_a_pod_is_one_line(story: Story) -> None:
    told = {line["pod"]: line for line in story.admissions if line.get("namespace") == story.space}
    levels = Counter((line["level"], line["reason"]) for line in told.values())
    assert levels == {
        ("INFO", "RoutedWithoutIsolation"): BURST,
        ("DEBUG", "OptedOut"): 1,
        ("WARNING", "NoEligiblePool"): 1,
    }
    assert told["burst-0"]["pool"] == "training"


def test_where_nothing_happens_nothing_is_said(story: Story) -> None:
    assert news(story.rest) == []


def test_an_outage_says_so_now_and_then(story: Story) -> None:
    assert 1 <= len(story.outage) <= LINES_A_SECOND * OUTAGE_SECONDS
    assert {line["level"] for line in story.outage} <= {"WARNING", "ERROR"}


def test_no_line_quotes_a_pod_a_token_or_a_key(story: Story) -> None:
    for process in (story.controller, story.webhook):
        log = process.log.read_text()
        assert [secret for secret in story.secrets if secret in log] == []
