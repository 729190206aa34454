"""The metrics that a process exports."""

import math

from gpushare.observe.metrics import Metrics


def test_a_process_without_a_certificate_reports_no_expiry() -> None:
    name = "gpushare_certificate_expiry_timestamp_seconds"
    assert math.isnan(Metrics().registry.get_sample_value(name) or 0.0)
