"""What a process of this machine uses: CPU time and memory, as the kernel counts them."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.waiting import BenchError, until

_WINDOW_SECONDS = 2.0
_QUIET_CORES = 0.1
_QUIET_WITHIN_SECONDS = 300
_KIB_PER_MIB = 1024
# clock_getcpuclockid(3): the CPU-time clock of a whole process, to the nanosecond where
# /proc/PID/stat counts hundredths of a second.
_CPU_CLOCK = 2


def read_cpu_seconds(pid: int) -> float:
    """CPU time that all threads of the process used, user and system."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK)


def read_rss_mib(pid: int) -> float:
    """Resident memory now."""
    return _read_status(pid, "VmRSS")


def read_peak_rss_mib(pid: int) -> float:
    """The most resident memory that the process ever had."""
    return _read_status(pid, "VmHWM")


async def until_quiet(pid: int) -> None:
    """Until the process used less than a tenth of a core for two seconds on end."""

    async def is_quiet() -> bool:
        return await measure_cores(pid, _WINDOW_SECONDS) < _QUIET_CORES

    await until(is_quiet, f"process {pid} comes to rest", seconds=_QUIET_WITHIN_SECONDS)


@dataclass(frozen=True)
class Use:
    """What a process uses while it has little to do."""

    cores: float
    """CPU seconds a second."""
    rss_mib: float


async def measure_uses(pids: Mapping[str, int], seconds: float) -> Mapping[str, Use]:
    """What each of the processes uses during the same so many seconds."""
    async with asyncio.TaskGroup() as tasks:
        cores = {name: tasks.create_task(measure_cores(pids[name], seconds)) for name in pids}
    return {name: Use(cores[name].result(), read_rss_mib(pid)) for name, pid in pids.items()}


async def measure_cores(pid: int, seconds: float) -> float:
    """CPU seconds a second that the process uses during so many seconds."""
    started, cpu = time.monotonic(), read_cpu_seconds(pid)
    await asyncio.sleep(seconds)
    return (read_cpu_seconds(pid) - cpu) / (time.monotonic() - started)


def _read_status(pid: int, key: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) / _KIB_PER_MIB
    raise BenchError(f"/proc/{pid}/status has no {key}")
