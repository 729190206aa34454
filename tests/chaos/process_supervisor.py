"""Restarts the operator's processes when they end, as the kubelet does for a Deployment."""

from devcluster.installation import OperatorProcess
from tests.kit.cluster.background_thread import Background
from tests.kit.cluster.operator_processes import Operators

_POLL_SECONDS = 0.05


class Supervisor(Background):
    """Keeps processes running for as long as the block lasts; they are known by their identity.

    One that ends is started again at once, with the same name and credentials, whatever it ended
    from: the kubelet's first restart comes without delay too.
    """

    def __init__(self, operators: Operators, *processes: OperatorProcess) -> None:
        super().__init__("supervisor")
        self._operators = operators
        self._running = {process.identity: process for process in processes}
        self.restarts: list[tuple[str, int]] = []
        """Identity and exit code of what ended, oldest first; a signal's is negative."""

    def __getitem__(self, identity: str) -> OperatorProcess:
        return self._running[identity]

    def _run(self) -> None:
        while not self._leaving.wait(_POLL_SECONDS):
            for identity, process in list(self._running.items()):
                if not process.alive:
                    self.restarts.append((identity, process.process.returncode))
                    self._running[identity] = self._operators.restart(process)
