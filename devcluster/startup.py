"""Starts a cluster: the control plane, then the simulator, each until it answers."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import yaml

from devcluster.apiserver import ApiServer
from devcluster.controlplane import (
    build_egress_configuration,
    build_kwokctl_command,
    build_kwokctl_configuration,
    build_real_node_configuration,
)
from devcluster.errors import ClusterError
from devcluster.folder import ClusterFolder, State
from devcluster.ports import Ports
from devcluster.processes import has_ended, is_alive, spawn
from devcluster.waiting import wait_until

PROJECT = Path(__file__).resolve().parent.parent
CHART = PROJECT / "chart"

# Collect garbage a quarter as often: a small cluster's components spend much of their CPU on that.
_GO = {"GOGC": "400"}
_START_SECONDS = 300
_TAIL_LINES = 15
_CLEARED = "The start was cleared away; call again. The end of its log:"
_GAVE_UP = "timed out waiting for the condition"
"""Last log line of kube-controller-manager where the API server takes longer than 10 s, and of KWOK
after 15 s, as on a busy machine. They are started again, as a kubelet would do."""


def start_control_plane(folder: ClusterFolder, environment: Mapping[str, str]) -> None:
    """Start etcd and the components and return once pods can be created."""
    state = folder.state()
    configuration = folder.contents / "kwokctl.yaml"
    if state.network_pid is None:
        egress = folder.contents / "egress.yaml"
        egress.write_text(yaml.safe_dump(build_egress_configuration(state.ports.services)))
        flags = build_kwokctl_configuration(state.ports, egress)
    else:
        flags = build_real_node_configuration(state.ports, folder.components / "pki")
    configuration.write_text(yaml.safe_dump(flags))
    scheduler = folder.contents / "scheduler.yaml"
    scheduler.write_text(
        render_scheduler_configuration(
            extender_url=f"http://127.0.0.1:{state.ports.simulator}/gpushare-scheduler",
            kubeconfig=folder.components / "kubeconfig.yaml",
        )
    )
    log = folder.logs / "kwokctl.log"
    command = build_kwokctl_command(
        folder.cluster_name,
        binaries=Path(state.binaries),
        ports=state.ports,
        kubeconfig=folder.kubeconfig,
        configuration=configuration,
        scheduler_configuration=scheduler,
    )
    kwokctl = spawn(
        state.enter_network(command),
        folder=folder.path,
        working_folder=PROJECT,
        log=log,
        env={**environment, **_GO, "KWOK_WORKDIR": str(folder.kwok)},
    )
    _expect(folder, lambda: kwokctl.poll() is not None, "kwokctl starts the control plane", log)
    if kwokctl.returncode != 0:
        raise ClusterError(f"kwokctl could not start the control plane. {_CLEARED}\n{tail(log)}")
    with closing(ApiServer(folder.kubeconfig)) as api:
        expect_ready(folder, api)
        # Pods are refused until their namespace has this account.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        manager = _log(folder, "kube-controller-manager")
        _expect(folder, lambda: api.exists(account), "the controllers run", manager)


def kill_component(folder: ClusterFolder, component: str) -> None:
    """Kill a component of the control plane."""
    pid = int(_pid_file(folder, component).read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until(
        # Its port is still held until then, and the new one would end at once.
        lambda: has_ended(pid),
        expectation=f"cluster {folder.name}: {component} has ended",
        timeout_seconds=_START_SECONDS,
    )


def start_again(folder: ClusterFolder, component: str) -> None:
    """Start an ended component again, by kwokctl's recorded command."""
    documents = yaml.safe_load_all((folder.components / "kwok.yaml").read_text())
    noted = {each["name"]: each for known in documents for each in known.get("components", ())}
    command = [noted[component]["binary"], *noted[component]["args"]]
    child = spawn(
        folder.state().enter_network(command),
        folder=folder.path,
        working_folder=folder.components,
        log=_log(folder, component),
        env={**os.environ, **_GO},
    )
    _pid_file(folder, component).write_text(str(child.pid))


