"""The metrics that a process exports."""

import math

from gpushare.observe.metrics import Metrics


def test_a_process_without_a_certificate_reports_no_expiry() -> None:
    name = "gpushare_certificate_expiry_timestamp_seconds"
    assert math.isnan(Metrics().registry.get_sample_value(name) or 0.0)


def test_requests_to_the_api_server_are_counted_by_verb_resource_and_code() -> None:
    metrics = Metrics()
    metrics.observe_api_request("PATCH", "nodes", 200)
    metrics.observe_api_request("PATCH", "nodes", 200)
    labels = {"verb": "PATCH", "resource": "nodes", "code": "200"}
    assert metrics.registry.get_sample_value("gpushare_api_requests_total", labels) == 2
