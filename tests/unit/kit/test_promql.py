"""What is read out of PromQL."""

import pytest

from tests.unit.chart.promql import list_matched_labels, list_metrics


@pytest.mark.parametrize(
    ("expression", "metrics"),
    [
        ("up", {"up"}),
        ("sum by (pool) (gpushare_a_bytes) / 2e9", {"gpushare_a_bytes"}),
        ('rate(a_total{code=~"[45].."}[$__rate_interval]) > bool 0', {"a_total"}),
        ("a and on (instance) b unless ignoring (x) c:d:e", {"a", "b", "c:d:e"}),
        (
            'label_replace(a, "node", "$1", "Hostname", "(.+)") * on (n) group_left (p) b',
            {"a", "b"},
        ),
        ("histogram_quantile(0.99, sum(rate(x_bucket[5m])) by (le))", {"x_bucket"}),
        ('count(x == 0) or vector(0) or {job="y"}', {"x"}),
        ("time() - max(t offset 5m)", {"t"}),
    ],
)
def test_metrics_are_told_from_functions_words_and_labels(
    expression: str, metrics: set[str]
) -> None:
    assert list_metrics(expression) == metrics


def test_labels_are_told_with_the_metric_that_they_are_of() -> None:
    expression = 'a{x="1", y!~"b{z}"} / b{x=~"$v"}'
    assert list_matched_labels(expression) == {("a", "x"), ("a", "y"), ("b", "x")}
