"""A cluster's folder: where everything of it lies, and what is known about it.

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
    """What another process must know of the cluster; ``complete`` once a start came to its end.

    The control plane is in the network of the process ``network_pid`` where there is one.
    """

    name: str
    binaries: str
    first_port: int
    complete: bool = False
    network_pid: int | None = None
    kubelet_period_seconds: float | None = None
    """Between the reports of simulated kubelets; None leaves it to the simulator."""

    @property
    def ports(self) -> Ports:
        return Ports(self.first_port)

    def enter_network(self, command: Sequence[str]) -> list[str]:
        """The command that runs ``command`` in the control plane's network."""
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
        """What stands on PATH for this cluster alone."""
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
        """The name that kwokctl knows; the kubeconfig's context is ``kwok-`` and this."""
        return f"devcluster-{self.name}"

    @property
    def components(self) -> Path:
        """What kwokctl made: the components' logs, pid files, keys and data."""
        return self.kwok / "clusters" / self.cluster_name

    def state(self) -> State:
        """Raises :class:`ClusterError` if no cluster was started here, or one of another name."""
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
        """Write ``state``; the first time this makes the folder a cluster's."""
        self.contents.mkdir(parents=True, exist_ok=True)
        draft = self.contents / f"{_STATE}.draft"
        draft.write_text(json.dumps(asdict(state), indent=2) + "\n")
        os.replace(draft, self.contents / _STATE)

    def expect_usable(self) -> None:
        """Raise :class:`ClusterError` for a path that not every component understands."""
        if not re.fullmatch(r"[\w./@+=-]+", str(self.path)):
            raise ClusterError(
                f"the cluster's folder is {str(self.path)!r}, and components take only letters, "
                "digits and . / _ @ + = - there: choose another, or move the checkout."
            )

    def expect_own(self) -> None:
        """Raise :class:`ClusterError` where clearing would take what is not this cluster's."""
        left = {entry.name for entry in self.contents.glob("*")}
        if _STATE in left:
            self.state()
            return
        unknown = self.kubeconfig.exists() and not self.contents.exists()
        if unknown or left - {f"{_STATE}.draft"}:
            raise ClusterError(
                f"{self.path} holds a `kubeconfig` or `control-plane` that no devcluster made: "
                "choose another folder."
            )

    def clear(self) -> None:
        """Remove what the cluster left, the state last, so that a clearing can be repeated."""
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
