"""The page's program ends when it is told to, whatever it is doing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.ui_server import serve_ui
from tests.kit.cluster.command_line import NOBODY, SOURCE, CommandResult

SNAPSHOT = Path(__file__).parents[2] / "browser/cluster.json"
SIGNALS = [signal.SIGINT, signal.SIGTERM]


@contextmanager
def started(*arguments: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """`gpushare ui ARGUMENTS`, in the background."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpushare", "ui", *arguments],
        env=NOBODY | {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)} | environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe: who opens it waits for the other end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def expect_end(process: subprocess.Popen[bytes], number: int) -> None:
    """It ends at this signal, as if all was done."""
    process.send_signal(number)
    assert process.wait() == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_while_it_reads_a_snapshot_that_takes_long(pipe: Path, number: int) -> None:
    # It opens once both ends are; nothing comes.
    with started("--no-browser", "--snapshot", str(pipe)) as process, pipe.open("wb"):
        expect_end(process, number)


@pytest.mark.parametrize("number", SIGNALS)
def test_while_the_browser_that_it_started_is_open(tmp_path: Path, pipe: Path, number: int) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {pipe}\ncat {pipe}\n')
    browser.chmod(0o755)
    environ = {"DISPLAY": ":0", "BROWSER": f"{browser} %s"}
    with started("--snapshot", str(SNAPSHOT), **environ) as process:
        assert "/open/" in pipe.read_text()
        try:
            expect_end(process, number)
        finally:
            # It ends the browser.
            pipe.write_text("")


@pytest.mark.parametrize("number", SIGNALS)
def test_while_it_serves_without_another_word(number: int) -> None:
    with serve_ui("--snapshot", str(SNAPSHOT)) as shown:
        assert shown.end(number) == CommandResult(0, "", "Press Ctrl-C to stop\n")
