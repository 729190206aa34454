"""A program that is told to stop while it is still being read."""

import signal
import subprocess
import sys

import pytest

from tests.kit.cluster.command_line import SOURCE

_PROGRAM = """
import os, sys
os.getpid, mine = lambda: {pid}, os.getpid()

class Stop:
    def find_spec(self, name, *more):
        if name == "gpushare.cli.main":
            os.kill(mine, {number})

from gpushare.cli.start import gpushare
sys.meta_path.insert(0, Stop())
sys.argv[1:] = ["--version"]
gpushare()
"""


def run(pid: int, number: signal.Signals) -> int:
    """How a program ends that takes itself for process `pid`, and is told to stop so."""
    program = _PROGRAM.format(pid=pid, number=int(number))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == (b"", b"")
    return ended.returncode


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_first_process_of_a_container_heeds_it_as_any_other_does(told: signal.Signals) -> None:
    # No stand-in for the kernel: it drops what PID 1 has no handler for, whose exit code says
    # here that there was one.
    assert run(1, told) == 128 + told
    assert run(7, told) == -told
