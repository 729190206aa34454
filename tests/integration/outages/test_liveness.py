"""What /livez says: red where a restart helps, and nowhere else."""

import time
from contextlib import ExitStack
from functools import partial
from urllib.error import HTTPError

from devcluster.installation import OperatorProcess
from tests.integration.outages.fault_scenario import WATCH
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.operator_processes import fetch, read_metric

STALL_SECONDS = 45
"""As short as it may be set."""
LATE_SECONDS = 10
LONG_LEASE = {"GPUSHARE_LEASE_DURATION_SECONDS": "300"}
"""So that whoever is without an API server does not end for another reason."""
SETTINGS = {**LONG_LEASE, "GPUSHARE_STALL_SECONDS": str(STALL_SECONDS)}
WATCHES = f"/(nodes|gpusharepools)[?].*{WATCH}"
OF_NODES = "the watch of api/v1/nodes is open"
OF_POOLS_BY_KOPF = "the watch of gpusharepools is open"
OF_POOLS_BY_THE_WEBHOOK = "the watch of apis/gpushare.io/v1alpha1/gpusharepools is open"
SILENT = (OF_NODES, OF_POOLS_BY_KOPF, OF_POOLS_BY_THE_WEBHOOK)


def find_ill(process: OperatorProcess) -> str:
    """What /livez says is wrong; empty where nothing is."""
    try:
        fetch(process, "/livez")
    except HTTPError as answer:
        return answer.read().decode()
    return ""


def is_long_unheard(process: OperatorProcess) -> bool:
    """Whether the process has heard nothing of nodes for longer than the limit."""
    name = "gpushare_watch_last_event_timestamp_seconds"
    return time.time() - read_metric(process, name, resource="nodes") > STALL_SECONDS


def test_a_process_with_deaf_watches_is_not_live_and_one_without_an_api_server_is(
    bench: Bench,
) -> None:
    """All at the same time: the API server is there, refuses every connection, or never answers."""
    with ExitStack() as stack:
        deafening, refusing, stalling = (
            stack.enter_context(FaultProxy(bench.cluster)) for _ in range(3)
        )
        # Before the proxies, which they would go on calling.
        stack.callback(bench.operators.end)
        start = bench.operators.start
        silent = start("run", identity="deaf", env=SETTINGS, api_url=deafening.url)
        refused = start("controller", identity="refused", env=SETTINGS, api_url=refusing.url)
        stalled = start("controller", identity="stalled", env=SETTINGS, api_url=stalling.url)

        deafening.add(Rule("GET", WATCHES, times=None, mute=True))
        refusing.add(Rule(".*", "", times=None, cut="request"))
        stalling.add(Rule(".*", "", times=None, stall=True))
        began = time.monotonic()
        for proxy, path in ((deafening, WATCHES), (refusing, ""), (stalling, "")):
            proxy.cut(path)

        expect(
            bench,
            "deaf watches are told of, each",
            lambda: all(sentence in find_ill(silent) for sentence in SILENT),
            within_seconds=STALL_SECONDS + LATE_SECONDS,
        )
        assert time.monotonic() - began > STALL_SECONDS - LATE_SECONDS
        for away in (refused, stalled):
            expect(
                bench,
                f"{away.identity} has heard nothing for longer than that",
                partial(is_long_unheard, away),
            )
            assert find_ill(away) == ""

        deafening.remove_all()
        deafening.cut(WATCHES)
        expect(bench, "it hears again", lambda: find_ill(silent) == "")
        assert silent.alive
