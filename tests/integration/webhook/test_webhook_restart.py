"""The API server is away for a moment, and the webhook is not told."""

from tests.kit.bench import Bench
from tests.kit.cluster.dry_run_pods import expect_routed
from tests.kit.cluster.operator_processes import wait_ready
from tests.kit.values.manifests import build_pool


def test_an_api_server_that_was_away_for_a_moment_is_served_again(bench: Bench) -> None:
    bench.create_pool(build_pool())
    webhook = bench.operators.start("webhook")
    expect_routed(bench)
    bench.cluster.restart("kube-apiserver")
    expect_routed(bench)
    wait_ready(webhook)
    assert webhook.alive
