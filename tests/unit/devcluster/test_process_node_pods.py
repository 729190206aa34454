"""What a node of real processes reads from a Pod."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.processnode.host import find_source, load_image
from devcluster.processnode.pod import Probe, UnplayableError, parse_container, parse_pod
from devcluster.processnode.probing import Tally
from devcluster.startup import PROJECT

Json = dict[str, Any]

ADDRESS = "10.96.0.1"


def a_pod(selects: Mapping[str, str] | None = None, **container: Any) -> Json:
    """A Pod as the API server has it once it is bound, its defaults filled in."""
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "resourceVersion": "7"},
        "spec": {
            "nodeName": "system-1",
            "nodeSelector": selects or {names.RUNS_PROCESSES: "true"},
            "serviceAccountName": "gpushare-webhook",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 35,
            "containers": [{"name": "main", "image": "gpushare-operator:1", **container}],
        },
        "status": {"phase": "Pending"},
    }


def test_a_pod_is_played_where_it_selects_the_nodes_of_processes() -> None:
    assert parse_pod(a_pod()) is not None
    assert parse_pod(a_pod({"disk": "ssd"})) is None


PROBE = {"periodSeconds": 2, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["sh"]},
        {"envFrom": [{"secretRef": {"name": "s"}}]},
        {"env": [{"name": "A", "value": "$(B)"}]},
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        {"livenessProbe": {**PROBE, "httpGet": {"port": 1, "scheme": "HTTPS"}}},
        {"livenessProbe": {**PROBE, "exec": {"command": ["true"]}}},
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
