"""The webhook's processes come and go while pods are created, and no call of theirs fails."""

from tests.kit.bench import Bench
from tests.kit.builders import build_pod
from tests.kit.dryruns import DryRuns, count_lost, expect_routed
from tests.kit.operator import wait_ready
from tests.kit.webhooks import two_webhooks

PODS_PER_SECOND = 100


def test_a_rolling_restart_costs_no_call(strict: Bench) -> None:
    with two_webhooks(strict, {"GPUSHARE_DRAIN_SECONDS": "2"}) as processes:
        expect_routed(strict)
        lost = count_lost(strict)
        with DryRuns(strict, build_pod("p"), per_second=PODS_PER_SECOND) as pods:
            for process in processes:
                process.stop()
                assert process.process.returncode == 0, process.log.read_text()[-2000:]
                wait_ready(strict.operators.restart(process))
        assert pods.failures == []
        assert count_lost(strict) == lost
        assert pods.sent > 0.8 * PODS_PER_SECOND * pods.seconds
