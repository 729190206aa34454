"""What every fault is measured by: a pool that changes its mode, and the same without the fault."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson

from devcluster.installation import OperatorProcess
from tests.kit.bench import NODES, POOL, Bench, Json
from tests.kit.cluster.expect import expect, expect_labels, expect_pool_ready
from tests.kit.cluster.fault_proxy import FaultProxy, Request, Rule
from tests.kit.cluster.sharing_pools import (
    expect_each_restarted_once,
    expect_one_node_at_a_time,
    given_sharing_pool,
    plugin_names,
)
from tests.kit.cluster.watch_recording import Recording

MEMBERS = ("n1", "n2", "n3")
ISOLATION = "cgpu.disable.isolation"
OURS = frozenset({POOL, "cgpu", ISOLATION})
CONVERGES_SECONDS = 30.0
ON_ITS_WAY_SECONDS = 1.0
WATCH = "watch=true"
LIST_OF_POOLS = "/gpusharepools[?].*limit=500"
"""Kopf's and ours; where the CRD is looked for, one is asked for."""
TOO_OLD = b'{"type":"ERROR","object":{"code":410,"message":"too old"}}\n'
"""What a watch brings whose place in history is gone: a list has to follow."""
NO_WATCH = f"^(?!.*{WATCH})"
SETTINGS = {
    # Faults here are longer than the quick Lease of other tests; losing it ends the process.
    "GPUSHARE_LEASE_DURATION_SECONDS": "180",
    "GPUSHARE_RESOURCE_SETTLE_SECONDS": "0.5",
}


@dataclass
class Scenario:
    """Three nodes of one pool on Basic; the operator is behind the proxy."""

    bench: Bench
    proxy: FaultProxy
    process: OperatorProcess = field(init=False)
    mode: str = "share"
    _disturbed: int = 0
    _heard: int = 0
    """How much of the process's log is dealt with."""

    def __post_init__(self) -> None:
        self.start()
        given_sharing_pool(self.bench, "Basic", *MEMBERS)

    def start(self, *, wait: bool = True, env: Mapping[str, str] | None = None) -> None:
        """Start the operator, or start it again: it takes its own Lease back at once."""
        self.process = self.bench.operators.start(
            "controller",
            identity="behind-the-proxy",
            env={**SETTINGS, **(env or {})},
            api_url=self.proxy.url,
            wait=wait,
        )
        self._heard = self.process.log.stat().st_size

    def disturb(self, node: str = "n1") -> None:
        """Somebody, each time another, writes another pool's name on a node."""
        self._disturbed += 1
        manager = f"?fieldManager=somebody-{self._disturbed}"
        labels = {"metadata": {"labels": {POOL: "elsewhere"}}}
        self.bench.call("PATCH", f"{NODES}/{node}{manager}", labels)

    @contextmanager
    def flipping(self) -> Iterator[Recording]:
        """A block in which the pool flips; at its end faults clear, each plugin was restarted
        once, one node was out of service at a time, and no label of ours was ever gone."""
        before, mark = plugin_names(self.bench), self.bench.audit.mark()
        with self._unharmed() as recording:
            self.mode = "cgpu" if self.mode == "share" else "share"
            self.bench.change_again(*MEMBERS, schedule=self.mode)
            yield recording
        expect_each_restarted_once(self.bench, before, mark)
        expect_one_node_at_a_time(recording)

    @contextmanager
    def at_rest(self) -> Iterator[Recording]:
        """A block in which no plugin has to restart; at its end faults clear, and none did."""
        mark = self.bench.audit.mark()
        with self._unharmed() as recording:
            yield recording
        assert self.bench.audit.our_deletions(mark) == []

    @contextmanager
    def _unharmed(self) -> Iterator[Recording]:
        if not self.process.alive:
            self.start()
        self._heard = self.process.log.stat().st_size
        try:
            with self.bench.watching() as recording:
                yield recording
                self.proxy.remove_all()
                self.expect_settled()
        finally:
            self.proxy.remove_all()
        assert self.process.alive, self.bench.operators.tail()
        alarming = [line for line in self._read_log() if _is_alarming(line)]
        assert not alarming, alarming
        for node in recording.history:
            missing = OURS - node["metadata"]["labels"].keys()
            assert not missing, f"{node['metadata']['name']} was without {missing}"

    def expect_settled(
        self, members: Sequence[str] = MEMBERS, *, within: float = CONVERGES_SECONDS
    ) -> None:
        """As a run without faults ends: all members in the pool's mode, in service, recorded."""
        expect_pool_ready(self.bench, nodes=len(members), within=within)
        expect(
            self.bench,
            f"{list(members)} are done with {self.mode}",
            lambda: all(is_settled(self.bench.node(name), self.mode) for name in members),
        )

    def expect_requests(self, path: str, count: int, *, since: int) -> None:
        """Until so many readings came by since the `since`-th request of all."""
        expect(
            self.bench,
            f"{count} requests of {path}",
            lambda: len(self.proxy.matching("GET", path, since=since)) >= count,
        )

    def expect_left_alone(self, refusal: Rule, method: str, path: str, seconds: float) -> None:
        """What the rule refused was asked for again, and not before the time was over."""
        refused = refusal.acted_on[0]

        def find_later() -> list[Request]:
            # What was on its way when the refusal came can't be called back.
            last_event_at = refused.at + ON_ITS_WAY_SECONDS
            return [r for r in self.proxy.matching(method, path) if r.at > last_event_at]

        again, *_ = expect(self.bench, f"{method} {path} is asked for again", find_later)
        waited = again.at - refused.at
        assert waited >= seconds, f"{again.method} {again.target} after {waited:.1f} s"

    def _read_log(self) -> list[Json]:
        with self.process.log.open("rb") as log:
            log.seek(self._heard)
            whole = (line for line in log if line.startswith(b"{") and line.endswith(b"\n"))
            return [orjson.loads(line) for line in whole]


def is_settled(node: Json, mode: str) -> bool:
    """Whether a member of a pool on Basic is in `mode`, in service, and recorded so."""
    labels, notes = node["metadata"]["labels"], node["metadata"]["annotations"]
    disabled = "true" if mode == "share" else "false"
    wanted = {POOL: "training", "cgpu": "true", ISOLATION: disabled}
    applied = orjson.loads(notes.get("gpushare.io/applied", "{}"))
    return (
        wanted.items() <= labels.items()
        and applied.get("schedule") == mode
        and "gpushare.io/change" not in notes
        and not node["spec"].get("unschedulable")
    )


def _is_alarming(line: Json) -> bool:
    """An error other than Kopf's word for each request that it will send again."""
    retried = line["logger"].startswith("kopf") and "will retry" in line["msg"]
    return line["level"] in ("ERROR", "CRITICAL") and not retried


def expect_repaired(bench: Bench, node: str = "n1", *, within: float = CONVERGES_SECONDS) -> None:
    """Until a disturbed node carries its pool's name again."""
    expect_labels(bench, node, {POOL: "training"}, within=within)
