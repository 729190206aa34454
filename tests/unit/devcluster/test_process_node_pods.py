"""What a node of real processes reads from a Pod, and what it says of it."""

from pathlib import Path
from typing import Any

import pytest

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.processnode.host import find_source, load_image
from devcluster.processnode.pod import Pod, Probe, UnplayableError, parse_container, parse_pod
from devcluster.processnode.probing import Tally
from devcluster.startup import PROJECT

Json = dict[str, Any]

ADDRESS = "10.96.0.1"


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