def expect_ready(folder: ClusterFolder, api: ApiServer) -> None:
    """Wait until the API server is ready."""
    _expect(folder, api.is_ready, "the API server is ready", _log(folder, "kube-apiserver"))


def start_simulator(folder: ClusterFolder, environment: Mapping[str, str]) -> None:
    """Start the simulator and return once it answers, so that kube-scheduler finds its extender."""
    state, log = folder.state(), folder.logs / "simulator.log"
    ports = state.ports
    simulator = spawn(
        state.enter_network(build_simulator_command(folder.kubeconfig, state)),
        folder=folder.path,
        working_folder=PROJECT,
        log=log,
        env=environment,
    )

    def answers() -> bool:
        if simulator.poll() is not None:
            raise ClusterError(f"the simulator ended while starting. {_CLEARED}\n{tail(log)}")
        return simulator_answers(ports)

    _expect(folder, answers, "the simulator answers", log)


def simulator_answers(ports: Ports) -> bool:
    """Tell whether the simulator serves ``/version``."""
    # A proxy that the environment names is of no use for 127.0.0.1.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{ports.simulator}/version", timeout=5):
            return True
    except OSError:
        return False


def restart_extender(ports: Ports) -> None:
    """Make the simulated scheduler extender forget everything, as a restart does."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"http://127.0.0.1:{ports.simulator}/restart"
    with opener.open(urllib.request.Request(url, method="POST"), timeout=60):
        pass


def ended_component(folder: ClusterFolder) -> str | None:
    """Find a component of the control plane that has ended; None where all run."""
    for file in folder.components.glob("pids/*.pid"):
        pid = file.read_text()
        if pid and not is_alive(int(pid)):
            return file.stem
    return None


def build_simulator_command(kubeconfig: Path, state: State) -> list[str]:
    """Build the command of the simulator's process."""
    arguments = ["--kubeconfig", str(kubeconfig), "--port", str(state.ports.simulator)]
    if (period := state.kubelet_period_seconds) is not None:
        arguments += ["--kubelet-period-seconds", str(period)]
    return [sys.executable, "-m", "devcluster.simulator", *arguments]


def render_scheduler_configuration(*, extender_url: str, kubeconfig: Path) -> str:
    """Render the KubeSchedulerConfiguration for ``extender_url`` by the operator's command."""
    options = ["--extender-url", extender_url, "--kubeconfig", str(kubeconfig)]
    return render("scheduler-config", *options)


def render(kind: str, *options: str) -> str:
    """Run the operator's command `render` and return its output.

    Runs a process instead of an import: the simulation shares no code with the operator.
    """
    done = subprocess.run(
        [sys.executable, "-m", "gpushare", "render", kind, *options],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "operator")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"`gpushare render {kind}` failed:\n{done.stderr.strip()}")
    return done.stdout


def tail(log: Path) -> str:
    """Return the last lines of ``log``, indented, for an error's message."""
    if not log.is_file():
        return "  (there is none)"
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines)


def _expect(
    folder: ClusterFolder, condition: Callable[[], bool], expectation: str, log: Path
) -> None:
    def holds() -> bool:
        # kwokctl itself would go on waiting for the API server for two minutes.
        if ended := ended_component(folder):
            own_log = _log(folder, ended)
            log_end = tail(own_log)
            if _GAVE_UP not in log_end:
                raise ClusterError(
                    f"cluster {folder.name}: {ended} ended while starting. {_CLEARED}\n{log_end}"
                )
            # What the next one says at its end must not be taken for this.
            own_log.replace(own_log.with_suffix(".gave-up.log"))
            start_again(folder, ended)
            return False
        return condition()

    wait_until(
        holds,
        expectation=f"cluster {folder.name}: {expectation}",
        timeout_seconds=_START_SECONDS,
        advice=lambda: f"{_CLEARED}\n{tail(log)}",
    )


def _log(folder: ClusterFolder, component: str) -> Path:
    return folder.components / "logs" / f"{component}.log"


def _pid_file(folder: ClusterFolder, component: str) -> Path:
    return folder.components / "pids" / f"{component}.pid"
