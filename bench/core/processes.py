"""Measures processes of this machine, and talks to some of them by lines."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.core.waiting import BenchError, until

_WINDOW_SECONDS, _QUIET_CORES = 2.0, 0.1
_QUIET_WITHIN_SECONDS = 300
_ANSWER_SECONDS = 900
_KIB_PER_MIB = 1024
# clock_getcpuclockid(3): the CPU-time clock of a whole process, to the nanosecond where
# /proc/PID/stat counts hundredths of a second.
_CPU_CLOCK = 2


def read_cpu_seconds(pid: int) -> float:
    """Read the CPU time of all threads of a process, user and system."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK)


def read_rss_mib(pid: int) -> float:
    """Read the current resident memory."""
    return _read_status(pid, "VmRSS")


def read_peak_rss_mib(pid: int) -> float:
    """Read the peak of the resident memory."""
    return _read_status(pid, "VmHWM")


async def measure_cores(pid: int, seconds: float) -> float:
    """Measure the cores that a process uses during `seconds`."""
    started, cpu = time.monotonic(), read_cpu_seconds(pid)
    await asyncio.sleep(seconds)
    return (read_cpu_seconds(pid) - cpu) / (time.monotonic() - started)


async def until_quiet(pid: int) -> None:
    """Wait until a process used less than a tenth of a core for two seconds."""

    async def is_quiet() -> bool:
        return await measure_cores(pid, _WINDOW_SECONDS) < _QUIET_CORES

    await until(is_quiet, f"process {pid} comes to rest", seconds=_QUIET_WITHIN_SECONDS)


class Partner:
    """A process with a protocol of lines on stdin and stdout."""

    def __init__(self, process: asyncio.subprocess.Process, module: str) -> None:
        self._process, self._module = process, module

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, line: bytes) -> str:
        """Send a line and return the answer. Raises `BenchError` where the process ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        return await self.listen()

    async def listen(self) -> str:
        """Return the next line. Raises `BenchError` where the process ended."""
        assert self._process.stdout is not None
        async with asyncio.timeout(_ANSWER_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            raise BenchError(f"{self._module} ended instead of answering; what it said is above")
        return line.decode().strip()


@asynccontextmanager
async def running(
    module: str, *arguments: str, checkout: Path | None = None
) -> AsyncIterator[Partner]:
    """Run ``python -m MODULE ARGUMENTS`` within the block, of another `checkout` if given."""
    path = {} if checkout is None else {"PYTHONPATH": f"{checkout / 'operator'}:{checkout}"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=checkout,
        env=os.environ | path,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Partner(process, module)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _read_status(pid: int, key: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / _KIB_PER_MIB
