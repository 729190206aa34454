"""A process beside the bench that is spoken to line by line."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bench.waiting import BenchError

_WAIT_SECONDS = 120
_END_SECONDS = 10


class Partner:
    """A Python module that runs as a process; what it says on stderr is in its log."""

    def __init__(self, process: asyncio.subprocess.Process, module: str, log: Path) -> None:
        self._process, self._module, self._log = process, module, log

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, line: str) -> str:
        """What it answers to a line; raises as `hear` does."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        return await self.hear()

    async def hear(self) -> str:
        """The next line that it says; `BenchError` with the end of its log where it ended."""
        assert self._process.stdout is not None
        async with asyncio.timeout(_WAIT_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            end = self._log.read_text(errors="replace")[-2000:]
            raise BenchError(f"{self._module} ended instead of answering:\n{end}")
        return line.decode().strip()

    async def end(self) -> None:
        """Close its stdin and wait; it is killed where that is not enough."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def running(module: str, *arguments: str, log: Path) -> AsyncIterator[Partner]:
    """``python -m MODULE ARGUMENTS`` for as long as the block lasts."""
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
        )
    partner = Partner(process, module, log)
    try:
        yield partner
    finally:
        await partner.end()
