"""A program that is still being read: it heeds who stops it, and reads no more than it must."""

import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpushare.certs.issue import issue_authority
from tests.kit.cluster.command_line import start_python

_PROGRAM = """
import os, signal, sys
# Who runs the tests in the background may have had it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.getpid, mine = lambda: {pid}, os.getpid()

class Stop:
    def find_spec(self, name, *more):
        if name == "{module}":
            os.kill(mine, {number})

sys.meta_path.insert(0, Stop())
from gpushare.cli.entrypoint import gpushare
sys.argv[1:] = ["--version"]
gpushare()
"""
_ROLES = """
import os
from gpushare.cli.imports import importing
with importing():
    import gpushare.controller.manager, gpushare.webhook.manager
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as default
print(default.cert_store_stats()["x509_ca"], os.environ["SSL_CERT_FILE"])
"""


def run(pid: int, number: signal.Signals, module: str = "gpushare.cli.main") -> int:
    """How a program ends that takes itself for process `pid`, and is told so by an import."""
    ended = start_python("-c", _PROGRAM.format(pid=pid, number=int(number), module=module))
    assert (ended.out, ended.err) == ("", "")
    return ended.code


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_first_process_of_a_container_heeds_it_as_any_other_does(told: signal.Signals) -> None:
    # No stand-in for the kernel: it drops what PID 1 has no handler for, whose exit code says
    # here that there was one.
    assert run(1, told) == 128 + told
    assert run(7, told) == -told


def test_ctrl_c_ends_it_without_a_word_however_early() -> None:
    assert run(7, signal.SIGINT, module="typer") == -signal.SIGINT


def test_a_role_reads_no_ca_of_the_machine_for_contexts_that_it_never_uses(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_bytes(issue_authority(datetime.now(UTC)).certificate_pem)
    ended = start_python("-c", _ROLES, SSL_CERT_FILE=str(authorities))
    assert ended.out.split() == ["0", str(authorities)], ended.err
