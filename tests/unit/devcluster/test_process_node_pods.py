"""What a node of real processes reads from a Pod."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.processnode.host import find_source, load_image
from devcluster.processnode.pod import UnplayableError, parse_container
from devcluster.startup import PROJECT
from tests.kit.values.manifests import Json

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
