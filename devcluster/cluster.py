"""Starts, uses and ends a cluster on this machine."""

import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from devcluster.apiserver import ApiServer
from devcluster.errors import ClusterError, CommandError
from devcluster.folder import ClusterFolder, State
from devcluster.kubeconfig import read_own_kubeconfig
from devcluster.locks import exclusive
from devcluster.ports import Ports, choose_ports
from devcluster.processes import kill_processes, spawn
from devcluster.startup import (
    PROJECT,
    ended_component,
    expect_ready,
    kill_component,
    restart_extender,
    simulator_answers,
    start_again,
    start_control_plane,
    start_simulator,
)
from devcluster.toolchain import ensure_binaries

Report = Callable[[str], None]


class Cluster:
    """The cluster called ``name``, in a folder of its own; several run side by side.

    Making the object starts nothing; :meth:`up` does. Everything is found by the folder, so one
    process can start a cluster and another use or end it.
    """

    def __init__(
        self, name: str, folder: Path, *, kubelet_period_seconds: float | None = None
    ) -> None:
        """Set the folder of a cluster; nothing starts.

        `kubelet_period_seconds` is how often simulated kubelets of a cluster that this object
        starts report their nodes' status; by default as often as real kubelets.
        """
        self._folder = ClusterFolder(name, folder)
        self._kubelet_period_seconds = kubelet_period_seconds
        self._api: ApiServer | None = None

    @property
    def name(self) -> str:
        return self._folder.name

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._folder.kubeconfig

    @property
    def logs(self) -> Path:
        """The folder of the simulator's and the operator's logs."""
        return self._folder.logs

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON event a line, level Metadata."""
        return self._folder.components / "logs" / "audit.log"

    @property
    def ports(self) -> Ports:
        """The cluster's block of ports. Raises :class:`ClusterError` if the cluster is not up."""
        return self._folder.state().ports

    @property
    def binaries(self) -> Path:
        """The folder of the control plane's binaries, kubectl and helm among them."""
        return Path(self._folder.state().binaries)

    @property
    def programs(self) -> Path:
        """A folder for programs of this cluster only, removed with the cluster."""
        return self._folder.programs

    @property
    def environment(self) -> dict[str, str]:
        """Environment of programs that use only this cluster."""
        cache = self._folder.contents / "cache"
        return {
            **os.environ,
            "PATH": os.pathsep.join(
                (str(self.programs), str(self.binaries), os.environ.get("PATH", os.defpath))
            ),
            "KUBECONFIG": str(self.kubeconfig),
            # Neither reads nor fills what the user's own kubectl and helm keep at home.
            "KUBECACHEDIR": str(cache / "kubectl"),
            "KUBECTL_KUBERC": "false",
            "HELM_CACHE_HOME": str(cache / "helm"),
            "HELM_CONFIG_HOME": str(cache / "helm"),
            "HELM_DATA_HOME": str(cache / "helm"),
        }

    @property
    def api(self) -> ApiServer:
        """The API server, as administrator."""
        if self._api is None:
            self._api = ApiServer(self.kubeconfig)
        return self._api

    def up(self, *, report: Report = print) -> None:
        """Start the cluster unless it runs, after clearing the remains of an earlier start.

        Raises :class:`ClusterError` or :class:`~devcluster.errors.ToolchainError`. A start that
        fails or is interrupted leaves no process and no file.
        """
        self._folder.expect_usable()
        self._folder.expect_own()
        binaries = ensure_binaries(os.environ, report=report)
        # One start at a time on this machine: ports that a start has chosen look free until its
        # components listen, and two at once would only be slower.
        lock = Path(tempfile.gettempdir(), f"gpushare-devcluster-{os.getuid()}.lock")
        with exclusive(lock, on_wait=lambda: report("another cluster is starting; waiting")):
            if self.is_running():
                report(f"cluster {self.name} is up already")
                return
            self.down()
            try:
                self._start(binaries, report)
            except BaseException as error:
                self.down()
                if isinstance(error, KeyboardInterrupt):
                    report(f"starting cluster {self.name} was interrupted and cleared; call again")
                raise
        report(f"cluster {self.name} is up: export KUBECONFIG={self.kubeconfig}")

    def down(self) -> None:
        """End all of the cluster's processes and remove its files, if there are any.

        Works whatever was killed before. Other files in the folder stay.
        """
        self._folder.expect_own()
        kill_processes(self.folder)
        self._folder.clear()
        if self._api is not None:
            self._api.close()
            self._api = None

    def is_running(self) -> bool:
        """Tell whether the start is complete, all components run, and API and simulator answer."""
        try:
            state = self._folder.state()
            if not state.complete or ended_component(self._folder):
                return False
            return self.api.is_ready() and simulator_answers(state.ports)
        except (ClusterError, FileNotFoundError):
            return False

    def pid(self, component: str) -> int:
        """Find the process of a component: ``etcd``, ``kube-apiserver``, ``kube-scheduler`` ..."""
        return int((self._folder.components / "pids" / f"{component}.pid").read_text())

    def restart(self, component: str) -> None:
        """Kill a component and start it again; return once the API server is ready."""
        with self.killed(component):
            pass

    @contextmanager
    def killed(self, *components: str) -> Iterator[None]:
        """Kill components during the block, and then start them again, the last first."""
        for component in components:
            kill_component(self._folder, component)
        yield
        for component in reversed(components):
            start_again(self._folder, component)
        with closing(ApiServer(self.kubeconfig)) as api:
            expect_ready(self._folder, api)

    @property
    def etcd_data(self) -> Path:
        """The folder of etcd's data."""
        return self._folder.components / "etcd"

    def restart_extender(self) -> None:
        """Restart the simulated scheduler extender, which remembers deleted nodes and removed
        cards."""
        restart_extender(self.ports)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl on this cluster and return what it prints.

        Raises :class:`~devcluster.errors.ForeignContextError` before anything is sent to another
        cluster, and :class:`CommandError` with kubectl's message if it fails.
        """
        return self._run("kubectl", arguments, stdin)

    def helm(self, *arguments: str, stdin: str | None = None) -> str:
        """Run helm on this cluster, under the same guard as :meth:`kubectl`."""
        return self._run("helm", arguments, stdin)

    def spawn(
        self, command: Sequence[str], *, log: str, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a process that ends with the cluster and logs to ``logs/LOG``."""
        path = self._folder.logs / log
        return spawn(command, folder=self.folder, working_folder=PROJECT, log=path, env=env)

    def _start(self, binaries: Path, report: Report) -> None:
        state = State(
            self.name,
            str(binaries),
            choose_ports(random.Random()).first,
            kubelet_period_seconds=self._kubelet_period_seconds,
        )
        self._folder.record(state)
        self._folder.logs.mkdir()
        report(f"starting cluster {self.name} in {self.folder}")
        state = self._start_components(state)
        self._folder.record(replace(state, complete=True))

    def _start_components(self, state: State) -> State:
        """Start the components; return the completed state."""
        start_control_plane(self._folder, self.environment)
        start_simulator(self._folder, self.environment)
        return state

    def _run(self, program: str, arguments: Sequence[str], stdin: str | None) -> str:
        read_own_kubeconfig(self.kubeconfig)
        done = subprocess.run(
            [str(self.binaries / program), f"--kubeconfig={self.kubeconfig}", *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(f"`{program} {' '.join(arguments)}`: {done.stderr.strip()}")
        return done.stdout
