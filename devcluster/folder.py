"""The folder of a cluster's files, and its recorded state.

``kubeconfig`` lies on top for people; all else in ``control-plane``, which is removed as a whole
and only where this module made it.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.ports import Ports

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_STATE = "state.json"


@dataclass(frozen=True)
class State:
    """Recorded facts for other processes; ``complete`` once the start is complete.

    ``network_pid``, if set, is a process in the control plane's network.
    """

    name: str
    binaries: str
    first_port: int
    complete: bool = False
    network_pid: int | None = None
    kubelet_period_seconds: float | None = None
    """Time between reports of simulated kubelets; None for the simulator's default."""

    @property
    def ports(self) -> Ports:
        return Ports(self.first_port)

    def enter_network(self, command: Sequence[str]) -> list[str]:
        """Build the command that runs ``command`` in the control plane's network."""
        if self.network_pid is None:
            return list(command)
        return ["nsenter", f"--target={self.network_pid}", "--net", "--", *command]


@dataclass(frozen=True)
class ClusterFolder:
    """The folder ``path`` of the cluster called ``name``; one folder holds one cluster."""

    name: str
    path: Path

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ClusterError(
                f"Cluster name {self.name!r}: use at most 32 of a-z, 0-9 and '-', as in `demo`."
            )
        object.__setattr__(self, "path", self.path.absolute())

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def contents(self) -> Path:
        return self.path / "control-plane"

    @property
    def logs(self) -> Path:
        """Logs of kwokctl, the simulator and the operator's processes."""
        return self.contents / "logs"

    @property
    def programs(self) -> Path:
        """Programs on PATH for this cluster only."""
        return self.contents / "programs"

    @property
    def nodes(self) -> Path:
        """Folders of the real nodes, by name."""
        return self.contents / "nodes"

    @property
    def kwok(self) -> Path:
        """KWOK_WORKDIR."""
        return self.contents / "kwok"

    @property
    def cluster_name(self) -> str:
        """Name in kwokctl; the kubeconfig's context has the prefix ``kwok-``."""
        return f"devcluster-{self.name}"

    @property
    def components(self) -> Path:
        """Files of kwokctl: the components' logs, pid files, keys and data."""
        return self.kwok / "clusters" / self.cluster_name

    def state(self) -> State:
        """Read the state. Raises :class:`ClusterError` if this cluster was not started here."""
        try:
            state = State(**json.loads((self.contents / _STATE).read_text()))
        except FileNotFoundError:
            raise ClusterError(
                f"No cluster in {self.path}: start one with `make cluster`."
            ) from None
        if state.name != self.name:
            raise ClusterError(
                f"{self.path} holds cluster {state.name!r}, not {self.name!r}: "
                "give each cluster a folder of its own."
            )
        return state

    def record(self, state: State) -> None:
        """Write ``state``, which marks the folder as a cluster's."""
        self.contents.mkdir(parents=True, exist_ok=True)
        draft = self.contents / f"{_STATE}.draft"
        draft.write_text(json.dumps(asdict(state), indent=2) + "\n")
        os.replace(draft, self.contents / _STATE)

    def expect_usable(self) -> None:
        """Raise :class:`ClusterError` for a path that some component can't use."""
        if not re.fullmatch(r"[\w./@+=-]+", str(self.path)):
            raise ClusterError(
                f"the cluster's folder is {str(self.path)!r}, and components take only letters, "
                "digits and . / _ @ + = - there: choose another, or move the checkout."
            )

    def expect_own(self) -> None:
        """Raise :class:`ClusterError` where clearing would remove files of others."""
        entries = {entry.name for entry in self.contents.glob("*")}
        if _STATE in entries:
            self.state()
            return
        unknown = self.kubeconfig.exists() and not self.contents.exists()
        if unknown or entries - {f"{_STATE}.draft"}:
            raise ClusterError(
                f"{self.path} holds a `kubeconfig` or `control-plane` that no devcluster made: "
                "choose another folder."
            )

    def clear(self) -> None:
        """Remove the cluster's files, the state last, so that a clearing can be repeated."""
        if not self.contents.exists():
            return
        self.kubeconfig.unlink(missing_ok=True)
        for entry in self.contents.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != _STATE:
                entry.unlink()
        (self.contents / _STATE).unlink(missing_ok=True)
        self.contents.rmdir()
        if not any(self.path.iterdir()):
            self.path.rmdir()
