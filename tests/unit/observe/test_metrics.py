"""The metrics that a process exports."""

import math

import pytest

from gpushare import __version__
from gpushare.observe.metrics import Metrics


def test_the_version_is_exported() -> None:
    labels = {"version": __version__}
    assert Metrics().registry.get_sample_value("gpushare_build_info", labels) == 1


def test_a_process_without_a_certificate_reports_no_expiry() -> None:
    name = "gpushare_certificate_expiry_timestamp_seconds"
    assert math.isnan(Metrics().registry.get_sample_value(name) or 0.0)


def test_requests_to_the_api_server_are_counted_by_verb_resource_and_code() -> None:
    metrics = Metrics()
    metrics.observe_api_request("PATCH", "nodes", 200)
    metrics.observe_api_request("PATCH", "nodes", 200)
    labels = {"verb": "PATCH", "resource": "nodes", "code": "200"}
    assert metrics.registry.get_sample_value("gpushare_api_requests_total", labels) == 2


def test_a_watch_that_is_heard_of_leaves_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1234.5)
    metrics = Metrics()
    metrics.observe_watch("gpusharepools")
    name = "gpushare_watch_last_event_timestamp_seconds"
    assert metrics.registry.get_sample_value(name, {"resource": "gpusharepools"}) == 1234.5


def test_two_processes_in_one_test_run_do_not_share_metrics() -> None:
    one, other = Metrics(), Metrics()
    one.leader.set(1)
    assert other.registry.get_sample_value("gpushare_leader") == 0
