"""The PromQL by which usage is read."""

from gpushare.analysis.usage.queries import build_peaks, build_selector, build_used
from tests.kit.values.card_pods import ACK_PROCESSES, OLD_HAMI


def test_labels_and_namespaces_can_not_end_their_quotes() -> None:
    selector = build_selector(OLD_HAMI, {"cluster": 'a"} or vector(1) or x{b="'}, ["team.a"])

    assert r'cluster="a\"} or vector(1) or x{b=\""' in selector
    assert r'podnamespace=~"team\\.a"' in selector


def test_two_readers_of_one_exporter_are_not_added_up() -> None:
    used = build_used(ACK_PROCESSES, build_selector(ACK_PROCESSES, {}))

    assert "max without (instance, job" in used
    assert "max by (podnamespace" in build_used(OLD_HAMI, build_selector(OLD_HAMI, {}))
    assert used.startswith("sum by (NamespaceName, PodName, NodeName)")


def test_the_peak_is_that_of_all_samples() -> None:
    assert "max_over_time(vGPU_device_memory_usage_in_bytes{" in build_peaks(
        OLD_HAMI, build_selector(OLD_HAMI, {}), 604800
    )
