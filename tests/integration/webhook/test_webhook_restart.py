"""The webhook's processes, and the API server's, come and go while pods are created."""

from tests.integration.webhook.webhook_replicas import two_webhooks
from tests.kit.bench import Bench
from tests.kit.cluster.dry_run_pods import expect_routed, no_call_lost
from tests.kit.cluster.operator_processes import wait_ready
from tests.kit.values.manifests import build_pool

PODS_PER_SECOND = 100


def test_a_rolling_restart_costs_no_call(strict: Bench) -> None:
    with two_webhooks(strict, {"GPUSHARE_DRAIN_SECONDS": "2"}) as processes:
        expect_routed(strict)
        with no_call_lost(strict, per_second=PODS_PER_SECOND):
            for process in processes:
                process.stop()
                assert process.process.returncode == 0, process.log.read_text()[-2000:]
                wait_ready(strict.operators.restart(process))


def test_an_api_server_that_was_away_for_a_moment_is_served_again(bench: Bench) -> None:
    bench.create_pool(build_pool())
    webhook = bench.operators.start("webhook")
    expect_routed(bench)
    bench.cluster.restart("kube-apiserver")
    expect_routed(bench)
    wait_ready(webhook)
    assert webhook.alive
