"""Another manager that writes a label of the operator's, again and again."""

import yaml

from tests.kit.bench import NODES, Bench
from tests.kit.cluster.background_thread import Background

_PERIOD_SECONDS = 0.1


class LabelConflict(Background):
    """Within its block it writes `value` (None: takes the label off) ten times a second.

    As `kubectl label --overwrite` in a loop does, or, with `applies`, as an operator of somebody
    else's that uses server-side apply with force.
    """

    def __init__(
        self,
        bench: Bench,
        node: str,
        key: str,
        value: str | None,
        *,
        manager: str = "kubectl-label",
        applies: bool = False,
    ) -> None:
        super().__init__(manager)
        self._bench, self._node, self._key, self._value = bench, node, key, value
        self._manager, self._applies = manager, applies
        self.writes = 0

    def write(self) -> None:
        """Write once."""
        if not self._applies:
            write_label(self._bench, self._node, self._key, self._value, manager=self._manager)
        else:
            node = {"metadata": {"name": self._node, "labels": {self._key: self._value}}}
            self._bench.cluster.kubectl(
                "apply", "--server-side", "--force-conflicts",
                f"--field-manager={self._manager}", "-f", "-",
                stdin=yaml.safe_dump({"apiVersion": "v1", "kind": "Node", **node}),
            )  # fmt: skip
        self.writes += 1

    def _run(self) -> None:
        while not self._leaving.wait(_PERIOD_SECONDS):
            self.write()


def write_label(
    bench: Bench, node: str, key: str, value: str | None, *, manager: str = "kubectl-label"
) -> None:
    """Write a label once, as `manager`."""
    path = f"{NODES}/{node}?fieldManager={manager}"
    bench.call("PATCH", path, {"metadata": {"labels": {key: value}}})
