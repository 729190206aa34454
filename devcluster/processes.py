"""Starts, finds and kills the processes of a cluster, by an environment variable that all inherit.

Pid files are wrong after a kill -9 and a reboot; a process's own environment is not.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.waiting import wait_until

_MARK = "DEVCLUSTER_PROCESS_OF"
_PROC = Path("/proc")
_ENDED = (b"", b"Z", b"X")
_BEGIN_SECONDS = 60
_children: list[subprocess.Popen[bytes]] = []  # of this process; reaped once they have ended


def spawn(
    command: Sequence[str], *, folder: Path, working_folder: Path, log: Path, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process that ends with the cluster in ``folder``; append its output to ``log``.

    The process has its own session, so that a Ctrl-C does not reach it.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            cwd=working_folder,
            env={**env, _MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children.append(child)
    # The kernel shows a program's environment a moment after it began; who asks meanwhile would be
    # told that there is no such process.
    wait_until(
        lambda: bool(_read(_PROC / str(child.pid) / "environ")) or child.poll() is not None,
        expectation=f"{command[0]} has begun",
        timeout_seconds=_BEGIN_SECONDS,
        poll_seconds=0.001,
    )
    return child


def is_marked(environ: bytes, argv: bytes, folder: Path) -> bool:
    """Tell whether a process with this ``/proc/PID/environ`` and ``cmdline`` is the cluster's.

    A component that was started again by hand lacks the mark, but runs the folder's binary.
    """
    mark = f"{_MARK}={folder}".encode()
    return mark in environ.split(b"\0") or argv.startswith(f"{folder}/control-plane/kwok/".encode())


def observe_processes(folder: Path) -> list[int]:
    """Find the process IDs of the cluster, without this process and zombies."""
    return [
        int(entry.name)
        for entry in _PROC.iterdir()
        if entry.name.isdecimal()
        and int(entry.name) != os.getpid()
        and is_marked(_read(entry / "environ"), _read(entry / "cmdline"), folder)
    ]


def runs_module(folder: Path, module: str) -> bool:
    """Tell whether one of the cluster's processes is ``python -m MODULE``."""
    start = [b"-m", module.encode()]
    return any(
        _read(_PROC / str(pid) / "cmdline").split(b"\0")[1:3] == start
        for pid in observe_processes(folder)
    )


def kill_processes(folder: Path, *, timeout_seconds: float = 120) -> None:
    """Kill every process of the cluster by SIGKILL; its files are removed anyway.

    SIGTERM would take an API server with open watches up to a minute. Repeats until no process is
    left, since a killed one may just have started another.
    """

    def none_left() -> bool:
        pids = observe_processes(folder)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    wait_until(
        none_left,
        expectation=f"every process of the cluster in {folder} has ended",
        timeout_seconds=timeout_seconds,
    )
    _children[:] = [child for child in _children if child.poll() is None]


def is_alive(pid: int) -> bool:
    """Tell whether ``pid`` runs; a zombie does not.

    Reads the state, since the command line is empty for a moment while a program is loaded.
    """
    return _read_state(pid) not in _ENDED


def has_ended(pid: int) -> bool:
    """Tell whether all threads of ``pid`` have ended, so that its ports and files are free.

    The first thread of a killed process can be a zombie while others still run.
    """
    state = _read_state(pid)
    return state in _ENDED and _count_threads(pid) <= 1


def _read_state(pid: int) -> bytes:
    """Read the state of proc_pid_stat(5); empty where there is no such process."""
    stat = _read(_PROC / str(pid) / "stat")
    return stat.rpartition(b")")[2].split()[0] if stat else b""


def _count_threads(pid: int) -> int:
    try:
        return sum(1 for _ in (_PROC / str(pid) / "task").iterdir())
    except OSError:
        return 0


def _read(path: Path) -> bytes:
    # Gone in between, or another user's: either way not one of ours.
    try:
        return path.read_bytes()
    except OSError:
        return b""
