"""Another webhook changes a pod after us: the API server asks again, and nothing is done twice."""

import pytest

from tests.integration.webhook.fake_webhook import another_that
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.pod_admission import count_calls, decision_of, given_pools, pool_of
from tests.kit.values.manifests import Json, build_pod

ADMISSIONS = "gpushare_admission_requests_total"
ADDS_A_LABEL = {"op": "add", "path": "/metadata/labels/changed", "value": "yes"}


def send(bench: Bench, pod: Json) -> Json:
    """The pod as it would be created."""
    return default_namespace(bench).send(pod)


@pytest.mark.usefixtures("operator")
def test_a_pod_that_another_webhook_changed_is_left_as_it_was_sent(bench: Bench) -> None:
    operator = bench.operators.standard()
    given_pools(bench, training={})
    pod = build_pod("p")
    pod["metadata"]["labels"] = {"another": "please"}
    with another_that(bench, ADDS_A_LABEL):
        expect(bench, "it is asked", lambda: "changed" in send(bench, pod)["metadata"]["labels"])
        calls, known = count_calls(bench), read_metric(operator, ADMISSIONS, reason="AlreadyRouted")
        sent = send(bench, pod)
        asked = count_calls(bench) - calls
    assert sent["metadata"]["labels"]["changed"] == "yes"
    assert asked == {"pods.gpushare.io": 2}
    assert read_metric(operator, ADMISSIONS, reason="AlreadyRouted") == known + 1
    assert (pool_of(sent), decision_of(sent)["reason"]) == ("training", "RoutedWithoutIsolation")
