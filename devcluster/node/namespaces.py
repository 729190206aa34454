"""Creates the namespaces of a node, which end with its first process."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.processes import spawn
from devcluster.waiting import wait_until

_START_SECONDS = 20
_READY = "namespaces are ready"
# Paths that a node writes to, which are the machine's otherwise.
_OVERLAID = ("/etc", "/opt")
_REPLACED = ("/var/lib", "/var/log")
_KERNEL_SETTINGS = (
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/keys/root_maxbytes",
)


@dataclass(frozen=True)
class Namespaces:
    """Mount, network, PID, UTS and IPC namespaces of the node called `name`."""

    name: str
    folder: Path
    """Folder of the node's files, an overlay of the machine's /etc and /opt."""
    init_pid: int
    """Process ID on the machine of the first process in the namespaces."""

    def enter(self, *command: str) -> list[str]:
        """Build the command that runs `command` on the node."""
        return ["nsenter", f"--target={self.init_pid}", *_ALL, "--", *command]

    def enter_network(self, *command: str) -> list[str]:
        """Build the command that runs `command` in the node's network, otherwise on the machine."""
        return ["nsenter", f"--target={self.init_pid}", "--net", "--", *command]

    def run(self, *command: str, stdin: str | None = None) -> str:
        """Run `command` on the node and return its output. Raises `ClusterError`."""
        return run_command(self.enter(*command), stdin=stdin)


_ALL = ("--mount", "--net", "--pid", "--uts", "--ipc")


def start_namespaces(
    name: str, *, cluster: Path, folder: Path, env: Mapping[str, str]
) -> Namespaces:
    """Create the namespaces; they end with the processes of the cluster in the folder `cluster`."""
    folder.mkdir(parents=True)
    log = folder / "init.log"
    unshare = ["unshare", *_ALL, "--fork", "--kill-child", "--mount-proc", "--propagation=private"]
    child = spawn(
        [*unshare, "bash", "-euc", build_init(name, folder)],
        folder=cluster,
        working_folder=folder,
        log=log,
        env=env,
    )

    def is_ready() -> bool:
        if child.poll() is not None:
            raise ClusterError(
                f"node {name}: its namespaces could not be made.\n{log.read_text().strip()}"
            )
        return _READY in log.read_text()

    wait_until(is_ready, expectation=f"node {name}: {_READY}", timeout_seconds=_START_SECONDS)
    (first,) = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    return Namespaces(name, folder, int(first))


def _copy(folder: Path, setting: str) -> str:
    own = folder / Path(setting).name
    own.write_text(Path(setting).read_text())
    return shlex.quote(str(own))


def build_init(name: str, folder: Path) -> str:
    """Build the script of the first process: it mounts, starts loopback, and reaps orphans.

    A kubelet needs its own /var/lib/kubelet, shared with the containers that mount volumes.
    """
    lines = [f"hostname {shlex.quote(name)}", "mount -t tmpfs tmpfs /run"]
    for path in _REPLACED:
        own = shlex.quote(str(folder) + path)
        lines += [f"mkdir -p {own}", f"mount --bind {own} {path}"]
    for path in _OVERLAID:
        upper, work = (shlex.quote(f"{folder}{path}.{kind}") for kind in ("upper", "work"))
        options = f"lowerdir={path},upperdir={upper},workdir={work}"
        lines += [f"mkdir -p {upper} {work}", f"mount -t overlay -o {options} overlay {path}"]
    lines += [
        # A kubelet sets these at its start, and they are the whole machine's.
        *(f"mount --bind {_copy(folder, path)} {path}" for path in _KERNEL_SETTINGS),
        "mkdir -p /var/lib/kubelet /etc/cni/net.d",
        "mount --bind /var/lib/kubelet /var/lib/kubelet",
        "mount --make-rshared /",
        "ip link set lo up",
        "sysctl -qw net.ipv4.ip_forward=1",
        f"echo {_READY}",
        "while :; do sleep 3600 & wait $! || true; done",
    ]
    return "\n".join(lines)


def run_command(command: Sequence[str], *, stdin: str | None = None) -> str:
    """Run a command and return its output. Raises `ClusterError` with its message."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"`{shlex.join(command)}`: {(done.stderr or done.stdout).strip()}")
    return done.stdout
