"""The watcher's process, from the side of the test that lets things go wrong."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import orjson

from devcluster.waiting import wait_until
from tests.kit.bench import Bench

Json = dict[str, Any]

_SYNC_SECONDS = 30
_CATCH_UP_SECONDS = 90
"""As long as the longest outage of a test, and then some."""


class Watching:
    """A block that a watcher process looks at all the time.

    `options` are the fields of `tests.chaos.judge.Rules` with a default.
    """

    def __init__(
        self, bench: Bench, *, pool: str = "training", budget: int, **options: Any
    ) -> None:
        self._bench = bench
        folder = bench.cluster.logs
        number = len(list(folder.glob("watcher-*.jsonl")))
        self._out = folder / f"watcher-{number}.jsonl"
        self._log = folder / f"watcher-{number}.log"
        self._out.touch()
        self._asked = 0
        files = {
            "kubeconfig": bench.cluster.kubeconfig,
            "audit-log": bench.cluster.audit_log,
            "out": self._out,
        }
        given = {**files, "pool": pool, "budget": budget, **options}
        arguments = [
            argument for name, value in given.items() for argument in _build_option(name, value)
        ]
        self._command = [sys.executable, "-m", "tests.chaos.watcher", *arguments]

    def __enter__(self) -> Self:
        env = {**os.environ, "PYTHONPATH": f"operator{os.pathsep}."}
        self._process = self._bench.cluster.spawn(self._command, log=self._log.name, env=env)
        self._wait("the watcher is in sync", lambda state: True, _SYNC_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.expect_clean()
        finally:
            self._process.kill()
            self._process.wait()

    # What it saw.

    def catch_up(self) -> None:
        """Until it has judged all that happened before this call.

        Raises ClusterError where it is not done in time, AssertionError where it ended.
        """
        self._asked += 1
        self._process.send_signal(signal.SIGUSR1)
        self._wait(
            "the watcher caught up",
            lambda state: state["number"] >= self._asked,
            _CATCH_UP_SECONDS,
        )

    def expect_clean(self) -> None:
        """Everything until now kept the promises; AssertionError lists what did not."""
        self.catch_up()
        if found := self.violations:
            raise AssertionError("\n".join(found))

    @property
    def violations(self) -> list[str]:
        """A sentence for each that was found so far."""
        return [
            f"{line['at']} {line['promise']}: {line['sentence']}"
            for line in self._lines()
            if line["kind"] == "violation"
        ]

    @property
    def restarts(self) -> Counter[str]:
        """By node, how many plugin pods the operator deleted, as of the last `catch_up`."""
        return Counter(self._state()["restarts"])

    @property
    def blind(self) -> int:
        """How often a watch could not be resumed, and objects had changed meanwhile."""
        blind: int = self._state()["blind"]
        return blind

    def _state(self) -> Json:
        return [line for line in self._lines() if line["kind"] == "state"][-1]

    def _lines(self) -> Iterator[Json]:
        with self._out.open("rb") as out:
            for line in out:
                if line.endswith(b"\n"):
                    yield orjson.loads(line)

    def _wait(self, expectation: str, holds: Callable[[Json], bool], seconds: float) -> None:
        def probe() -> bool:
            if self._process.poll() is not None:
                raise AssertionError(f"the watcher ended:\n{self._log.read_text()[-3000:]}")
            return any(line["kind"] == "state" and holds(line) for line in self._lines())

        wait_until(probe, expectation=expectation, timeout_seconds=seconds, poll_seconds=0.05)


def _build_option(name: str, value: Any) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    return [option] * value if isinstance(value, bool) else [option, str(value)]
