"""What /livez says: red where a restart helps."""

import time
from urllib.error import HTTPError

from devcluster.installation import OperatorProcess
from tests.integration.outages.fault_scenario import WATCH
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.operator_processes import fetch

STALL_SECONDS = 45
"""As short as it may be set."""
LATE_SECONDS = 10
SETTINGS = {"GPUSHARE_STALL_SECONDS": str(STALL_SECONDS)}
WATCHES = f"/(nodes|gpusharepools)[?].*{WATCH}"
OF_NODES = "the watch of api/v1/nodes has been silent"
OF_POOLS_BY_THE_WEBHOOK = "the watch of apis/gpushare.io/v1alpha1/gpusharepools has been silent"
SILENT = (OF_NODES, OF_POOLS_BY_THE_WEBHOOK)


def find_ill(process: OperatorProcess) -> str:
    """What /livez says is wrong; empty where nothing is."""
    try:
        fetch(process, "/livez")
    except HTTPError as answer:
        return answer.read().decode()
    return ""


def test_a_process_with_deaf_watches_is_not_live_until_it_hears_again(bench: Bench) -> None:
    with FaultProxy(bench.cluster) as proxy:
        process = bench.operators.start("run", env=SETTINGS, api_url=proxy.url)
        proxy.add(Rule("GET", WATCHES, times=None, mute=True))
        began = time.monotonic()
        proxy.cut(WATCHES)

        expect(
            bench,
            "deaf watches are told of, each",
            lambda: all(sentence in find_ill(process) for sentence in SILENT),
            within_seconds=STALL_SECONDS + LATE_SECONDS,
        )
        assert time.monotonic() - began > STALL_SECONDS - LATE_SECONDS

        proxy.remove_all()
        proxy.cut(WATCHES)
        expect(bench, "it hears again", lambda: find_ill(process) == "")
        assert process.alive
        # Before the proxy, which it would go on calling.
        bench.operators.end()
