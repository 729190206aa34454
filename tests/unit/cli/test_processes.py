"""What a process of the operator says when it can't start, or ends by a mistake: lines of a log."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.kit.cluster.command_line import start_python
from tests.kit.cluster.kubeconfigs import write_kubeconfig

ROLES = ("controller", "run", "webhook")


def run(*command: str, **environment: str) -> dict[str, Any]:
    """The line that a process writes which ends with status 1 and prints nothing else."""
    ended = start_python(*command, **environment)
    assert (ended.code, ended.out) == (1, "")
    (line,) = ended.err.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize("role", ROLES)
def test_a_setting_of_no_use_is_a_line(role: str) -> None:
    line = run("-m", "gpushare", role, GPUSHARE_METRICS_PORT="many\nports")
    assert line["level"] == "CRITICAL"
    assert "metrics_port" in line["msg"]


def test_a_level_that_does_not_exist_is_a_line() -> None:
    line = run("-m", "gpushare", "controller", GPUSHARE_LOG_LEVEL="LOUD")
    assert "LOUD" in line["msg"]


def test_a_webhook_whose_port_for_metrics_is_taken_says_so_at_once(tmp_path: Path) -> None:
    nowhere = {"server": "http://127.0.0.1:1"}
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"token": "t"}, cluster=nowhere)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = run(
            "-m",
            "gpushare",
            "webhook",
            GPUSHARE_KUBECONFIG=str(kubeconfig),
            GPUSHARE_METRICS_HOST="127.0.0.1",
            GPUSHARE_METRICS_PORT=port,
            GPUSHARE_WEBHOOK_HOST="127.0.0.1",
            GPUSHARE_WEBHOOK_PORT="0",
            GPUSHARE_DRAIN_SECONDS="600",
        )
    assert port in line["msg"]


def test_a_mistake_of_the_program_is_a_line_with_its_traceback() -> None:
    program = (
        "import gpushare.webhook.manager as role\n"
        "async def fail(settings): raise KeyError('unforeseen')\n"
        "role.run_webhook = fail\n"
        "import sys; sys.argv = ['gpushare', 'webhook']\n"
        "from gpushare.cli.main import gpushare; gpushare()\n"
    )
    line = run("-c", program)
    assert "please report it" in line["msg"]
    assert "KeyError: 'unforeseen'" in line["exc_info"]
