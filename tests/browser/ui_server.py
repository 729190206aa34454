"""`gpushare ui` as a process, and the requests of a client that says what it likes."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from tests.kit.cluster.command_line import NOBODY, SOURCE, CommandResult

Json = dict[str, Any]

SNAPSHOT = Path(__file__).with_name("cluster.json")
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class UiServer:
    """A page that is served."""

    url: str
    process: subprocess.Popen[str]

    def read_state(self) -> Json:
        page = urlsplit(self.url)
        assert page.port is not None
        answer = send(page.port, f"{page.path}state", "GET", {})
        assert answer.status == 200, answer
        state: Json = json.loads(answer.body)
        return state

    def end(self, number: int = signal.SIGINT) -> CommandResult:
        """Send it a signal, as Ctrl-C does; how it ended."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=_TIMEOUT_SECONDS)
        return CommandResult(self.process.returncode, out, err)


def send(port: int, path: str, method: str, headers: Mapping[str, str]) -> Answer:
    """One request to a port of this machine; Host is the right one unless `headers` has another."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


@contextmanager
def serve_ui(*arguments: str, kubeconfig: Path | None = None) -> Iterator[UiServer]:
    """`gpushare ui --no-browser ARGUMENTS` for a block, for somebody whose kubeconfig that is."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)}
    if kubeconfig is not None:
        own["KUBECONFIG"] = str(kubeconfig)
    process = subprocess.Popen(
        [sys.executable, "-m", "gpushare", "ui", "--no-browser", *arguments],
        env=NOBODY | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = _pipe(process.stdout).readline().strip()
        assert url, _pipe(process.stderr).read()
        yield UiServer(url, process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            _pipe(pipe).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
