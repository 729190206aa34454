"""What people do to one node and the pods on it, whoever they are."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from devcluster import names
from devcluster.apiserver import ApiError
from tests.chaos.isolation_oracle import Oracle, Span
from tests.kit.bench import NODES, PODS, SYSTEM_PODS, Bench
from tests.kit.values.manifests import build_pod

_GONE = 404


@dataclass
class User:
    """Somebody with their hands on a node."""

    bench: Bench
    node: str
    oracle: Oracle
    plugins: str = SYSTEM_PODS
    """Where the pods of the device plugin are."""
    _wrote: int = 0

    def write_labels(self, labels: Mapping[str, str | None]) -> None:
        """Label the node, each time under another name."""
        self._wrote += 1
        path = f"{NODES}/{self.node}?fieldManager=somebody-{self._wrote}"
        begin = time.monotonic()
        node = self.bench.call("PATCH", path, {"metadata": {"labels": dict(labels)}})
        # They may be put back before the next look.
        self.oracle.see_labels(node, Span(begin, time.monotonic()), is_foreign=True)

    def signal_plugin(self, name: str) -> bool:
        """Send SIGHUP to a plugin; whether its pod is there."""
        return self._count_up(f"{self.plugins}/{name}", names.SIGNAL)

    def restart_plugin(self, name: str) -> bool:
        """Restart a plugin's container in place; whether its pod is there."""
        return self._count_up(f"{self.plugins}/{name}", names.RESTART)

    def restart_container(self, name: str) -> None:
        self._count_up(f"{PODS}/{name}", names.RESTART_CONTAINER)

    def create_pod(
        self, name: str, chance: random.Random, resource: str, *, core: int | None = None
    ) -> None:
        """A pod of one container or two, each with one of `resource`; some opt out of isolation."""
        selects = {"gpushare.io/pool": self.node}
        pod = build_pod(name, gib=1, core=core, env=_opt_out(chance), selects=selects)
        if chance.random() < 0.4:
            second = build_pod(name, gib=1, core=core, env=_opt_out(chance))["spec"]["containers"]
            pod["spec"]["containers"] += [{**second[0], "name": "second"}]
        if resource != names.GPU_MEM:
            for container in pod["spec"]["containers"]:
                container["resources"] = {"limits": {resource: "1"}}
        pod["metadata"]["labels"] = {"history": self.node}
        self.bench.create_pod(pod)

    def delete_pod(self, name: str) -> None:
        try:
            self.bench.delete_pod(name)
        except ApiError as error:
            if error.status != _GONE:
                raise

    def _count_up(self, path: str, key: str) -> bool:
        try:
            pod = self.bench.call("GET", path)
            count = int((pod["metadata"].get("annotations") or {}).get(key, "0"))
            self.bench.annotate(path, {key: str(count + 1)})
        except ApiError as error:
            if error.status != _GONE:
                raise
            return False
        return True


def _opt_out(chance: random.Random) -> dict[str, str] | None:
    if chance.random() < 0.75:
        return None
    return {names.CGPU_DISABLE: chance.choice(("true", "1", "false"))}
