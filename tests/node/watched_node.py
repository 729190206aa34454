"""A node that is watched under no operator: a real one, or a simulated one."""

from abc import ABC, abstractmethod
from typing import Any

from tests.kit.bench import PODS, Bench
from tests.kit.cluster.expect import expect

_WITHIN_SECONDS = 90.0


class WatchedNode(ABC):
    bench: Bench
    node: str

    @abstractmethod
    def begin(self) -> None:
        """Bring the node to the state that each behaviour begins with."""

    def end_pods(self) -> None:
        """Delete the pods that ask for cards, and wait until none is left."""
        self.bench.call("DELETE", f"{PODS}?gracePeriodSeconds=0")
        self.expect("no pod is left", lambda: not self.bench.pods())

    def read_outcome(self, name: str) -> str:
        """What becomes of a pod: it runs, or it is Failed, and for which reason."""

        def find() -> str | None:
            status = self.bench.pod(name)["status"]
            if status.get("phase") == "Failed":
                return f"Failed, {status['reason']}"
            return "runs" if status.get("phase") == "Running" else None

        return str(self.expect(f"{name} runs or is Failed", find))

    def expect(self, sentence: str, probe: Any, *, seconds: float = _WITHIN_SECONDS) -> Any:
        return expect(self.bench, f"{self.node}: {sentence}", probe, within_seconds=seconds)
