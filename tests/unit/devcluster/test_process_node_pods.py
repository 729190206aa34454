"""What a node of real processes reads from a Pod, and what it says of it."""

from pathlib import Path
from typing import Any

import pytest

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.processnode.addresses import pod_address, reach
from devcluster.processnode.host import Host, find_source, load_image
from devcluster.processnode.pod import Pod, Probe, UnplayableError, parse_container, parse_pod
from devcluster.processnode.probing import Tally
from devcluster.processnode.status import Ended, State, build_status
from devcluster.startup import PROJECT

Json = dict[str, Any]

ADDRESS = "10.96.0.1"
SINCE = "2026-01-01T00:00:00Z"


def a_pod(**container: Any) -> Json:
    """A Pod as the API server has it once it is bound, its defaults filled in."""
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    return {
        "metadata": {
            "name": "webhook-1",
            "namespace": "gpushare-system",
            "uid": "u1",
            "resourceVersion": "7",
            "labels": {"team": "ml"},
        },
        "spec": {
            "nodeName": "system-1",
            "nodeSelector": {names.RUNS_PROCESSES: "true"},
            "serviceAccountName": "gpushare-webhook",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 35,
            "volumes": [{"name": "kube-api-access", "projected": {"sources": [token]}}],
            "containers": [
                {
                    "name": "gpushare",
                    "image": "gpushare-operator:1",
                    "args": ["webhook"],
                    **container,
                }
            ],
        },
        "status": {"phase": "Pending"},
    }


def a_field(path: str) -> Json:
    return {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def an_http_probe(port: str | int = "metrics") -> Json:
    return {
        "httpGet": {"path": "/readyz", "port": port, "scheme": "HTTP"},
        "periodSeconds": 2,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def parsed(raw: Json) -> Pod:
    pod = parse_pod(raw)
    assert pod is not None
    return pod


def test_a_pod_is_played_where_it_selects_the_nodes_of_processes() -> None:
    assert parsed(a_pod()).account == "gpushare-webhook"
    other = a_pod()
    other["spec"]["nodeSelector"] = {"disk": "ssd"}
    assert parse_pod(other) is None


def test_a_pod_that_is_deleted_has_the_grace_of_its_deletion() -> None:
    assert parsed(a_pod()).grace_seconds == 35
    deleted = a_pod()
    deleted["metadata"] |= {"deletionTimestamp": SINCE, "deletionGracePeriodSeconds": 5}
    assert (parsed(deleted).is_deleted, parsed(deleted).grace_seconds) == (True, 5)


def test_a_token_is_mounted_where_a_volume_asks_for_it() -> None:
    assert parsed(a_pod()).token_seconds == 3607
    bare = a_pod()
    del bare["spec"]["volumes"]
    assert parsed(bare).token_seconds is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "webhook-1"),
        ("metadata.namespace", "gpushare-system"),
        ("metadata.labels['team']", "ml"),
        ("spec.nodeName", "system-1"),
        ("status.podIP", ADDRESS),
    ],
)
def test_fields_are_resolved_from_the_pod(path: str, value: str) -> None:
    env = [{"name": "PLAIN", "value": "1"}, a_field(path)]
    assert parse_container(a_pod(env=env), ADDRESS).env == {"PLAIN": "1", "FIELD": value}


def test_a_probe_finds_its_port_by_name() -> None:
    raw = a_pod(
        ports=[{"name": "metrics", "containerPort": 8080}], readinessProbe=an_http_probe("metrics")
    )
    container = parse_container(raw, ADDRESS)
    assert container.readiness == Probe("/readyz", 8080, 0, 2, 1, 1, 3)
    assert container.startup is None


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["sh"]},
        {"envFrom": [{"secretRef": {"name": "s"}}]},
        {"env": [{"name": "A", "value": "$(B)"}]},
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        {"livenessProbe": {**an_http_probe(1), "httpGet": {"port": 1, "scheme": "HTTPS"}}},
        {"livenessProbe": {"exec": {"command": ["true"]}}},
    ],
)
def test_what_only_a_real_kubelet_can_do_is_refused(container: Json) -> None:
    with pytest.raises(UnplayableError):
        parse_container(a_pod(**container), ADDRESS)


@pytest.mark.parametrize(
    ("image", "known"),
    [
        ("gpushare-operator:1", True),
        ("registry.example.com:5000/platform/gpushare-operator", True),
        ("registry.example.com:5000/gpushare-operator@sha256:0123", True),
        ("gpushare-operator-else:1", False),
    ],
)
def test_the_image_is_known_by_its_repositorys_last_name(image: str, known: bool) -> None:
    assert Host.finds_no_image(image) is not known


def test_a_tag_that_was_loaded_is_another_program_than_this_checkout(tmp_path: Path) -> None:
    cluster = Cluster("images", tmp_path)
    load_image(cluster, "previous", "/elsewhere")
    for image in ("gpushare-operator:previous", "localhost:5000/gpushare-operator:previous"):
        assert find_source(cluster, image) == "/elsewhere"
    for image in ("gpushare-operator:0.1.0", "localhost:5000/gpushare-operator"):
        assert find_source(cluster, image) == str(PROJECT / "operator")


def test_probes_count_by_their_thresholds() -> None:
    probe = Probe("/", 1, 0, 1, 1, success_threshold=2, failure_threshold=3)
    tally, said = Tally(), []
    for succeeded in (True, True, False, False, True, False, False, False):
        tally = tally.add(succeeded)
        said.append(tally.judge(probe))
    assert said == [None, True, None, None, None, None, None, False]


# Its status.


def told(state: State) -> Json:
    return build_status(parsed(a_pod()), "gpushare", "i", state, address=ADDRESS, since=SINCE)


def container_of(status: Json) -> Json:
    (container,) = status["containerStatuses"]
    found: Json = container
    return found


def test_a_container_that_runs_is_known_by_its_process() -> None:
    status = told(State("Running", pid=12, started_at=SINCE, is_started=True, is_ready=True))
    assert container_of(status)["containerID"] == "process://12"
    assert container_of(status)["state"] == {"running": {"startedAt": SINCE}}
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions == {"Initialized": "True", "ContainersReady": "True", "Ready": "True"}
    assert status["podIP"] == ADDRESS


def test_one_that_died_waits_and_its_end_is_told() -> None:
    state = State(
        "Running", ended=Ended(137, SINCE, SINCE), waits_for=("CrashLoopBackOff", ""), restarts=1
    )
    container = container_of(told(state))
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["lastState"]["terminated"]["exitCode"] == 137
    assert (container["restartCount"], container["ready"]) == (1, False)


def test_a_jobs_container_that_is_done_is_over() -> None:
    container = container_of(told(State("Succeeded", ended=Ended(0, SINCE, SINCE))))
    assert container["state"]["terminated"]["reason"] == "Completed"


# Addresses.


def test_pods_of_two_clusters_share_no_address() -> None:
    own, others = (
        {pod_address(first, number) for number in range(1, 5000)} for first in (21000, 21020)
    )
    assert own.isdisjoint(others)


def test_a_pod_listens_on_this_machine() -> None:
    assert reach("10.96.10.1") == "127.96.10.1"
